//! Changes applied to a tree: the new root costs what changed, not the size of the tree.

use super::trie::{Edits, update};
use super::{NodeStore, TreeEntry, TreeError, empty, find, lookup};
use crate::effect::{After, Change, Origins};
use crate::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind, Node};
use crate::{Hash, TreePath};
use std::collections::BTreeMap;

/// Applies a sorted list of changes to the tree `root` and gives the new root. The states before are not checked: that
/// is the caller's business, under its lock.
///
/// # Errors
/// [`TreeError::Unfit`] where a change has no directory to stand in, a moved directory is not there, or a directory
/// would vanish with entries that the list does not remove; [`TreeError`] from the store.
pub fn apply<S: NodeStore>(store: &mut S, root: &Hash, changes: &[Change]) -> Result<Hash, TreeError<S::Error>> {
    let mut work = Work::default();
    for change in changes {
        let moved = match &change.after {
            After::Moved { from, .. } => Some(moved_directory(store, root, from, &change.path)?),
            _ => None,
        };
        work.insert(&change.path, Pending { change, moved });
    }
    apply_in(store, *root, &TreePath::root(), work, &Origins::new(changes))
}

/// Changes arranged as a tree.
#[derive(Default)]
struct Work<'a> {
    own: Option<Pending<'a>>,
    below: BTreeMap<String, Work<'a>>,
}

struct Pending<'a> {
    change: &'a Change,
    moved: Option<TreeEntry>,
}

impl<'a> Work<'a> {
    fn insert(&mut self, path: &TreePath, pending: Pending<'a>) {
        let mut at = self;
        for name in path.components() {
            at = at.below.entry(name.to_owned()).or_default();
        }
        at.own = Some(pending);
    }
}

fn moved_directory<S: NodeStore>(
    store: &S,
    root: &Hash,
    from: &TreePath,
    path: &TreePath,
) -> Result<TreeEntry, TreeError<S::Error>> {
    match lookup(store, root, from)? {
        Some(entry) if entry.node.kind() == Kind::Directory => Ok(entry),
        _ => Err(TreeError::Unfit { path: path.clone(), detail: "the moved directory is not there" }),
    }
}

fn apply_in<S: NodeStore>(
    store: &mut S,
    directory: Hash,
    path: &TreePath,
    work: Work<'_>,
    origins: &Origins<'_>,
) -> Result<Hash, TreeError<S::Error>> {
    let mut edits = Edits::new();
    for (name, work) in work.below {
        let path =
            path.join(&name).map_err(|_| TreeError::Unfit { path: path.clone(), detail: "a path is invalid" })?;
        let current = find(store, &directory, &name)?;
        // What was moved away as a whole is no longer here, whatever comes in its place.
        let current = current.filter(|_| work.own.is_none() || !origins.has_left(&path));
        let next = apply_to(store, current, &path, work, origins)?;
        edits.insert(name, next);
    }
    if edits.is_empty() { Ok(directory) } else { update(store, &directory, edits) }
}

fn apply_to<S: NodeStore>(
    store: &mut S,
    current: Option<TreeEntry>,
    path: &TreePath,
    work: Work<'_>,
    origins: &Origins<'_>,
) -> Result<Option<TreeEntry>, TreeError<S::Error>> {
    let unfit = |detail| TreeError::Unfit { path: path.clone(), detail };
    let removes = work.own.as_ref().is_some_and(|p| replaces_directory(&p.change.after));
    let next = match &work.own {
        Some(pending) => entry_after(current.as_ref(), pending, path).map_err(unfit)?,
        None => current.clone(),
    };
    if work.below.is_empty() && !removes {
        return Ok(next);
    }
    // What the directory held must be gone by the list itself, so that nothing unseen vanishes with it.
    if removes && let Some(TreeEntry { node: Node::Directory { .. }, children, .. }) = &current {
        let left = apply_in(store, *children, path, work, origins)?;
        return if left == empty() { Ok(next) } else { Err(unfit("a directory that goes still holds something")) };
    }
    if work.below.is_empty() {
        return Ok(next);
    }
    match next {
        Some(mut entry) if entry.node.kind() == Kind::Directory => {
            entry.children = apply_in(store, entry.children, path, work, origins)?;
            Ok(Some(entry))
        }
        _ => Err(unfit("it has no directory to stand in")),
    }
}

/// Does a directory that was there go? (Where another is moved over it, the run has seen its listing and what it held,
/// and the list speaks of what came.)
fn replaces_directory(after: &After) -> bool {
    matches!(after, After::Removed | After::File { .. } | After::Symlink { .. })
}

fn entry_after(
    current: Option<&TreeEntry>,
    pending: &Pending<'_>,
    path: &TreePath,
) -> Result<Option<TreeEntry>, &'static str> {
    let name = path.name().unwrap_or_default();
    let kept = |kind: Kind, default: u16| match current.map(|c| &c.node) {
        Some(Node::File { mode, .. }) if kind == Kind::File => *mode,
        Some(Node::Directory { mode }) if kind == Kind::Directory => *mode,
        _ => default,
    };
    let entry = match &pending.change.after {
        After::Removed => return Ok(None),
        After::File { length, hash, mode, mtime } => {
            let mode = mode.unwrap_or_else(|| kept(Kind::File, DEFAULT_FILE_MODE));
            TreeEntry::new(name, Node::File { mode, mtime: *mtime, length: *length, hash: *hash })
        }
        After::Directory { mode } => {
            let mode = mode.unwrap_or_else(|| kept(Kind::Directory, DEFAULT_DIRECTORY_MODE));
            let mut entry = TreeEntry::new(name, Node::Directory { mode });
            if let Some(TreeEntry { node: Node::Directory { .. }, children, .. }) = current {
                entry.children = *children;
            }
            entry
        }
        After::Symlink { target, mtime } => {
            TreeEntry::new(name, Node::Symlink { mtime: *mtime, target: target.clone() })
        }
        After::Moved { mode, .. } => {
            let moved = pending.moved.as_ref().ok_or("the moved directory is not there")?;
            let mut entry = TreeEntry { name: name.to_owned(), ..moved.clone() };
            if let (Some(new), Node::Directory { mode }) = (mode, &mut entry.node) {
                *mode = *new;
            }
            entry
        }
        After::Metadata { mode, mtime, .. } => with_metadata(current, *mode, *mtime)?,
    };
    Ok(Some(entry))
}

fn with_metadata(
    current: Option<&TreeEntry>,
    new_mode: Option<u16>,
    new_mtime: Option<i64>,
) -> Result<TreeEntry, &'static str> {
    let mut entry = current.ok_or("nothing is there whose metadata could change")?.clone();
    match &mut entry.node {
        Node::File { mode, mtime, .. } => {
            *mode = new_mode.unwrap_or(*mode);
            *mtime = new_mtime.unwrap_or(*mtime);
        }
        Node::Directory { mode } => *mode = new_mode.unwrap_or(*mode),
        Node::Symlink { mtime, .. } => *mtime = new_mtime.unwrap_or(*mtime),
    }
    Ok(entry)
}
