//! A stored tree as the world reads it.

use crate::check::{self, Unmet};
use crate::in_use::Held;
use crate::sqlite::nodes::ReadNodes;
use crate::store::Inner;
use crate::{Scope, StorageError};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind, Node};
use opship_record::record::Lists;
use opship_record::tree::{self, NodeStore, TreeEntry, TreeError};
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, SourceError, SourceNode, TreeSource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A tree of a version or mount, seen through a scope. It keeps the store open.
#[derive(Clone)]
pub struct TreeView {
    inner: Arc<Inner>,
    scope: Scope,
    root: Hash,
    _held: Arc<Held>,
}

impl std::fmt::Debug for TreeView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TreeView({})", self.root)
    }
}

/// Takes a node of a tree that is exported.
type FoundNode<'a> = dyn FnMut(&Hash, Vec<u8>) -> Result<(), StorageError> + 'a;

impl TreeView {
    pub(crate) fn new(inner: Arc<Inner>, scope: Scope, root: Hash, held: Held) -> TreeView {
        TreeView { inner, scope, root, _held: Arc::new(held) }
    }

    /// Hash of the root directory's node.
    pub fn root(&self) -> Hash {
        self.root
    }

    /// What is at a path; `None` if nothing is. The root itself has no entry.
    ///
    /// # Errors
    /// [`StorageError`] if the tree is damaged or the database fails.
    pub fn lookup(&self, path: &TreePath) -> Result<Option<TreeEntry>, StorageError> {
        Ok(tree::lookup(&self.nodes(), &self.root, path)?)
    }

    /// The entries of a directory, in byte order of their names.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if it is no directory; as [`TreeView::lookup`].
    pub fn entries(&self, path: &TreePath) -> Result<Vec<TreeEntry>, StorageError> {
        let directory = match self.lookup(path)? {
            None if path.is_root() => self.root,
            Some(TreeEntry { node: Node::Directory { .. }, children, .. }) => children,
            _ => return Err(StorageError::not_found("directory", path.as_str())),
        };
        Ok(tree::list(&self.nodes(), &directory)?)
    }

    /// The first of a run's observations and states before that does not hold on this tree.
    ///
    /// # Errors
    /// As [`TreeView::lookup`].
    pub fn unmet(&self, lists: &Lists) -> Result<Option<Unmet>, StorageError> {
        Ok(check::unmet(&self.nodes(), &self.root, lists)?)
    }

    /// Passes on the bytes of every node of the tree, each once, children before parents, the root last: the form in
    /// which [`crate::Store::put_tree`] takes them.
    ///
    /// # Errors
    /// As [`TreeView::lookup`], and whatever `found` returns.
    pub fn export(&self, found: &mut FoundNode<'_>) -> Result<(), StorageError> {
        let nodes = self.nodes();
        let mut seen = BTreeSet::new();
        let mut work = vec![(self.root, None)];
        while let Some((hash, opened)) = work.pop() {
            if let Some(bytes) = opened {
                found(&hash, bytes)?;
            } else if seen.insert(hash) {
                let bytes = nodes
                    .node(&hash)?
                    .ok_or_else(|| StorageError::damaged(TreeError::<StorageError>::Missing(hash)))?;
                let below = tree::references(&bytes).map_err(StorageError::damaged)?.nodes;
                work.push((hash, Some(bytes)));
                work.extend(below.into_iter().map(|hash| (hash, None)));
            }
        }
        Ok(())
    }

    fn nodes(&self) -> ReadNodes<'_> {
        ReadNodes(&self.inner.database)
    }

    fn content(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, StorageError> {
        let Some(TreeEntry { node: Node::File { hash, .. }, .. }) = self.lookup(path)? else {
            return Err(StorageError::not_found("file", path.as_str()));
        };
        // A tree's blobs are visible in its workspace; that was checked when the tree came in.
        let content = self.inner.open_blob(&self.scope, &hash)?;
        let content = content.ok_or_else(|| StorageError::damaged(format!("blob {hash} is missing")))?;
        Ok(Arc::new(content))
    }
}

impl TreeSource for TreeView {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        if path.is_root() {
            return Ok(Some(SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE }));
        }
        let entry = self.lookup(path).map_err(|error| failed(path, &error))?;
        Ok(entry.map(|entry| entry.node.into()))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let entries = self.entries(path).map_err(|error| failed(path, &error))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.node.kind())).collect())
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        self.content(path).map_err(|error| failed(path, &error))
    }
}

fn failed(path: &TreePath, error: &StorageError) -> SourceError {
    SourceError { path: path.to_string(), detail: error.to_string(), changed: false }
}
