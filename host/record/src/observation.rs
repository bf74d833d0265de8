//! What a run depended on.

use crate::node::{Kind, MODE_MASK};
use crate::{Error, Hash, TreePath, codec, limits};
use minicbor::{Decode, Encode};

const LIST_CONTEXT: &str = "opship 1 observations";
const LISTING_CONTEXT: &str = "opship 1 directory listing";

/// One thing that a run saw of the tree as it was before the run. A list of them is sorted, by kind of observation and
/// then by path, and holds one item of a kind for a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(flat)]
pub enum Observation {
    /// The file's content, whole or in part (opening for writing without truncation counts).
    #[n(0)]
    Content {
        /// The file.
        #[n(0)]
        path: TreePath,
        /// Hash of its whole content.
        #[n(1)]
        hash: Hash,
    },
    /// Kind, mode, mtime and size.
    #[n(1)]
    Metadata {
        /// The path.
        #[n(0)]
        path: TreePath,
        /// Its kind.
        #[n(1)]
        kind: Kind,
        /// Its permission bits.
        #[n(2)]
        mode: u16,
        /// Its modification time in nanoseconds since 1970; 0 for a directory.
        #[n(3)]
        mtime: i64,
        /// Its length in bytes; that of the target for a symbolic link, 0 for a directory.
        #[n(4)]
        size: u64,
    },
    /// The path did not exist.
    #[n(2)]
    Absent {
        /// The path.
        #[n(0)]
        path: TreePath,
        /// The first component that is missing, or the one below something that is no directory.
        #[n(1)]
        missing: TreePath,
        /// The kind of what stands above `missing`.
        #[n(2)]
        above: Kind,
    },
    /// The names and kinds in a directory, not what lies below.
    #[n(3)]
    Listing {
        /// The directory.
        #[n(0)]
        path: TreePath,
        /// [`listing_digest`] of it.
        #[n(1)]
        digest: Hash,
    },
    /// The target of a symbolic link.
    #[n(4)]
    LinkTarget {
        /// The link.
        #[n(0)]
        path: TreePath,
        /// Its target.
        #[cbor(n(1), with = "minicbor::bytes")]
        target: Vec<u8>,
    },
    /// The path existed and had this kind; nothing else was seen of it.
    #[n(5)]
    Exists {
        /// The path.
        #[n(0)]
        path: TreePath,
        /// Its kind.
        #[n(1)]
        kind: Kind,
    },
}

impl Observation {
    /// The path that was looked at.
    pub fn path(&self) -> &TreePath {
        match self {
            Observation::Content { path, .. }
            | Observation::Metadata { path, .. }
            | Observation::Absent { path, .. }
            | Observation::Listing { path, .. }
            | Observation::LinkTarget { path, .. }
            | Observation::Exists { path, .. } => path,
        }
    }
}

/// Digest of a directory's names and kinds; `entries` in byte order of the names.
pub fn listing_digest<'a>(entries: impl IntoIterator<Item = (&'a str, Kind)>) -> Hash {
    let entries: Vec<(&str, Kind)> = entries.into_iter().collect();
    Hash::derive(LISTING_CONTEXT, &codec::encode(&entries))
}

/// Digest of a sorted list, `None` when it is empty, as records carry it.
pub fn digest(observations: &[Observation]) -> Option<Hash> {
    (!observations.is_empty()).then(|| Hash::derive(LIST_CONTEXT, &encode_list(observations)))
}

/// The canonical bytes of a list.
pub fn encode_list(observations: &[Observation]) -> Vec<u8> {
    codec::encode(&observations)
}

/// Reads a list from outside.
///
/// # Errors
/// [`Error`] for a list that is too large, malformed, not canonical, not sorted, or has an item twice or one that
/// contradicts itself.
pub fn decode_list(bytes: &[u8]) -> Result<Vec<Observation>, Error> {
    const WHAT: &str = "list of observations";
    limits::check(WHAT, bytes.len(), limits::MAX_LIST)?;
    let list: Vec<Observation> = codec::decode(bytes, WHAT)?;
    let same_subject = |a: &Observation, b: &Observation| {
        std::mem::discriminant(a) == std::mem::discriminant(b) && a.path() == b.path()
    };
    if !list.is_sorted_by(|a, b| a < b && !same_subject(a, b)) {
        return Err(Error::Inconsistent { what: WHAT, detail: "items must be sorted and unique" });
    }
    list.iter().try_for_each(check_item)?;
    Ok(list)
}

fn check_item(item: &Observation) -> Result<(), Error> {
    let refuse = |detail| Err(Error::Inconsistent { what: "observation", detail });
    match item {
        Observation::Absent { path, missing, .. } if missing.is_root() || !path.starts_with(missing) => {
            refuse("the missing component must be the path or above it")
        }
        Observation::Metadata { mode, .. } if mode & !MODE_MASK != 0 => refuse("a mode has bits beyond 777"),
        Observation::LinkTarget { target, .. } if !limits::is_link_target(target) => {
            refuse("a link target is empty, too long or holds a NUL")
        }
        _ => Ok(()),
    }
}
