//! A whole tree checked: its shape, and how long its paths are.

use super::trie::slot;
use super::{LEAF_ENTRIES, NodeStore, TreeError, TrieNode, damaged, load};
use crate::Hash;
use crate::limits::MAX_PATH;
use crate::node::Kind;
use std::collections::HashMap;

/// Checks that the tree `root` is complete and canonical: each directory has the shape that its names decide, each
/// count is right, no path is too long. A tree made by [`super::apply`] is so; one whose nodes came from outside may
/// hold names twice or where [`super::find`] does not look. Reads every node once per directory. Contents of files are
/// not looked at ([`super::references`]).
///
/// # Errors
/// [`TreeError`] names the node.
pub fn verify<S: NodeStore>(store: &S, root: &Hash) -> Result<(), TreeError<S::Error>> {
    match longest_path(store, root)? {
        longest if longest > MAX_PATH => Err(damaged(root, "a path below it is too long")),
        _ => Ok(()),
    }
}

/// The length in bytes of the longest path below a directory, 0 if it is empty. Once it is over [`MAX_PATH`], the walk
/// may end early. The directories are checked on the way, as [`verify`] says, each one once: a small set of nodes can
/// stand for a tree of any size.
pub(super) fn longest_path<S: NodeStore>(store: &S, top: &Hash) -> Result<usize, TreeError<S::Error>> {
    let mut known: HashMap<Hash, usize> = HashMap::new();
    let mut open = vec![Directory::open(store, top)?];
    while let Some(directory) = open.last_mut() {
        if let Some((name, children)) = directory.below.pop() {
            if let Some(longest) = known.get(&children) {
                directory.reaches(name, *longest);
            } else {
                directory.below.push((name, children));
                open.push(Directory::open(store, &children)?);
            }
            if open.len() > MAX_PATH {
                return Ok(open.len());
            }
        } else {
            known.insert(directory.top, directory.longest);
            if directory.longest > MAX_PATH {
                return Ok(directory.longest);
            }
            open.pop();
        }
    }
    Ok(known.get(top).copied().unwrap_or(0))
}

/// A directory on the way.
struct Directory {
    top: Hash,
    /// The directories in it that are still to be measured: length of the name, top node.
    below: Vec<(usize, Hash)>,
    longest: usize,
}

impl Directory {
    fn open<S: NodeStore>(store: &S, top: &Hash) -> Result<Directory, TreeError<S::Error>> {
        let mut directory = Directory { top: *top, below: Vec::new(), longest: 0 };
        check(store, top, &mut Vec::new(), &mut directory)?;
        Ok(directory)
    }

    /// A name in this directory has a path of `longest` bytes below it, or none.
    fn reaches(&mut self, name: usize, longest: usize) {
        let whole = if longest == 0 { name } else { name + 1 + longest };
        self.longest = self.longest.max(whole);
    }
}

/// Checks one directory below the branches that the slots `above` lead through. Gives the number of its entries.
fn check<S: NodeStore>(
    store: &S,
    hash: &Hash,
    above: &mut Vec<usize>,
    directory: &mut Directory,
) -> Result<u64, TreeError<S::Error>> {
    let children = match load(store, hash, above.len())? {
        TrieNode::Branch(children) => children,
        TrieNode::Leaf(entries) => {
            for entry in &entries {
                if above.iter().enumerate().any(|(depth, at)| slot(&entry.name, depth) != *at) {
                    return Err(damaged(hash, "an entry stands in the wrong place"));
                }
                directory.reaches(entry.name.len(), 0);
                if entry.node.kind() == Kind::Directory {
                    directory.below.push((entry.name.len(), entry.children));
                }
            }
            return Ok(entries.len() as u64);
        }
    };
    let mut total = 0u64;
    for (at, child) in children.iter().enumerate() {
        let Some(child) = child else { continue };
        above.push(at);
        let count = check(store, &child.hash, above, directory)?;
        above.pop();
        if count != child.count {
            return Err(damaged(hash, "a branch states a wrong count"));
        }
        total = total.saturating_add(count);
    }
    if total <= LEAF_ENTRIES as u64 {
        return Err(damaged(hash, "a branch is too small for one"));
    }
    Ok(total)
}
