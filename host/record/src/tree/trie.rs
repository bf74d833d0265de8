//! One directory's trie: find, list, update.

use super::{Child, LEAF_ENTRIES, NodeStore, TreeEntry, TreeError, TrieNode, load, save};
use crate::Hash;
use std::collections::BTreeMap;

/// What becomes of some names: an entry, or nothing.
pub(crate) type Edits = BTreeMap<String, Option<TreeEntry>>;

/// Most branches above a leaf: names have as many groups of four bits to be told apart by.
pub(super) const MAX_DEPTH: usize = 64;

/// The slot, 0 to 15, that a name takes at a depth.
pub(super) fn slot(name: &str, depth: usize) -> usize {
    let hash = Hash::of(name.as_bytes());
    // 64 nibbles: names that agree in all of them have the same hash, which BLAKE3 rules out.
    let byte = hash.as_bytes()[(depth / 2) % 32];
    usize::from(if depth.is_multiple_of(2) { byte >> 4 } else { byte & 15 })
}

/// Finds a name in the directory whose top node is `directory`.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn find<S: NodeStore>(store: &S, directory: &Hash, name: &str) -> Result<Option<TreeEntry>, TreeError<S::Error>> {
    let mut hash = *directory;
    for depth in 0.. {
        match load(store, &hash, depth)? {
            TrieNode::Leaf(entries) => {
                let at = entries.binary_search_by(|e| e.name.as_str().cmp(name));
                return Ok(at.ok().and_then(|at| entries.into_iter().nth(at)));
            }
            TrieNode::Branch(children) => match children[slot(name, depth)] {
                Some(child) => hash = child.hash,
                None => return Ok(None),
            },
        }
    }
    Ok(None)
}

/// All entries of the directory whose top node is `directory`, in byte order of their names.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn list<S: NodeStore>(store: &S, directory: &Hash) -> Result<Vec<TreeEntry>, TreeError<S::Error>> {
    let mut entries = Vec::new();
    gather(store, directory, 0, &mut entries)?;
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

pub(super) fn gather<S: NodeStore>(
    store: &S,
    hash: &Hash,
    depth: usize,
    into: &mut Vec<TreeEntry>,
) -> Result<(), TreeError<S::Error>> {
    match load(store, hash, depth)? {
        TrieNode::Leaf(entries) => into.extend(entries),
        TrieNode::Branch(children) => {
            for child in children.iter().flatten() {
                gather(store, &child.hash, depth + 1, into)?;
            }
        }
    }
    Ok(())
}

/// Applies edits to a directory and gives its new top node.
pub(crate) fn update<S: NodeStore>(store: &mut S, directory: &Hash, edits: Edits) -> Result<Hash, TreeError<S::Error>> {
    Ok(update_at(store, directory, edits, 0)?.hash)
}

fn update_at<S: NodeStore>(
    store: &mut S,
    hash: &Hash,
    edits: Edits,
    depth: usize,
) -> Result<Child, TreeError<S::Error>> {
    match load(store, hash, depth)? {
        TrieNode::Leaf(entries) => {
            let mut merged: BTreeMap<String, TreeEntry> = entries.into_iter().map(|e| (e.name.clone(), e)).collect();
            for (name, edit) in edits {
                match edit {
                    Some(entry) => merged.insert(name, entry),
                    None => merged.remove(&name),
                };
            }
            build(store, merged.into_values().collect(), depth)
        }
        TrieNode::Branch(mut children) => {
            let mut by_slot: BTreeMap<usize, Edits> = BTreeMap::new();
            for (name, edit) in edits {
                by_slot.entry(slot(&name, depth)).or_default().insert(name, edit);
            }
            for (slot, edits) in by_slot {
                let child = match children[slot] {
                    Some(child) => update_at(store, &child.hash, edits, depth + 1)?,
                    None => build(store, edits.into_values().flatten().collect(), depth + 1)?,
                };
                children[slot] = (child.count > 0).then_some(child);
            }
            close_branch(store, children, depth)
        }
    }
}

/// Saves a branch, or the leaf that it has shrunk to.
fn close_branch<S: NodeStore>(
    store: &mut S,
    children: Box<[Option<Child>; 16]>,
    depth: usize,
) -> Result<Child, TreeError<S::Error>> {
    let count = children.iter().flatten().fold(0u64, |sum, c| sum.saturating_add(c.count));
    if count > LEAF_ENTRIES as u64 {
        return Ok(Child { count, hash: save(store, &TrieNode::Branch(children))? });
    }
    let mut entries = Vec::new();
    for child in children.iter().flatten() {
        gather(store, &child.hash, depth + 1, &mut entries)?;
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    build(store, entries, depth)
}

/// Builds the node of a set of entries, sorted by name.
fn build<S: NodeStore>(store: &mut S, entries: Vec<TreeEntry>, depth: usize) -> Result<Child, TreeError<S::Error>> {
    let count = entries.len() as u64;
    if entries.len() <= LEAF_ENTRIES {
        return Ok(Child { count, hash: save(store, &TrieNode::Leaf(entries))? });
    }
    let mut slots: [Vec<TreeEntry>; 16] = Default::default();
    for entry in entries {
        slots[slot(&entry.name, depth)].push(entry);
    }
    let mut children = Box::new([None; 16]);
    for (child, entries) in children.iter_mut().zip(slots) {
        if !entries.is_empty() {
            *child = Some(build(store, entries, depth + 1)?);
        }
    }
    Ok(Child { count, hash: save(store, &TrieNode::Branch(children))? })
}
