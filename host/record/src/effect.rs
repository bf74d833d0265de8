//! What a run did to the tree, or what changed by other means.

use crate::node::{Content, Kind, MODE_MASK};
use crate::{Error, Hash, TreePath, codec, limits};
use minicbor::{Decode, Encode};

mod origins;

pub use origins::Origins;

const LIST_CONTEXT: &str = "opship 1 changes";
const BEFORE_CONTEXT: &str = "opship 1 states before";
const CONTENT_CONTEXT: &str = "opship 1 content after";
const METADATA_CONTEXT: &str = "opship 1 metadata after";

/// One written path with its state before and after. A list of them is sorted by path, each path once.
///
/// The states after are declarative: all `before` states and all [`After::Moved`] sources are of the tree before the
/// run, and the list as a whole turns that tree into the one after it. A path below a moved directory is that of the
/// tree after the move; [`Origins`] says where its state before was. So is the missing component of an absent state
/// before: it is the path or above it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Change {
    /// The path.
    #[n(0)]
    pub path: TreePath,
    /// What was there.
    #[n(1)]
    pub before: Before,
    /// What is there now.
    #[n(2)]
    pub after: After,
}

/// The state of a path before it was written.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Before {
    /// Nothing was there.
    #[n(0)]
    Absent {
        /// The first component that was missing.
        #[n(0)]
        missing: TreePath,
        /// The kind of what stood above it.
        #[n(1)]
        above: Kind,
    },
    /// A file with this content.
    #[n(1)]
    File {
        /// Hash of the content.
        #[n(0)]
        hash: Hash,
    },
    /// A directory, whatever it held.
    #[n(2)]
    Directory,
    /// A symbolic link.
    #[n(3)]
    Symlink {
        /// Its target.
        #[cbor(n(0), with = "minicbor::bytes")]
        target: Vec<u8>,
    },
    /// Something of this kind, whose content the change leaves alone ([`After::Metadata`]).
    #[n(4)]
    Kind {
        /// The kind.
        #[n(0)]
        kind: Kind,
    },
}

impl Before {
    /// The state of an existing path.
    pub fn of(content: &Content) -> Before {
        match content {
            Content::File { hash, .. } => Before::File { hash: *hash },
            Content::Directory => Before::Directory,
            Content::Symlink { target } => Before::Symlink { target: target.clone() },
        }
    }
}

/// The state of a path after it was written. A `mode` of `None` means kept: what stood there keeps its mode, and
/// something new gets the default of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum After {
    /// Nothing is there.
    #[n(0)]
    Removed,
    /// A file.
    #[n(1)]
    File {
        /// Length in bytes.
        #[n(0)]
        length: u64,
        /// Hash of the content.
        #[n(1)]
        hash: Hash,
        /// Permission bits.
        #[n(2)]
        mode: Option<u16>,
        /// Modification time in nanoseconds since 1970.
        #[n(3)]
        mtime: i64,
    },
    /// A directory. One that was there before keeps what it held.
    #[n(2)]
    Directory {
        /// Permission bits.
        #[n(0)]
        mode: Option<u16>,
    },
    /// A symbolic link.
    #[n(3)]
    Symlink {
        /// Its target.
        #[cbor(n(0), with = "minicbor::bytes")]
        target: Vec<u8>,
        /// Modification time in nanoseconds since 1970.
        #[n(1)]
        mtime: i64,
    },
    /// The directory that was at `from`, with all that it held (a rename as an effect of its own). No two changes have
    /// the same `from`. The place that it left is in the list too, with what is there now: `from` itself, or, where a
    /// directory above it moved, the path below that one's new place. Only where another directory has been moved over
    /// one above it, there is no such path, and it is not listed. What a directory held that another is moved over is
    /// not listed either: the run's observations speak of it.
    #[n(4)]
    Moved {
        /// Where it was before the run.
        #[n(0)]
        from: TreePath,
        /// Permission bits, if they were set.
        #[n(1)]
        mode: Option<u16>,
    },
    /// The content is untouched; what is not `None` was set.
    #[n(5)]
    Metadata {
        /// The kind, the same as before.
        #[n(0)]
        kind: Kind,
        /// Permission bits.
        #[n(1)]
        mode: Option<u16>,
        /// Modification time in nanoseconds since 1970; `None` for a directory.
        #[n(2)]
        mtime: Option<i64>,
    },
}

impl After {
    /// The mode that was set, if one was.
    pub fn mode(&self) -> Option<u16> {
        match self {
            After::Removed | After::Symlink { .. } => None,
            After::File { mode, .. }
            | After::Directory { mode }
            | After::Moved { mode, .. }
            | After::Metadata { mode, .. } => *mode,
        }
    }

