//! What a world reads from: trees and contents that somebody else holds.

use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// A tree that a world stands on. It does not change while the world lives: an implementation over live files notices
/// when they change and says so with [`SourceError`].
pub trait TreeSource: Send + Sync {
    /// What is at `path`, `None` if nothing. The root is always a directory. Symbolic links are not followed, and
    /// a path below something that is no directory does not exist.
    ///
    /// # Errors
    /// [`SourceError`] if that cannot be told; the run ends.
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError>;

    /// Names and kinds in the directory `path`, in byte order of the names.
    ///
    /// # Errors
    /// [`SourceError`], also if `path` is no directory.
    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError>;

    /// The content of the file `path`, opened lazily and read by range.
    ///
    /// # Errors
    /// [`SourceError`], also if `path` is no file.
    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError>;
}

/// What a source holds of a path: as [`Node`], but without the content's hash, which may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceNode {
    /// A regular file.
    File {
        /// Permission bits.
        mode: u16,
        /// Modification time in nanoseconds since 1970.
        mtime: i64,
        /// Length in bytes.
        length: u64,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u16,
    },
    /// A symbolic link.
    Symlink {
        /// Modification time in nanoseconds since 1970.
        mtime: i64,
        /// The target as the link holds it.
        target: Vec<u8>,
    },
}

impl SourceNode {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            SourceNode::File { .. } => Kind::File,
            SourceNode::Directory { .. } => Kind::Directory,
            SourceNode::Symlink { .. } => Kind::Symlink,
        }
    }
}

impl From<Node> for SourceNode {
    fn from(node: Node) -> SourceNode {
        match node {
            Node::File { mode, mtime, length, .. } => SourceNode::File { mode, mtime, length },
            Node::Directory { mode } => SourceNode::Directory { mode },
            Node::Symlink { mtime, target } => SourceNode::Symlink { mtime, target },
        }
    }
}

/// Bytes that can be read at any place and do not change.
pub trait FileContent: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> u64;

    /// Hash of all the bytes; may read them.
    ///
    /// # Errors
    /// [`SourceError`] if they cannot be read.
    fn hash(&self) -> Result<Hash, SourceError>;

    /// Reads into `buffer` from `offset` on and says how many bytes were read: fewer than asked for only at the end, 0
    /// at or behind it.
    ///
    /// # Errors
    /// [`SourceError`] if they cannot be read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError>;

    /// The file whose bytes these are, where there is one of its own, so that a copy can share its blocks. It may have been
    /// changed since: whoever copies it compares the copy's hash.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// A content in memory.
#[derive(Debug, Clone)]
pub struct MemoryContent(Arc<[u8]>);

impl MemoryContent {
    /// Wraps bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> MemoryContent {
        MemoryContent(bytes.into())
    }
}

impl FileContent for MemoryContent {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(Hash::of(&self.0))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A source could not give what the run asked for. The run ends, changes nothing and is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{path}' cannot be used: {detail}")]
pub struct SourceError {
    /// The path, as the source knows it.
    pub path: String,
    /// What happened and what to do next.
    pub detail: String,
    /// Did the file change while it was used? Then running again may help.
    pub changed: bool,
}

/// Where contents go that are too large for memory.
pub trait Spill: Send + Sync {
    /// Makes an empty file that can be read and written.
    ///
    /// # Errors
    /// The operating system's, for example when the disk is full.
    fn create(&self) -> std::io::Result<SpillFile>;

    /// Another piece of [`SPILL_PIECE`] bytes or more was written to a file. Whoever shares the disk with others may write it
    /// back now, so that nobody else's durable write waits for all of it.
    ///
    /// # Errors
    /// The operating system's, for example when the disk is full.
    fn written(&self, _file: &File) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes of the pieces of which [`Spill::written`] is told.
pub const SPILL_PIECE: usize = 1 << 20;

/// A file on disk that holds a produced content. Dropping it removes the file, unless its path was taken.
#[derive(Debug)]
pub struct SpillFile {
    /// The open file.
    pub file: File,
    /// Its path, if it has one, for moving it into place.
    pub path: Option<PathBuf>,
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // Staging folders are cleared at the next start; a file that is gone already is fine.
            let _ = std::fs::remove_file(path);
        }
    }
}
