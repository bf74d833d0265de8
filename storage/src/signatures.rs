//! The public calls; being filled in.
#![allow(unused_variables, clippy::unimplemented, missing_docs)]
use crate::*;
use bytes::Bytes;
use futures::Stream;
use opship_record::entry::ClientId;
use opship_record::node::Node;
use opship_record::tree::TreeEntry;
use opship_record::version::Version;
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, Produced, SourceError, SourceNode, Spill, SpillFile, TreeSource};
use opship_record::node::Kind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest blob, in bytes, that is packed in the database.
pub const SMALL_BLOB: usize = 32 << 10;

/// The bytes of a blob; read them with [`FileContent::read_at`].
#[derive(Clone)]
pub struct BlobContent {}
impl FileContent for BlobContent {
    fn length(&self) -> u64 { unimplemented!() }
    fn hash(&self) -> Result<Hash, SourceError> { unimplemented!() }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> { unimplemented!() }
}

/// Where replays put large outputs: a folder of the data directory, cleared at each start.
#[derive(Clone, Debug)]
pub struct Staging {}
impl Spill for Staging {
    fn create(&self) -> std::io::Result<SpillFile> { unimplemented!() }
}

/// A tree of a version or mount.
#[derive(Clone)]
pub struct TreeView {}
impl TreeView {
    pub fn root(&self) -> Hash { unimplemented!() }
    /// The root itself has no entry.
    pub fn lookup(&self, path: &TreePath) -> Result<Option<TreeEntry>, StorageError> { unimplemented!() }
    /// In byte order of the names; an error if it is no directory.
    pub fn entries(&self, path: &TreePath) -> Result<Vec<TreeEntry>, StorageError> { unimplemented!() }
}
impl TreeSource for TreeView {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> { unimplemented!() }
    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> { unimplemented!() }
    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> { unimplemented!() }
}

type R<T> = Result<T, StorageError>;

/// The store.
#[derive(Clone)]
pub struct Store {}
impl Store {
    pub fn open(data: &Path) -> R<Store> { unimplemented!() }
    pub fn admin_token_file(&self) -> PathBuf { unimplemented!() }
    pub fn staging(&self) -> Staging { unimplemented!() }

    pub fn authenticate(&self, token: &str) -> R<Option<Principal>> { unimplemented!() }
    /// Makes (or finds) the principal and gives it a new token; `expires` in milliseconds since 1970.
    pub fn create_token(&self, by: &Principal, name: &str, expires: Option<u64>) -> R<String> { unimplemented!() }
    pub fn grant(&self, by: &Scope, name: &str, role: Option<Role>) -> R<()> { unimplemented!() }
    pub fn create_workspace(&self, by: &Principal, name: &str) -> R<Scope> { unimplemented!() }
    pub fn workspaces(&self, by: &Principal) -> R<Vec<WorkspaceInfo>> { unimplemented!() }
    /// NotFound if it is not visible, Forbidden if the role is too low. The scope has the principal's full role.
    pub fn scope(&self, by: &Principal, name: &str, needed: Role) -> R<Scope> { unimplemented!() }

    pub fn head(&self, scope: &Scope) -> R<Version> { unimplemented!() }
    pub fn version(&self, scope: &Scope, number: u64) -> R<Option<Version>> { unimplemented!() }
    pub fn version_by_id(&self, scope: &Scope, id: &Hash) -> R<Option<Version>> { unimplemented!() }
    /// Newest first, below `before`.
    pub fn versions(&self, scope: &Scope, before: Option<u64>, limit: usize) -> R<Vec<Version>> { unimplemented!() }
    /// `None` if no version of the workspace and no tree uploaded through it has this root.
    pub fn tree(&self, scope: &Scope, root: &Hash) -> R<Option<TreeView>> { unimplemented!() }
    pub fn diff(
        &self, scope: &Scope, from: &Hash, to: &Hash,
        found: &mut dyn FnMut(&TreePath, Option<&Node>, Option<&Node>) -> R<()>,
    ) -> R<()> { unimplemented!() }

    /// Streams in, verifies, makes durable. Gives the length.
    pub async fn put_blob<S, E>(&self, scope: &Scope, expected: Hash, limit: u64, bytes: S) -> R<u64>
    where S: Stream<Item = Result<Bytes, E>> + Send + Unpin, E: std::fmt::Display { unimplemented!() }
    pub fn put_blob_bytes(&self, scope: &Scope, bytes: &[u8]) -> R<Hash> { unimplemented!() }
    /// What a replay made, of any size. (Small ones better travel in `Commit::small_blobs`.)
    pub fn put_produced(&self, scope: &Scope, produced: &Produced) -> R<()> { unimplemented!() }
    pub fn missing_blobs(&self, scope: &Scope, hashes: &[Hash]) -> R<Vec<Hash>> { unimplemented!() }
    pub fn blob_length(&self, scope: &Scope, hash: &Hash) -> R<Option<u64>> { unimplemented!() }
    pub fn open_blob(&self, scope: &Scope, hash: &Hash) -> R<Option<BlobContent>> { unimplemented!() }
    /// Children first; the last is the root.
    pub fn put_tree(&self, scope: &Scope, nodes: Vec<Vec<u8>>) -> R<Hash> { unimplemented!() }
    /// Was this tree uploaded through the workspace (with all below it)?
    pub fn has_tree(&self, scope: &Scope, hash: &Hash) -> R<bool> { unimplemented!() }

    pub fn register_module(&self, scope: &Scope, module: &ModuleInfo) -> R<()> { unimplemented!() }
    /// Was there one?
    pub fn remove_module(&self, scope: &Scope, name: &str) -> R<bool> { unimplemented!() }
    pub fn modules(&self, scope: &Scope) -> R<Vec<ModuleInfo>> { unimplemented!() }
    pub fn resolve_module(&self, scope: &Scope, name: &str) -> R<Option<ModuleInfo>> { unimplemented!() }
    pub fn install_standard(&self, name: &str, bytes: &[u8]) -> R<Hash> { unimplemented!() }
    pub fn module_content(&self, scope: &Scope, hash: &Hash) -> R<Option<BlobContent>> { unimplemented!() }

    pub fn entry(&self, scope: &Scope, client: &ClientId, sequence: u64) -> R<Option<StoredEntry>> { unimplemented!() }
    pub fn entry_by_id(&self, scope: &Scope, id: i64) -> R<Option<EntryDetail>> { unimplemented!() }
    pub fn entries(&self, scope: &Scope, filter: &EntryFilter) -> R<Vec<StoredEntry>> { unimplemented!() }
    pub fn commit(&self, scope: &Scope, commit: Commit) -> R<Committed> { unimplemented!() }
    pub async fn commit_async(&self, scope: &Scope, commit: Commit) -> R<Committed> { unimplemented!() }
    pub fn finish(&self, scope: &Scope, finish: Finish) -> R<Committed> { unimplemented!() }
    pub async fn finish_async(&self, scope: &Scope, finish: Finish) -> R<Committed> { unimplemented!() }
    /// Events above `after`, oldest first.
    pub fn events(&self, scope: &Scope, after: i64, limit: usize) -> R<Vec<Event>> { unimplemented!() }
    /// Changes whenever an entry of any workspace has ended; carries the number of the last event.
    pub fn watch(&self) -> tokio::sync::watch::Receiver<i64> { unimplemented!() }
}
