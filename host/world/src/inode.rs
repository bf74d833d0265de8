//! What the world holds of a file, directory or link.

use crate::FileContent;
use crate::body::Body;
use opship_record::TreePath;
use opship_record::node::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type InodeId = usize;
pub(crate) const ROOT: InodeId = 0;

/// The tree that something belongs to. Names and renames stay inside one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm {
    /// The workspace's tree, the only one that is observed and changed.
    Tree,
    /// `/tmp` of a run whose tree has none.
    Scratch,
    /// A read-only tree, by index.
    Mount(usize),
}

pub(crate) struct Inode {
    pub(crate) realm: Realm,
    /// Where its source holds it, in the tree before the run; `None` for what the run made.
    pub(crate) origin: Option<TreePath>,
    /// The number that the guest sees; 0 until it has seen one.
    pub(crate) number: u64,
    /// Names that lead to it.
    pub(crate) names: u32,
    /// Descriptors open on it.
    pub(crate) opens: u32,
    pub(crate) mode: u16,
    pub(crate) mode_set: bool,
    /// Nanoseconds since 1970; not used for directories.
    pub(crate) mtime: i64,
    pub(crate) mtime_set: bool,
    pub(crate) accessed: Accessed,
    pub(crate) node: Node,
}

/// What stat shows as the time of the last access. Reading does not move it, and no tree keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Accessed {
    /// The modification time.
    #[default]
    Modified,
    /// What the run set, or when it made or wrote what is there.
    Own(i64),
    /// The source's modification time, from before the run set that alone.
    Source(i64),
}

pub(crate) enum Node {
    File(FileNode),
    Directory(DirectoryNode),
    Symlink(Vec<u8>),
}

#[derive(Default)]
pub(crate) struct FileNode {
    /// The source's content, once it was opened.
    pub(crate) content: Option<Arc<dyn FileContent>>,
    /// Length of the source's content in bytes.
    pub(crate) length: u64,
    /// What the run made of it, from its first write on. Boxed: with its hasher it is large, and most files have none.
    pub(crate) produced: Option<Box<Body>>,
    /// Was its content recorded as observed?
    pub(crate) observed: bool,
}

/// A directory: what its source holds below its origin, overlaid with `entries`.
#[derive(Default)]
pub(crate) struct DirectoryNode {
    pub(crate) parent: InodeId,
    /// Its name there.
    pub(crate) name: String,
    /// Names that were looked up and are there, or, as `None`, that the run removed.
    pub(crate) entries: BTreeMap<String, Option<InodeId>>,
    /// Inode numbers that were shown in a listing before the name was looked up.
    pub(crate) listed: BTreeMap<String, u64>,
}

impl Inode {
    pub(crate) fn kind(&self) -> Kind {
        match self.node {
            Node::File(_) => Kind::File,
            Node::Directory(_) => Kind::Directory,
            Node::Symlink(_) => Kind::Symlink,
        }
    }

    /// Length in bytes as stat shows it.
    pub(crate) fn length(&self) -> u64 {
        match &self.node {
            Node::File(file) => file.produced.as_ref().map_or(file.length, |body| body.length()),
            Node::Directory(_) => 0,
            Node::Symlink(target) => target.len() as u64,
        }
    }

    pub(crate) fn file(&self) -> Option<&FileNode> {
        match &self.node {
            Node::File(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&DirectoryNode> {
        match &self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Its place in the workspace's tree before the run.
    pub(crate) fn tree_origin(&self) -> Option<&TreePath> {
        self.origin.as_ref().filter(|_| self.realm == Realm::Tree)
    }
}
