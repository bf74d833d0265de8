//! Tree nodes, with a cache that readers and writer share. A node never changes, so a cached one is never wrong; whether
//! a tree is here is asked of the database and not of the cache, which may hold nodes of a transaction that was undone.

use super::{Database, Result, signed};
use crate::StorageError;
use hashlink::LruCache;
use opship_record::Hash;
use opship_record::tree::{NodeStore, References, hash_of, references};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of cached nodes.
const CACHE_BYTES: usize = 64 << 20;

/// The nodes used last, and those that were written while somebody collects.
pub(crate) struct NodeCache(Mutex<Cached>, Mutex<Option<HashSet<Hash>>>);

struct Cached {
    nodes: LruCache<Hash, Arc<[u8]>>,
    bytes: usize,
}

impl Default for NodeCache {
    fn default() -> NodeCache {
        NodeCache(Mutex::new(Cached { nodes: LruCache::new_unbounded(), bytes: 0 }), Mutex::new(None))
    }
}

impl NodeCache {
    /// From now on, and until [`NodeCache::end_collecting`], notes which nodes are written.
    pub(crate) fn begin_collecting(&self) {
        *self.written() = Some(HashSet::new());
    }

    pub(crate) fn end_collecting(&self) {
        *self.written() = None;
    }

    /// Was the node written, maybe once more, since collecting began?
    pub(crate) fn is_written(&self, hash: &Hash) -> bool {
        self.written().as_ref().is_some_and(|written| written.contains(hash))
    }

    fn written(&self) -> MutexGuard<'_, Option<HashSet<Hash>>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nodes.get(hash).cloned()
    }

    fn insert(&self, hash: Hash, bytes: &[u8]) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.bytes += bytes.len();
        let old = cached.nodes.insert(hash, bytes.into());
        cached.bytes -= old.map_or(0, |old| old.len());
        while cached.bytes > CACHE_BYTES {
            let Some((_, gone)) = cached.nodes.remove_lru() else { return };
            cached.bytes -= gone.len();
        }
    }
}

pub(crate) fn load(connection: &Connection, hash: &Hash) -> Result<Option<Vec<u8>>> {
    let mut find = connection.prepare_cached("SELECT bytes FROM node WHERE hash = ?1")?;
    Ok(find.query_row([hash.as_bytes()], |row| row.get(0)).optional()?)
}

fn insert(connection: &Connection, cache: &NodeCache, hash: &Hash, bytes: &[u8]) -> Result<()> {
    if let Some(written) = &mut *cache.written() {
        written.insert(*hash);
    }
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO node (hash, bytes) VALUES (?1, ?2)")?;
    insert.execute(params![hash.as_bytes(), bytes])?;
    Ok(())
}

/// Nodes for reading, outside of the writer.
pub(crate) struct ReadNodes<'a>(pub(crate) &'a Database);

impl NodeStore for ReadNodes<'_> {
    type Error = StorageError;

    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = self.0.nodes.get(hash) {
            return Ok(Some(bytes.to_vec()));
        }
        let found = self.0.read(|connection| load(connection, hash))?;
        if let Some(bytes) = &found {
            self.0.nodes.insert(*hash, bytes);
        }
        Ok(found)
    }

    fn keep(&mut self, _: Hash, _: Vec<u8>) -> Result<()> {
        Err(StorageError::damaged("a tree node was to be kept by a reader"))
    }
}

/// Nodes in the writer. New ones are held back until [`WriteNodes::store`], so that a change that turns out not to fit
/// leaves nothing.
pub(super) struct WriteNodes<'a> {
    connection: &'a Connection,
    cache: &'a NodeCache,
    new: HashMap<Hash, Vec<u8>>,
}

impl<'a> WriteNodes<'a> {
    pub(super) fn new(connection: &'a Connection, cache: &'a NodeCache) -> WriteNodes<'a> {
        WriteNodes { connection, cache, new: HashMap::new() }
    }

    /// Writes the new nodes.
    pub(super) fn store(self) -> Result<()> {
        for (hash, bytes) in self.new {
            insert(self.connection, self.cache, &hash, &bytes)?;
            self.cache.insert(hash, &bytes);
        }
        Ok(())
    }
}

