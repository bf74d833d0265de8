//! Do the observations and states before of a run hold on a tree? Pure: a node store in, an answer out.

use opship_record::effect::{After, Before, Change, Origins};
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
        // Whether a path that it writes was there is no input of a run: another's output stands in its way.
        let existence = matches!(observation, Observation::Absent { .. } | Observation::Exists { .. });
        let path = observation.path();
        if existence && lists.changes.binary_search_by(|change| change.path.cmp(path)).is_ok() {
            return Ok(Some(Unmet::Before(path.clone())));
        }
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

/// The first change whose state before is not that of the tree `root`. One whose state after stands there already holds:
/// two people who did the same have no conflict.
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
        if !stood_before(&tree, &origins, change)? && !stands_already(&tree, change)? {
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

/// Does the tree hold what the change makes, mode and time aside?
fn stands_already<S: NodeStore>(tree: &Finder<'_, S>, change: &Change) -> Result<bool, TreeError<S::Error>> {
    Ok(match (tree.find(&change.path)?, &change.after) {
        (Found::Nothing { .. }, After::Removed) => true,
        (Found::Something { node: Node::File { hash, .. }, .. }, After::File { hash: made, .. }) => hash == *made,
        (Found::Something { node: Node::Symlink { target, .. }, .. }, After::Symlink { target: made, .. }) => {
            target == *made
        }
        (Found::Something { node: Node::Directory { .. }, .. }, After::Directory { .. }) => true,
        _ => false,
    })
}

fn depth_of(path: &TreePath) -> usize {
    path.components().count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::effect::After;
    use opship_record::tree::{apply, empty};
    use std::collections::HashMap;

    type Kept = HashMap<Hash, Vec<u8>>;

    fn path(text: &str) -> TreePath {
        if text.is_empty() { TreePath::root() } else { TreePath::new(text).unwrap() }
    }

    fn absent(missing: &str, above: Kind) -> Before {
        Before::Absent { missing: path(missing), above }
    }

    fn change(at: &str, before: Before, after: After) -> Change {
        Change { path: path(at), before, after }
    }

    fn file(content: &[u8]) -> After {
        After::File { length: content.len() as u64, hash: Hash::of(content), mode: Some(0o600), mtime: 5 }
    }

    /// `d/f` holds "x", `d/e` is an empty directory, `l` links to "d".
    fn tree() -> (Kept, Hash) {
        let new = |at| absent(at, Kind::Directory);
        let changes = [
            change("d", new("d"), After::Directory { mode: Some(0o700) }),
            change("d/e", new("d"), After::Directory { mode: None }),
            change("d/f", new("d"), file(b"x")),
            change("l", new("l"), After::Symlink { target: b"d".to_vec(), mtime: 6 }),
        ];
        let mut kept = Kept::default();
        let root = apply(&mut kept, &empty(), &changes).unwrap();
        (kept, root)
    }

    fn holds_all(observations: &[Observation]) -> Vec<bool> {
        let (kept, root) = tree();
        let one = |o| check_observations(&kept, &root, std::slice::from_ref(o)).unwrap().is_none();
        observations.iter().map(one).collect()
    }

    #[test]
    fn each_kind_of_observation_holds_or_not() {
        let metadata = |at, kind, mode, mtime, size| Observation::Metadata { path: path(at), kind, mode, mtime, size };
        let nothing = |at, missing, above| Observation::Absent { path: path(at), missing: path(missing), above };
        let listing = |at, names: &[(&str, Kind)]| Observation::Listing {
            path: path(at),
            digest: listing_digest(names.iter().copied()),
        };
        let good = [
            Observation::Content { path: path("d/f"), hash: Hash::of(b"x") },
            metadata("d/f", Kind::File, 0o600, 5, 1),
            metadata("d", Kind::Directory, 0o700, 0, 0),
            metadata("", Kind::Directory, 0o755, 0, 0),
            metadata("l", Kind::Symlink, 0o777, 6, 1),
            nothing("n/m", "n", Kind::Directory),
            nothing("d/n", "d/n", Kind::Directory),
            nothing("d/f/n/o", "d/f/n", Kind::File),
            nothing("l/f", "l/f", Kind::Symlink),
            listing("d", &[("e", Kind::Directory), ("f", Kind::File)]),
            listing("d/e", &[]),
            listing("", &[("d", Kind::Directory), ("l", Kind::Symlink)]),
            Observation::LinkTarget { path: path("l"), target: b"d".to_vec() },
            Observation::Exists { path: path("d"), kind: Kind::Directory },
        ];
        assert_eq!(holds_all(&good), [true; 14]);
        let bad = [
            Observation::Content { path: path("d/f"), hash: Hash::of(b"y") },
            Observation::Content { path: path("d"), hash: Hash::of(b"x") },
            Observation::Content { path: path("n"), hash: Hash::of(b"x") },
            metadata("d/f", Kind::File, 0o644, 5, 1),
            metadata("d/f", Kind::File, 0o600, 6, 1),
            metadata("d/f", Kind::File, 0o600, 5, 2),
            metadata("d", Kind::Directory, 0o755, 0, 0),
            nothing("d/f", "d/f", Kind::Directory),
            nothing("d/n/o", "d", Kind::Directory),
            nothing("d/n/o", "d/n/o", Kind::Directory),
            nothing("d/f/n", "d/f/n", Kind::Directory),
            listing("d", &[("f", Kind::File)]),
            listing("d/f", &[]),
            Observation::LinkTarget { path: path("l"), target: b"e".to_vec() },
            Observation::Exists { path: path("d"), kind: Kind::File },
        ];
        assert_eq!(holds_all(&bad), [false; 15]);
        let (kept, root) = tree();
        let mixed = [good[0].clone(), bad[3].clone(), bad[4].clone()];
        assert_eq!(check_observations(&kept, &root, &mixed).unwrap(), Some(&bad[3]));
    }

    #[test]
    fn states_before_are_looked_for_where_they_were() {
        let (kept, root) = tree();
        let unmet = |changes: &[Change]| check_befores(&kept, &root, changes).unwrap().map(|c| c.path.to_string());
        let here = Before::File { hash: Hash::of(b"x") };
        assert_eq!(unmet(&[change("d/f", here.clone(), After::Removed)]), None);
        assert_eq!(unmet(&[change("d/f", Before::File { hash: Hash::of(b"y") }, After::Removed)]), Some("d/f".into()));
        assert_eq!(unmet(&[change("d/f", absent("d/f", Kind::Directory), file(b"z"))]), Some("d/f".into()));
        assert_eq!(unmet(&[change("n", absent("n", Kind::Directory), file(b"z"))]), None);
        assert_eq!(unmet(&[change("n", absent("n", Kind::File), file(b"z"))]), Some("n".into()));
        // `d` is moved to `m`, and there `f` is written and `g` is new.
        let moved = |before_f| {
            [
                change("d", Before::Directory, After::Removed),
                change("m", absent("m", Kind::Directory), After::Moved { from: path("d"), mode: None }),
                change("m/f", before_f, file(b"z")),
                change("m/g", absent("m/g", Kind::Directory), file(b"z")),
            ]
        };
        assert_eq!(unmet(&moved(here)), None);
        assert_eq!(unmet(&moved(absent("m/f", Kind::Directory))), Some("m/f".into()));
        // A new directory takes the place of a link; below it nothing was.
        let replaced = [
            change("l", Before::Symlink { target: b"d".to_vec() }, After::Directory { mode: None }),
            change("l/f", absent("l/f", Kind::Symlink), file(b"z")),
        ];
        assert_eq!(unmet(&replaced), None);
        let kind = |kind| Before::Kind { kind };
        let set = After::Metadata { kind: Kind::File, mode: Some(0o644), mtime: None };
        assert_eq!(unmet(&[change("d/f", kind(Kind::File), set.clone())]), None);
        assert_eq!(unmet(&[change("d", kind(Kind::File), set)]), Some("d".into()));
    }
}
