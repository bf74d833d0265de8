//! What differs between two trees; equal subtrees are never opened.

use super::trie::gather;
use super::{NodeStore, TreeEntry, TreeError, TrieNode, empty, load};
use crate::node::{Kind, Node};
use crate::{Hash, TreePath};
use std::cmp::Ordering;
use std::iter::Peekable;
use std::vec::IntoIter;

/// What [`diff`] calls for each difference: the path, what is there in the first tree, what in the second.
pub type Found<'a, E> = dyn FnMut(&TreePath, Option<&Node>, Option<&Node>) -> Result<(), E> + 'a;

/// Calls `found(path, in a, in b)` for each path whose entry differs between the trees `a` and `b`, parents before
/// what lies below them (which is not always the order of their texts: `a/b` comes before `a-b`). A directory that is
/// on both sides is reported only if its mode differs.
///
/// # Errors
/// [`TreeError`] from the store, or whatever `found` returns.
pub fn diff<S: NodeStore, E: From<TreeError<S::Error>>>(
    store: &S,
    a: &Hash,
    b: &Hash,
    found: &mut Found<'_, E>,
) -> Result<(), E> {
    // A stack of our own: a path may have 2,048 components, and recursion that deep would overflow a thread's.
    let mut open = vec![Pair::open(store, a, b, TreePath::root())?];
    while let Some(pair) = open.last_mut() {
        let (old, new) = pair.next();
        let Some(name) = old.as_ref().or(new.as_ref()).map(|e| e.name.as_str()) else {
            open.pop();
            continue;
        };
        let unfit = |_| TreeError::Unfit { path: pair.path.clone(), detail: "a path is invalid" };
        let path = pair.path.join(name).map_err(unfit)?;
        let (old_node, new_node) = (old.as_ref().map(|e| &e.node), new.as_ref().map(|e| &e.node));
        if old_node != new_node {
            found(&path, old_node, new_node)?;
        }
        let (old, new) = (below(old.as_ref()), below(new.as_ref()));
        if old != new {
            open.push(Pair::open(store, &old, &new, path)?);
        }
    }
    Ok(())
}

/// The top node of what an entry holds.
fn below(entry: Option<&TreeEntry>) -> Hash {
    match entry {
        Some(entry) if entry.node.kind() == Kind::Directory => entry.children,
        _ => empty(),
    }
}

/// A directory that differs, with the entries that do on each side, by name.
struct Pair {
    path: TreePath,
    old: Peekable<IntoIter<TreeEntry>>,
    new: Peekable<IntoIter<TreeEntry>>,
}

impl Pair {
    fn open<S: NodeStore>(store: &S, a: &Hash, b: &Hash, path: TreePath) -> Result<Pair, TreeError<S::Error>> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        differing(store, [a, b], 0, &mut old, &mut new)?;
        old.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        new.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Pair { path, old: old.into_iter().peekable(), new: new.into_iter().peekable() })
    }

    /// What the next name is on each side; nothing on both at the end.
    fn next(&mut self) -> (Option<TreeEntry>, Option<TreeEntry>) {
        let order = match (self.old.peek(), self.new.peek()) {
            (Some(old), Some(new)) => old.name.cmp(&new.name),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let old = if order.is_le() { self.old.next() } else { None };
        let new = if order.is_ge() { self.new.next() } else { None };
        (old, new)
    }
}

/// Gathers the entries of two tries of one directory, leaving out what is equal on both sides.
fn differing<S: NodeStore>(
    store: &S,
    [a, b]: [&Hash; 2],
    depth: usize,
    left: &mut Vec<TreeEntry>,
    right: &mut Vec<TreeEntry>,
) -> Result<(), TreeError<S::Error>> {
    if a == b {
        return Ok(());
    }
    if let (TrieNode::Branch(x), TrieNode::Branch(y)) = (load(store, a, depth)?, load(store, b, depth)?) {
        for (x, y) in x.iter().zip(y.iter()) {
            match (x, y) {
                (Some(x), Some(y)) => differing(store, [&x.hash, &y.hash], depth + 1, left, right)?,
                (Some(x), None) => gather(store, &x.hash, depth + 1, left)?,
                (None, Some(y)) => gather(store, &y.hash, depth + 1, right)?,
                (None, None) => {}
            }
        }
        return Ok(());
    }
    let (mut all_left, mut all_right) = (Vec::new(), Vec::new());
    gather(store, a, depth, &mut all_left)?;
    gather(store, b, depth, &mut all_right)?;
    let absent_from = |entry: &TreeEntry, other: &[TreeEntry]| !other.contains(entry);
    left.extend(all_left.iter().filter(|e| absent_from(e, &all_right)).cloned());
    right.extend(all_right.into_iter().filter(|e| absent_from(e, &all_left)));
    Ok(())
}