impl NodeStore for WriteNodes<'_> {
    type Error = StorageError;

    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = self.new.get(hash) {
            return Ok(Some(bytes.clone()));
        }
        if let Some(bytes) = self.cache.get(hash) {
            return Ok(Some(bytes.to_vec()));
        }
        let found = load(self.connection, hash)?;
        if let Some(bytes) = &found {
            self.cache.insert(*hash, bytes);
        }
        Ok(found)
    }

    fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> Result<()> {
        self.new.insert(hash, bytes);
        Ok(())
    }
}

/// An uploaded tree, checked as far as it can be without the database.
pub(crate) struct Upload {
    nodes: Vec<(Hash, Vec<u8>)>,
    /// What the nodes refer to and the upload itself does not hold.
    outside: References,
    root: Hash,
}

impl Upload {
    /// Checks nodes, children first; the last one is the root.
    pub(crate) fn check(nodes: Vec<Vec<u8>>) -> Result<Upload> {
        let mut outside = References::default();
        let mut upload =
            Upload { nodes: Vec::new(), outside: References::default(), root: opship_record::tree::empty() };
        let mut here = HashSet::from([upload.root]);
        for bytes in nodes {
            let hash = hash_of(&bytes);
            let found = references(&bytes)
                .map_err(|error| StorageError::Unfit { path: hash.to_string(), detail: error.to_string() })?;
            outside.nodes.extend(found.nodes.into_iter().filter(|child| !here.contains(child)));
            outside.blobs.extend(found.blobs);
            here.insert(hash);
            upload.nodes.push((hash, bytes));
            upload.root = hash;
        }
        upload.outside = outside;
        Ok(upload)
    }
}

/// Stores an uploaded tree, if all that it refers to is in the workspace.
pub(crate) fn store_upload(
    connection: &Connection,
    cache: &NodeCache,
    workspace: i64,
    upload: &Upload,
) -> Result<Hash> {
    let mut missing = Vec::new();
    for hash in &upload.outside.nodes {
        if !use_tree(connection, workspace, hash)? {
            missing.push(*hash);
        }
    }
    let blobs = super::blobs::check_visible(connection, workspace, &upload.outside.blobs)?;
    if !missing.is_empty() || !blobs.is_empty() {
        return Err(StorageError::Incomplete { blobs, nodes: missing });
    }
    let mut name = connection.prepare_cached(
        "INSERT INTO workspace_node (workspace, hash, used) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET used = max(used, excluded.used)",
    )?;
    let used = signed(super::blobs::time_of_use(connection)?);
    for (hash, bytes) in &upload.nodes {
        insert(connection, cache, hash, bytes)?;
        name.execute(params![workspace, hash.as_bytes(), used])?;
    }
    Ok(upload.root)
}

/// Was the tree below this node uploaded through the workspace? The empty tree always was.
pub(crate) fn is_visible(connection: &Connection, workspace: i64, hash: &Hash) -> Result<bool> {
    let mut find = connection.prepare_cached("SELECT 1 FROM workspace_node WHERE workspace = ?1 AND hash = ?2")?;
    Ok(*hash == opship_record::tree::empty() || find.exists(params![workspace, hash.as_bytes()])?)
}

/// As [`is_visible`], and notes that the tree is named.
pub(crate) fn use_tree(connection: &Connection, workspace: i64, hash: &Hash) -> Result<bool> {
    let mut touch =
        connection.prepare_cached("UPDATE workspace_node SET used = ?3 WHERE workspace = ?1 AND hash = ?2")?;
    let used = signed(super::blobs::time_of_use(connection)?);
    let found = touch.execute(params![workspace, hash.as_bytes(), used])?;
    Ok(found > 0 || *hash == opship_record::tree::empty())
}
