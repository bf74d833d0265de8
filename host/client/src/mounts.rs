//! Resource folders of modules: read-only trees kept under `.opship/mounts`, addressed by hash.

use crate::ClientError;
use opship_record::effect::{After, Before, Change};
use opship_record::node::{Kind, MODE_MASK, Node};
use opship_record::tree::{self, NodeStore, TreeEntry, TreeError};
use opship_record::{Hash, Hasher, TreePath};
use opship_world::{FileContent, SourceError, SourceNode, TreeSource, read_fully_at};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All that a mount's tree holds.
#[derive(Debug)]
pub struct Closure {
    /// The nodes' bytes, children before parents.
    pub nodes: Vec<Vec<u8>>,
    /// The contents, with their lengths in bytes.
    pub blobs: Vec<(Hash, u64)>,
}

/// Trees and contents of mounts.
#[derive(Debug, Clone)]
pub struct MountStore {
    folder: PathBuf,
}

impl MountStore {
    /// The store in a working copy's own folder; made when it is first written to.
    pub fn new(own_folder: &Path) -> MountStore {
        MountStore { folder: own_folder.join("mounts") }
    }

    fn node_path(&self, hash: &Hash) -> PathBuf {
        self.folder.join("nodes").join(hash.to_string())
    }

    /// Where a content of a mount lies.
    pub fn blob_path(&self, hash: &Hash) -> PathBuf {
        self.folder.join("blobs").join(hash.to_string())
    }

    /// Takes a copy of a folder and gives its tree's hash. Modes, links and contents are kept; modification times are not,
    /// so that two installations of one toolchain are one tree.
    ///
    /// # Errors
    /// [`ClientError::Read`] names what cannot be read or cannot be in a tree.
    pub fn import(&mut self, folder: &Path) -> Result<Hash, ClientError> {
        for part in ["nodes", "blobs"] {
            fs::create_dir_all(self.folder.join(part)).map_err(|e| write_failed(&self.folder, &e))?;
        }
        let mut changes = Vec::new();
        self.import_folder(folder, &TreePath::root(), &mut changes)?;
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        tree::apply(self, &tree::empty(), &changes).map_err(|error| damaged(folder, &error))
    }

    fn import_folder(&self, folder: &Path, path: &TreePath, changes: &mut Vec<Change>) -> Result<(), ClientError> {
        for entry in fs::read_dir(folder).map_err(|e| read_failed(folder, &e))? {
            let entry = entry.map_err(|e| read_failed(folder, &e))?;
            let file = entry.path();
            let name = TreePath::from_bytes(entry.file_name().as_bytes()).map_err(|e| read_failed(&file, &e))?;
            let path = path.append(&name).map_err(|e| read_failed(&file, &e))?;
            let metadata = fs::symlink_metadata(&file).map_err(|e| read_failed(&file, &e))?;
            let mode = Some(metadata.permissions().mode() as u16 & MODE_MASK);
            let after = if metadata.is_dir() {
                self.import_folder(&file, &path, changes)?;
                After::Directory { mode }
            } else if metadata.is_symlink() {
                let target = fs::read_link(&file).map_err(|e| read_failed(&file, &e))?;
                After::Symlink { target: target.as_os_str().as_bytes().to_vec(), mtime: 0 }
            } else if metadata.is_file() {
                let (hash, length) = self.import_file(&file)?;
                After::File { length, hash, mode, mtime: 0 }
            } else {
                return Err(read_failed(&file, &"it is no file, folder or link; take it out of the folder"));
            };
            let before = Before::Absent { missing: path.clone(), above: Kind::Directory };
            changes.push(Change { path, before, after });
        }
        Ok(())
    }

    fn import_file(&self, file: &Path) -> Result<(Hash, u64), ClientError> {
        let mut source = File::open(file).map_err(|e| read_failed(file, &e))?;
        let blobs = self.folder.join("blobs");
        let mut copy = tempfile::NamedTempFile::new_in(&blobs).map_err(|e| write_failed(&blobs, &e))?;
        let (mut hasher, mut length, mut buffer) = (Hasher::new(), 0, vec![0; 256 << 10]);
        loop {
            let count = source.read(&mut buffer).map_err(|e| read_failed(file, &e))?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            length += count as u64;
            copy.write_all(&buffer[..count]).map_err(|e| write_failed(copy.path(), &e))?;
        }
        let hash = hasher.finish();
        copy.persist(self.blob_path(&hash)).map_err(|e| write_failed(&blobs, &e.error))?;
        Ok((hash, length))
    }

