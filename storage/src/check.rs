//! Do the observations and states before of a run hold on a tree? Pure: a node store in, an answer out.

use opship_record::effect::{Before, Change, Origins};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind, Node};
use opship_record::observation::{Observation, listing_digest};
use opship_record::record::Lists;
use opship_record::tree::{NodeStore, TreeError, find, list};
use opship_record::{Hash, TreePath};
use std::cell::RefCell;

/// Permission bits that a symbolic link shows.
const SYMLINK_MODE: u16 = 0o777;

/// What does not hold on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmet {
    /// This observation.
    Observation(Observation),
    /// The state before of this path.
    Before(TreePath),
}

/// The first thing of the lists that does not hold on the tree `root`: observations first, then states before.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn unmet<S: NodeStore>(store: &S, root: &Hash, lists: &Lists) -> Result<Option<Unmet>, TreeError<S::Error>> {
    if let Some(observation) = check_observations(store, root, &lists.observations)? {
        return Ok(Some(Unmet::Observation(observation.clone())));
    }
    Ok(check_befores(store, root, &lists.changes)?.map(|change| Unmet::Before(change.path.clone())))
}

/// The first observation that does not hold on the tree `root`.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn check_observations<'a, S: NodeStore>(
    store: &S,
    root: &Hash,
    observations: &'a [Observation],
) -> Result<Option<&'a Observation>, TreeError<S::Error>> {
    let tree = Finder::new(store, root);
    for observation in observations {
        if !holds(&tree, observation)? {
            return Ok(Some(observation));
        }
    }
    Ok(None)
}

/// The first change whose state before is not that of the tree `root`.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn check_befores<'a, S: NodeStore>(
    store: &S,
    root: &Hash,
    changes: &'a [Change],
) -> Result<Option<&'a Change>, TreeError<S::Error>> {
    let tree = Finder::new(store, root);
    let origins = Origins::new(changes);
    for change in changes {
        if !stood_before(&tree, &origins, change)? {
            return Ok(Some(change));
        }
    }
    Ok(None)
}

/// What a tree has at a path.
enum Found {
    /// Nothing: the first missing component is the one with this number, counted from 1; above it stands this kind.
    Nothing { missing: usize, above: Kind },
    /// This, and for a directory the top node of what it holds.
    Something { node: Node, children: Hash },
}

/// Looks paths up, fast for many of one directory.
struct Finder<'a, S> {
    store: &'a S,
    root: Hash,
    /// The directory that was looked into last.
    last: RefCell<Option<(TreePath, Hash)>>,
}

impl<'a, S: NodeStore> Finder<'a, S> {
    fn new(store: &'a S, root: &Hash) -> Finder<'a, S> {
        Finder { store, root: *root, last: RefCell::default() }
    }

    fn find(&self, path: &TreePath) -> Result<Found, TreeError<S::Error>> {
        let depth = depth_of(path);
        if let Some(directory) = self.remembered(path) {
            return self.step(&directory, path.name().unwrap_or_default(), depth);
        }
        let mut at = Found::Something { node: Node::Directory { mode: DEFAULT_DIRECTORY_MODE }, children: self.root };
        for (number, name) in (1..).zip(path.components()) {
            let directory = match at {
                Found::Something { node: Node::Directory { .. }, children } => children,
                Found::Something { node, .. } => return Ok(Found::Nothing { missing: number, above: node.kind() }),
                Found::Nothing { .. } => return Ok(at),
            };
            if number == depth {
                *self.last.borrow_mut() = path.parent().map(|parent| (parent, directory));
            }
            at = self.step(&directory, name, number)?;
        }
        Ok(at)
    }

    /// The directory that `path` is in, if it was looked into last.
    fn remembered(&self, path: &TreePath) -> Option<Hash> {
        let parent = path.parent()?;
        self.last.borrow().as_ref().filter(|(directory, _)| *directory == parent).map(|(_, children)| *children)
    }

    fn step(&self, directory: &Hash, name: &str, number: usize) -> Result<Found, TreeError<S::Error>> {
        Ok(match find(self.store, directory, name)? {
            Some(entry) => Found::Something { node: entry.node, children: entry.children },
            None => Found::Nothing { missing: number, above: Kind::Directory },
        })
    }
}

fn holds<S: NodeStore>(tree: &Finder<'_, S>, observation: &Observation) -> Result<bool, TreeError<S::Error>> {
    let (node, children) = match (tree.find(observation.path())?, observation) {
        (Found::Nothing { missing, above }, Observation::Absent { path, missing: seen, above: kind }) => {
            return Ok(path.starts_with(seen) && missing == depth_of(seen) && above == *kind);
        }
        (Found::Nothing { .. }, _) => return Ok(false),
        (Found::Something { node, children }, _) => (node, children),
    };
    Ok(match observation {
        Observation::Absent { .. } => false,
        Observation::Content { hash, .. } => matches!(&node, Node::File { hash: found, .. } if found == hash),
        Observation::Metadata { kind, mode, mtime, size, .. } => {
            *kind == node.kind()
                && match &node {
                    Node::File { mode: m, mtime: t, length, .. } => (m, t, length) == (mode, mtime, size),
                    Node::Directory { mode: m } => m == mode,
                    Node::Symlink { mtime: t, target } => {
                        *mode == SYMLINK_MODE && t == mtime && target.len() as u64 == *size
                    }
                }
        }
        Observation::Listing { digest, .. } => {
            node.kind() == Kind::Directory && {
                let entries = list(tree.store, &children)?;
                listing_digest(entries.iter().map(|e| (e.name.as_str(), e.node.kind()))) == *digest
            }
        }
        Observation::LinkTarget { target, .. } => {
            matches!(&node, Node::Symlink { target: found, .. } if found == target)
        }
        Observation::Exists { kind, .. } => *kind == node.kind(),
    })
}

fn stood_before<S: NodeStore>(
    tree: &Finder<'_, S>,
    origins: &Origins<'_>,
    change: &Change,
) -> Result<bool, TreeError<S::Error>> {
    let Some(origin) = origins.of(&change.path) else {
        // A directory above is new. That nothing of this path was there follows from that directory's own state before.
        return Ok(matches!(change.before, Before::Absent { .. }));
    };
    Ok(match (tree.find(&origin)?, &change.before) {
        (Found::Nothing { missing, above }, Before::Absent { missing: seen, above: kind }) => {
            // Counted from the end, because a directory above may have been moved.
            let below = depth_of(&origin).checked_sub(missing);
            below == depth_of(&change.path).checked_sub(depth_of(seen)) && above == *kind
        }
        (Found::Something { node, .. }, before) => match (&node, before) {
            (Node::File { hash, .. }, Before::File { hash: seen }) => hash == seen,
            (Node::Symlink { target, .. }, Before::Symlink { target: seen }) => target == seen,
            (Node::Directory { .. }, Before::Directory) => true,
            (node, Before::Kind { kind }) => node.kind() == *kind,
            _ => false,
        },
        _ => false,
    })
}

fn depth_of(path: &TreePath) -> usize {
    path.components().count()
}
