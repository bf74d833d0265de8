//! A tree in memory: for mounts made on the fly, for examples and for tests.

use crate::{FileContent, MemoryContent, SourceError, SourceNode, TreeSource};
use opship_record::TreePath;
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A [`TreeSource`] that is built up in memory.
///
/// ```
/// use opship_world::{MemoryTree, TreeSource};
///
/// let tree = MemoryTree::new().file("a/b", b"text").symlink("a/l", "b");
/// assert_eq!(tree.list(&"a".parse()?)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryTree {
    nodes: BTreeMap<TreePath, (SourceNode, Arc<[u8]>)>,
}

impl Default for MemoryTree {
    fn default() -> MemoryTree {
        let root = SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE };
        MemoryTree { nodes: BTreeMap::from([(TreePath::root(), (root, Arc::from([])))]) }
    }
}

impl MemoryTree {
    /// An empty tree.
    pub fn new() -> MemoryTree {
        MemoryTree::default()
    }

    /// With a file of mode 0644 and mtime 0. A path that is not valid is left out.
    #[must_use]
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> MemoryTree {
        self.file_with(path, content, DEFAULT_FILE_MODE, 0)
    }

    /// With a file; `mtime` in nanoseconds since 1970. A path that is not valid is left out.
    #[must_use]
    pub fn file_with(self, path: &str, content: impl AsRef<[u8]>, mode: u16, mtime: i64) -> MemoryTree {
        let content: Arc<[u8]> = content.as_ref().into();
        let length = content.len() as u64;
        self.node(path, SourceNode::File { mode, mtime, length }, content)
    }

    /// With an empty directory of mode 0755. A path that is not valid is left out.
    #[must_use]
    pub fn directory(self, path: &str) -> MemoryTree {
        self.node(path, SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE }, Arc::from([]))
    }

    /// With a symbolic link of mtime 0. A path that is not valid is left out.
    #[must_use]
    pub fn symlink(self, path: &str, target: impl AsRef<[u8]>) -> MemoryTree {
        self.node(path, SourceNode::Symlink { mtime: 0, target: target.as_ref().to_vec() }, Arc::from([]))
    }

    /// Everything in it, the root first.
    pub fn nodes(&self) -> impl Iterator<Item = (&TreePath, &SourceNode, &[u8])> {
        self.nodes.iter().map(|(path, (node, content))| (path, node, &content[..]))
    }

    /// Puts a node in place and makes the directories above it.
    fn node(mut self, path: &str, node: SourceNode, content: Arc<[u8]>) -> MemoryTree {
        let Ok(path) = TreePath::new(path) else { return self };
        let mut above = path.parent();
        while let Some(directory) = above {
            above = directory.parent();
            let new = SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE };
            self.nodes.entry(directory).or_insert((new, Arc::from([])));
        }
        self.nodes.insert(path, (node, content));
        self
    }

    fn error(path: &TreePath, detail: &str) -> SourceError {
        SourceError { path: path.to_string(), detail: detail.to_owned(), changed: false }
    }
}

impl TreeSource for MemoryTree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        Ok(self.nodes.get(path).map(|(node, _)| node.clone()))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        if !matches!(self.nodes.get(path), Some((SourceNode::Directory { .. }, _))) {
            return Err(MemoryTree::error(path, "it is no directory"));
        }
        let below = self.nodes.range(path.clone()..).skip(1).take_while(|(other, _)| {
            other.starts_with(path) || !path.is_root() && other.as_str().starts_with(path.as_str())
        });
        let mut names: Vec<(String, Kind)> = below
            .filter(|(other, _)| other.parent().as_ref() == Some(path))
            .filter_map(|(other, (node, _))| Some((other.name()?.to_owned(), node.kind())))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        match self.nodes.get(path) {
            Some((SourceNode::File { .. }, content)) => Ok(Arc::new(MemoryContent::new(Arc::clone(content)))),
            _ => Err(MemoryTree::error(path, "it is no file")),
        }
    }
}