    /// Writes a content that came from the server, verified.
    ///
    /// # Errors
    /// [`ClientError::Write`].
    pub fn blob_sink(&self) -> Result<tempfile::NamedTempFile, ClientError> {
        let blobs = self.folder.join("blobs");
        fs::create_dir_all(&blobs).map_err(|e| write_failed(&blobs, &e))?;
        tempfile::NamedTempFile::new_in(&blobs).map_err(|e| write_failed(&blobs, &e))
    }

    /// All that a tree holds.
    ///
    /// # Errors
    /// [`ClientError::Read`] if a node is missing or damaged.
    pub fn closure(&self, root: &Hash) -> Result<Closure, ClientError> {
        let (mut nodes, mut blobs, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        self.close_over(root, &mut nodes, &mut blobs, &mut seen)?;
        Ok(Closure { nodes, blobs: blobs.into_iter().collect() })
    }

    fn close_over(
        &self,
        hash: &Hash,
        nodes: &mut Vec<Vec<u8>>,
        blobs: &mut BTreeSet<(Hash, u64)>,
        seen: &mut BTreeSet<Hash>,
    ) -> Result<(), ClientError> {
        if !seen.insert(*hash) {
            return Ok(());
        }
        let path = self.node_path(hash);
        let bytes = match self.node(hash).map_err(|e| read_failed(&path, &e))? {
            Some(bytes) => bytes,
            None if *hash == tree::empty() => tree::empty_node(),
            None => return Err(read_failed(&path, &"it is missing; run 'opship module add' again")),
        };
        let references = tree::references(&bytes).map_err(|e| read_failed(&path, &e))?;
        for child in &references.nodes {
            self.close_over(child, nodes, blobs, seen)?;
        }
        blobs.extend(references.blobs);
        nodes.push(bytes);
        Ok(())
    }

    /// The tree as a world reads it.
    pub fn tree(&self, root: Hash) -> MountTree {
        MountTree { store: self.clone(), root }
    }
}

impl NodeStore for MountStore {
    type Error = io::Error;

    fn node(&self, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.node_path(hash)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> io::Result<()> {
        let nodes = self.folder.join("nodes");
        fs::create_dir_all(&nodes)?;
        let mut file = tempfile::NamedTempFile::new_in(&nodes)?;
        file.write_all(&bytes)?;
        file.persist(self.node_path(&hash)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// A mount's tree.
#[derive(Debug)]
pub struct MountTree {
    store: MountStore,
    root: Hash,
}

impl MountTree {
    fn entry(&self, path: &TreePath) -> Result<Option<TreeEntry>, SourceError> {
        tree::lookup(&self.store, &self.root, path).map_err(|error| source_error(path, &error))
    }
}

impl TreeSource for MountTree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        if path.is_root() {
            return Ok(Some(SourceNode::Directory { mode: opship_record::node::DEFAULT_DIRECTORY_MODE }));
        }
        Ok(self.entry(path)?.map(|entry| entry.node.into()))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let directory = match self.entry(path)? {
            _ if path.is_root() => self.root,
            Some(entry) if entry.node.kind() == Kind::Directory => entry.children,
            _ => return Err(source_error(path, &"it is no directory")),
        };
        let entries = tree::list(&self.store, &directory).map_err(|error| source_error(path, &error))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.node.kind())).collect())
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let Some(TreeEntry { node: Node::File { hash, length, .. }, .. }) = self.entry(path)? else {
            return Err(source_error(path, &"it is no file"));
        };
        let file = File::open(self.store.blob_path(&hash)).map_err(|error| source_error(path, &error))?;
        if file.metadata().map_err(|error| source_error(path, &error))?.size() != length {
            return Err(source_error(path, &"its copy is damaged; run 'opship module add' again"));
        }
        Ok(Arc::new(MountContent { file, hash, length, path: path.clone() }))
    }
}

#[derive(Debug)]
struct MountContent {
    file: File,
    hash: Hash,
    length: u64,
    path: TreePath,
}

impl FileContent for MountContent {
    fn length(&self) -> u64 {
        self.length
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        read_fully_at(&self.file, offset, buffer).map_err(|error| source_error(&self.path, &error))
    }
}

fn source_error(path: &TreePath, detail: &dyn std::fmt::Display) -> SourceError {
    SourceError { path: path.to_string(), detail: detail.to_string(), changed: false }
}

fn read_failed(path: &Path, detail: &dyn std::fmt::Display) -> ClientError {
    ClientError::Read { path: path.display().to_string(), detail: detail.to_string() }
}

fn write_failed(path: &Path, detail: &dyn std::fmt::Display) -> ClientError {
    ClientError::Write { path: path.display().to_string(), detail: detail.to_string() }
}

fn damaged(folder: &Path, error: &TreeError<io::Error>) -> ClientError {
    read_failed(folder, error)
}