    /// The modification time that was set, if one was, in nanoseconds since 1970.
    pub fn mtime(&self) -> Option<i64> {
        match self {
            After::File { mtime, .. } | After::Symlink { mtime, .. } => Some(*mtime),
            After::Metadata { mtime, .. } => *mtime,
            After::Removed | After::Directory { .. } | After::Moved { .. } => None,
        }
    }

    /// The file's length and hash where the state is a file with content of its own.
    pub fn blob(&self) -> Option<(u64, Hash)> {
        match self {
            After::File { length, hash, .. } => Some((*length, *hash)),
            _ => None,
        }
    }

    /// The same state without metadata.
    fn without_metadata(&self) -> After {
        let mut after = self.clone();
        match &mut after {
            After::Removed => {}
            After::File { mode, mtime, .. } => (*mode, *mtime) = (None, 0),
            After::Directory { mode } | After::Moved { mode, .. } => *mode = None,
            After::Symlink { mtime, .. } => *mtime = 0,
            After::Metadata { mode, mtime, .. } => (*mode, *mtime) = (None, None),
        }
        after
    }
}

/// The digests of a list of changes as a record carries them; all `None` for an empty list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeDigests {
    /// Of the states before.
    pub before: Option<Hash>,
    /// Of content and kind after.
    pub content: Option<Hash>,
    /// Of modes and times after.
    pub metadata: Option<Hash>,
}

/// The digests of a sorted list of changes.
pub fn digests(changes: &[Change]) -> ChangeDigests {
    if changes.is_empty() {
        return ChangeDigests::default();
    }
    let before: Vec<_> = changes.iter().map(|c| (&c.path, &c.before)).collect();
    let content: Vec<_> = changes.iter().map(|c| (&c.path, c.after.without_metadata())).collect();
    let metadata: Vec<_> = changes.iter().map(|c| (&c.path, c.after.mode(), c.after.mtime())).collect();
    ChangeDigests {
        before: Some(Hash::derive(BEFORE_CONTEXT, &codec::encode(&before))),
        content: Some(Hash::derive(CONTENT_CONTEXT, &codec::encode(&content))),
        metadata: Some(Hash::derive(METADATA_CONTEXT, &codec::encode(&metadata))),
    }
}

/// Digest of the whole list, as a value entry carries it.
pub fn list_digest(changes: &[Change]) -> Hash {
    Hash::derive(LIST_CONTEXT, &encode_list(changes))
}

/// The canonical bytes of a list.
pub fn encode_list(changes: &[Change]) -> Vec<u8> {
    codec::encode(&changes)
}

/// Reads a list from outside.
///
/// # Errors
/// [`Error`] for a list that is too large, malformed, not canonical, not sorted, or has a change that contradicts itself.
pub fn decode_list(bytes: &[u8]) -> Result<Vec<Change>, Error> {
    const WHAT: &str = "list of changes";
    limits::check(WHAT, bytes.len(), limits::MAX_LIST)?;
    let list: Vec<Change> = codec::decode(bytes, WHAT)?;
    if !list.is_sorted_by(|a, b| a.path < b.path) {
        return Err(Error::Inconsistent { what: WHAT, detail: "paths must be sorted and unique" });
    }
    list.iter().try_for_each(check_change)?;
    Origins::new(&list).check_moves().map_err(|(_, detail)| Error::Inconsistent { what: WHAT, detail })?;
    Ok(list)
}

fn check_change(change: &Change) -> Result<(), Error> {
    let refuse = |detail| Err(Error::Inconsistent { what: "change", detail });
    if change.path.is_root() {
        return refuse("the root itself cannot be changed");
    }
    if change.after.mode().is_some_and(|mode| mode & !MODE_MASK != 0) {
        return refuse("a mode has bits beyond 777");
    }
    if let Before::Absent { missing, .. } = &change.before
        && (missing.is_root() || !change.path.starts_with(missing))
    {
        return refuse("the missing component must be the path or above it");
    }
    let before = match &change.before {
        Before::Symlink { target } => Some(target),
        _ => None,
    };
    let after = match &change.after {
        After::Symlink { target, .. } => Some(target),
        _ => None,
    };
    if before.into_iter().chain(after).any(|target| !limits::is_link_target(target)) {
        return refuse("a link target is empty, too long or holds a NUL");
    }
    match (&change.before, &change.after) {
        (Before::Absent { .. }, After::Removed) => refuse("nothing was there to remove"),
        (Before::Kind { kind: before }, After::Metadata { kind, mode, mtime }) if before == kind => match kind {
            Kind::Directory if mtime.is_some() => refuse("a directory has no stored modification time"),
            Kind::Symlink if mode.is_some() => refuse("a symbolic link has no mode of its own"),
            _ => Ok(()),
        },
        (_, After::Metadata { .. }) | (Before::Kind { .. }, _) => refuse("a metadata change states the kind before"),
        (_, After::Moved { from, .. }) if from.is_root() => refuse("the root itself cannot be moved"),
        _ => Ok(()),
    }
}
