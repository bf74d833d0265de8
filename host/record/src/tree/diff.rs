//! What differs between two trees; equal subtrees are never opened.

use super::trie::gather;
use super::{NodeStore, TreeEntry, TreeError, TrieNode, empty, load};
use crate::node::{Kind, Node};
use crate::{Hash, TreePath};

/// Calls `found(path, in a, in b)` for each path whose entry differs between the trees `a` and `b`, parents before
/// what lies below them. A directory that is on both sides is reported only if its mode differs.
///
/// # Errors
/// [`TreeError`] from the store, or whatever `found` returns.
pub fn diff<S: NodeStore, E: From<TreeError<S::Error>>>(
    store: &S,
    a: &Hash,
    b: &Hash,
    found: &mut dyn FnMut(&TreePath, Option<&Node>, Option<&Node>) -> Result<(), E>,
) -> Result<(), E> {
    directories(store, a, b, &TreePath::root(), found)
}

type Found<'a, E> = dyn FnMut(&TreePath, Option<&Node>, Option<&Node>) -> Result<(), E> + 'a;

fn directories<S: NodeStore, E: From<TreeError<S::Error>>>(
    store: &S,
    a: &Hash,
    b: &Hash,
    path: &TreePath,
    found: &mut Found<'_, E>,
) -> Result<(), E> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    differing(store, a, b, &mut left, &mut right)?;
    left.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    right.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let (l, r) = match (left.peek(), right.peek()) {
            (None, None) => return Ok(()),
            (Some(l), Some(r)) if l.name == r.name => (left.next(), right.next()),
            (Some(l), Some(r)) if l.name > r.name => (None, right.next()),
            (Some(_), _) => (left.next(), None),
            (None, Some(_)) => (None, right.next()),
        };
        entries(store, l, r, path, found)?;
    }
}

fn entries<S: NodeStore, E: From<TreeError<S::Error>>>(
    store: &S,
    a: Option<&TreeEntry>,
    b: Option<&TreeEntry>,
    parent: &TreePath,
    found: &mut Found<'_, E>,
) -> Result<(), E> {
    let Some(name) = a.or(b).map(|e| e.name.as_str()) else { return Ok(()) };
    let path = parent.join(name).map_err(|_| TreeError::Unfit { path: parent.clone(), detail: "a path is invalid" })?;
    if a.map(|e| &e.node) != b.map(|e| &e.node) {
        found(&path, a.map(|e| &e.node), b.map(|e| &e.node))?;
    }
    let below = |e: Option<&TreeEntry>| match e {
        Some(e) if e.node.kind() == Kind::Directory => e.children,
        _ => empty(),
    };
    directories(store, &below(a), &below(b), &path, found)
}

/// Gathers the entries of two tries of one directory, leaving out what is equal on both sides.
fn differing<S: NodeStore>(
    store: &S,
    a: &Hash,
    b: &Hash,
    left: &mut Vec<TreeEntry>,
    right: &mut Vec<TreeEntry>,
) -> Result<(), TreeError<S::Error>> {
    if a == b {
        return Ok(());
    }
    if let (TrieNode::Branch(x), TrieNode::Branch(y)) = (load(store, a)?, load(store, b)?) {
        for (x, y) in x.iter().zip(y.iter()) {
            match (x, y) {
                (Some(x), Some(y)) => differing(store, &x.hash, &y.hash, left, right)?,
                (Some(x), None) => gather(store, &x.hash, left)?,
                (None, Some(y)) => gather(store, &y.hash, right)?,
                (None, None) => {}
            }
        }
        return Ok(());
    }
    let (mut all_left, mut all_right) = (Vec::new(), Vec::new());
    gather(store, a, &mut all_left)?;
    gather(store, b, &mut all_right)?;
    let absent_from = |entry: &TreeEntry, other: &[TreeEntry]| !other.contains(entry);
    left.extend(all_left.iter().filter(|e| absent_from(e, &all_right)).cloned());
    right.extend(all_right.into_iter().filter(|e| absent_from(e, &all_left)));
    Ok(())
}
