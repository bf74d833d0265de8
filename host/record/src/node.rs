//! What a tree holds of a path.

use crate::Hash;
use minicbor::{Decode, Encode};

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Kind {
    /// A regular file.
    #[n(0)]
    File,
    /// A directory.
    #[n(1)]
    Directory,
    /// A symbolic link.
    #[n(2)]
    Symlink,
}

impl Kind {
    /// `file`, `directory` or `symbolic link`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symbolic link",
        }
    }
}

/// The permission bits of a new file where a run sets none.
pub const DEFAULT_FILE_MODE: u16 = 0o644;
/// The permission bits of a new directory where a run sets none, and of the root.
pub const DEFAULT_DIRECTORY_MODE: u16 = 0o755;
/// The bits that a mode may have: who may read, write and execute. Set-user-id, set-group-id and the sticky bit never
/// travel: what a module or another person sets must not act with the rights of whoever syncs.
pub const MODE_MASK: u16 = 0o777;

/// What a version keeps of one path (DESIGN.md §13). A directory's contents are held by the tree, not here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(flat)]
pub enum Node {
    /// A regular file.
    #[n(0)]
    File {
        /// Permission bits.
        #[n(0)]
        mode: u16,
        /// Modification time in nanoseconds since 1970.
        #[n(1)]
        mtime: i64,
        /// Length in bytes.
        #[n(2)]
        length: u64,
        /// Hash of the content.
        #[n(3)]
        hash: Hash,
    },
    /// A directory; it has no stored times.
    #[n(1)]
    Directory {
        /// Permission bits.
        #[n(0)]
        mode: u16,
    },
    /// A symbolic link; its permission bits are always 0777.
    #[n(2)]
    Symlink {
        /// Modification time in nanoseconds since 1970.
        #[n(0)]
        mtime: i64,
        /// The target as the link holds it: data, not a validated path.
        #[cbor(n(1), with = "minicbor::bytes")]
        target: Vec<u8>,
    },
}

impl Node {
    /// The node's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Node::File { .. } => Kind::File,
            Node::Directory { .. } => Kind::Directory,
            Node::Symlink { .. } => Kind::Symlink,
        }
    }

    /// May a tree hold it? A mode has no bits beyond [`MODE_MASK`], and a link has a target that a file system takes.
    pub fn is_valid(&self) -> bool {
        match self {
            Node::File { mode, .. } | Node::Directory { mode } => mode & !MODE_MASK == 0,
            Node::Symlink { target, .. } => crate::limits::is_link_target(target),
        }
    }

    /// Kind and content without metadata, as records compare it.
    pub fn content(&self) -> Content {
        match self {
            Node::File { length, hash, .. } => Content::File { length: *length, hash: *hash },
            Node::Directory { .. } => Content::Directory,
            Node::Symlink { target, .. } => Content::Symlink { target: target.clone() },
        }
    }
}

/// Kind and content of a path, without mode and mtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// A regular file.
    File {
        /// Length in bytes.
        length: u64,
        /// Hash of the content.
        hash: Hash,
    },
    /// A directory, whatever it holds.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The target as the link holds it.
        target: Vec<u8>,
    },
}

impl Content {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            Content::File { .. } => Kind::File,
            Content::Directory => Kind::Directory,
            Content::Symlink { .. } => Kind::Symlink,
        }
    }
}
