//! Trees: a canonical Merkle structure over directories.
//!
//! A directory is a hash array mapped trie (Bagwell, "Ideal Hash Trees", 2001) over BLAKE3 of its names. A node with at
//! most [`LEAF_ENTRIES`] entries below it is a leaf, every other one a branch of sixteen, so the shape depends on the
//! set of names alone, and changing one entry makes a few small nodes new, however large the directory is. Nodes are
//! addressed by the hash of their canonical bytes. The tree's root is the root directory's top node.

mod apply;
mod diff;
mod trie;
mod verify;

pub use apply::apply;
pub use diff::{Found, diff};
pub use trie::{find, list};
pub use verify::verify;

use crate::node::Node;
use crate::{Error, Hash, TreePath, codec, limits};
use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::LazyLock;

const NODE_CONTEXT: &str = "opship 1 tree node";
const WHAT: &str = "tree node";

/// Most entries of a leaf.
pub const LEAF_ENTRIES: usize = 32;

/// Where tree nodes are kept. The caller supplies it; this crate does no I/O.
pub trait NodeStore {
    /// What can go wrong in the store.
    type Error;

    /// The bytes of a node, `None` if the store lacks it.
    ///
    /// # Errors
    /// The store's own.
    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Keeps a node's bytes under their hash.
    ///
    /// # Errors
    /// The store's own.
    fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> Result<(), Self::Error>;
}

/// Nodes in memory.
impl NodeStore for HashMap<Hash, Vec<u8>> {
    type Error = Infallible;

    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.get(hash).cloned())
    }

    fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> Result<(), Infallible> {
        self.insert(hash, bytes);
        Ok(())
    }
}

/// What can go wrong with a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(E),
    /// A node is missing from the store.
    #[error("tree node {0} is missing; run 'opship admin fsck'")]
    Missing(Hash),
    /// A node's bytes are not a node.
    #[error("tree node {0} is damaged ({1}); run 'opship admin fsck'")]
    Damaged(Hash, Error),
    /// A change does not fit the tree.
    #[error("the change of '{path}' does not fit the tree: {detail}")]
    Unfit {
        /// The changed path.
        path: TreePath,
        /// What does not fit.
        detail: &'static str,
    },
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name: one component of a path.
    pub name: String,
    /// What is there.
    pub node: Node,
    /// For a directory, the top node of what it holds; [`empty`] for an empty one. The plain [`Hash::of_empty`]
    /// otherwise, and not encoded.
    pub children: Hash,
}

impl TreeEntry {
    /// An entry for a file or link, or for an empty directory.
    pub fn new(name: impl Into<String>, node: Node) -> TreeEntry {
        let children = match node {
            Node::Directory { .. } => empty(),
            _ => Hash::of_empty(),
        };
        TreeEntry { name: name.into(), node, children }
    }
}

/// A node of a directory's trie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrieNode {
    /// Entries, sorted by name.
    Leaf(Vec<TreeEntry>),
    /// Sixteen children by the next four bits of BLAKE3 of the name; each with the number of entries below it.
    Branch(Box<[Option<Child>; 16]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) count: u64,
    pub(crate) hash: Hash,
}

/// Hash of the empty directory, and so of the empty tree.
pub fn empty() -> Hash {
    static EMPTY: LazyLock<Hash> = LazyLock::new(|| hash_of(&empty_node()));
    *EMPTY
}

/// The bytes of the empty directory's node.
pub fn empty_node() -> Vec<u8> {
    codec::encode(&TrieNode::Leaf(Vec::new()))
}

/// The hash of a tree node's bytes.
pub fn hash_of(bytes: &[u8]) -> Hash {
    Hash::derive(NODE_CONTEXT, bytes)
}

/// What a node refers to: hashes of nodes, and of file contents. For storing, sending and checking whole trees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// Nodes below: of the same directory, and tops of others.
    pub nodes: Vec<Hash>,
    /// Contents of files, with their lengths in bytes.
    pub blobs: Vec<(Hash, u64)>,
}

/// Checks a node's bytes and says what it refers to.
///
/// # Errors
/// [`Error`] if they are no canonical node.
pub fn references(bytes: &[u8]) -> Result<References, Error> {
    let mut found = References::default();
    match decode(bytes)? {
        TrieNode::Leaf(entries) => {
            for entry in entries {
                match entry.node {
                    Node::File { hash, length, .. } => found.blobs.push((hash, length)),
                    Node::Directory { .. } => found.nodes.push(entry.children),
                    Node::Symlink { .. } => {}
                }
            }
        }
        TrieNode::Branch(children) => found.nodes.extend(children.iter().flatten().map(|c| c.hash)),
    }
    Ok(found)
}

/// Finds a path from a root node. The root itself has no entry.
///
/// # Errors
/// [`TreeError`] from the store.
pub fn lookup<S: NodeStore>(store: &S, root: &Hash, path: &TreePath) -> Result<Option<TreeEntry>, TreeError<S::Error>> {
    let mut directory = *root;
    let mut found = None;
    for name in path.components() {
        if let Some(TreeEntry { node: Node::File { .. } | Node::Symlink { .. }, .. }) = found {
            return Ok(None);
        }
        let Some(entry) = find(store, &directory, name)? else { return Ok(None) };
        directory = entry.children;
        found = Some(entry);
    }
    Ok(found)
}

/// Loads the node of a directory's trie that stands `depth` branches below its top. Its bytes are checked against its
/// hash, so that a damaged store never passes for another tree.
pub(crate) fn load<S: NodeStore>(store: &S, hash: &Hash, depth: usize) -> Result<TrieNode, TreeError<S::Error>> {
    if *hash == empty() {
        return Ok(TrieNode::Leaf(Vec::new()));
    }
    let bytes = store.node(hash).map_err(TreeError::Store)?.ok_or(TreeError::Missing(*hash))?;
    if hash_of(&bytes) != *hash {
        return Err(damaged(hash, "its bytes have another hash"));
    }
    match decode(&bytes).map_err(|error| TreeError::Damaged(*hash, error))? {
        TrieNode::Branch(_) if depth >= trie::MAX_DEPTH => Err(damaged(hash, "branches are nested too deep")),
        node => Ok(node),
    }
}

pub(crate) fn damaged<E>(hash: &Hash, detail: &'static str) -> TreeError<E> {
    TreeError::Damaged(*hash, Error::Inconsistent { what: WHAT, detail })
}

pub(crate) fn save<S: NodeStore>(store: &mut S, node: &TrieNode) -> Result<Hash, TreeError<S::Error>> {
    let bytes = codec::encode(node);
    let hash = hash_of(&bytes);
    store.keep(hash, bytes).map_err(TreeError::Store)?;
    Ok(hash)
}

fn decode(bytes: &[u8]) -> Result<TrieNode, Error> {
    let node: TrieNode = codec::decode(bytes, WHAT)?;
    let refuse = |detail| Err(Error::Inconsistent { what: WHAT, detail });
    match &node {
        TrieNode::Leaf(entries) => {
            if entries.len() > LEAF_ENTRIES || !entries.is_sorted_by(|a, b| a.name < b.name) {
                return refuse("a leaf is too large or not sorted");
            }
        }
        TrieNode::Branch(children) => {
            let count = children.iter().flatten().try_fold(0u64, |sum, c| sum.checked_add(c.count));
            if count.is_none_or(|count| count <= LEAF_ENTRIES as u64) || children.iter().flatten().any(|c| c.count == 0)
            {
                return refuse("a branch is too small for one or its counts are wrong");
            }
        }
    }
    Ok(node)
}

impl<C> Encode<C> for TrieNode {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self {
            TrieNode::Leaf(entries) => {
                e.array(2)?.u8(0)?;
                entries.encode(e, ctx)
            }
            TrieNode::Branch(children) => {
                e.array(2)?.u8(1)?.array(16)?;
                for child in children.iter() {
                    match child {
                        None => e.null()?,
                        Some(child) => e.array(2)?.u64(child.count)?.bytes(child.hash.as_bytes())?,
                    };
                }
                Ok(())
            }
        }
    }
}

impl<'b, C> Decode<'b, C> for TrieNode {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        expect_array(d, 2)?;
        match d.u8()? {
            0 => Ok(TrieNode::Leaf(d.decode_with(ctx)?)),
            1 => {
                expect_array(d, 16)?;
                let mut children = Box::new([None; 16]);
                for child in children.iter_mut() {
                    if d.datatype()? == Type::Null {
                        d.null()?;
                    } else {
                        expect_array(d, 2)?;
                        *child = Some(Child { count: d.u64()?, hash: d.decode_with(ctx)? });
                    }
                }
                Ok(TrieNode::Branch(children))
            }
            _ => Err(DecodeError::message("unknown kind of tree node")),
        }
    }
}

impl<C> Encode<C> for TreeEntry {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match &self.node {
            Node::File { mode, mtime, length, hash } => {
                e.array(6)?.str(&self.name)?.u8(0)?;
                e.u16(*mode)?.i64(*mtime)?.u64(*length)?.bytes(hash.as_bytes())?
            }
            Node::Directory { mode } => {
                e.array(4)?.str(&self.name)?.u8(1)?.u16(*mode)?.bytes(self.children.as_bytes())?
            }
            Node::Symlink { mtime, target } => e.array(4)?.str(&self.name)?.u8(2)?.i64(*mtime)?.bytes(target)?,
        };
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for TreeEntry {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        let length = d.array()?;
        let name = d.str()?;
        TreePath::root().join(name).map_err(DecodeError::message)?;
        let kind = d.u8()?;
        let (node, children) = match (kind, length) {
            (0, Some(6)) => {
                let node = Node::File { mode: mode(d)?, mtime: d.i64()?, length: d.u64()?, hash: d.decode_with(ctx)? };
                (node, Hash::of_empty())
            }
            (1, Some(4)) => (Node::Directory { mode: mode(d)? }, d.decode_with(ctx)?),
            (2, Some(4)) => (Node::Symlink { mtime: d.i64()?, target: target(d)? }, Hash::of_empty()),
            _ => return Err(DecodeError::message("unknown kind of tree entry")),
        };
        Ok(TreeEntry { name: name.to_owned(), node, children })
    }
}

fn mode(d: &mut Decoder<'_>) -> Result<u16, DecodeError> {
    let mode = d.u16()?;
    if mode & !crate::node::MODE_MASK != 0 {
        return Err(DecodeError::message("a mode has bits beyond 777"));
    }
    Ok(mode)
}

fn target(d: &mut Decoder<'_>) -> Result<Vec<u8>, DecodeError> {
    let target = d.bytes()?;
    if !limits::is_link_target(target) {
        return Err(DecodeError::message("a link target is empty, too long or holds a NUL"));
    }
    Ok(target.to_vec())
}

fn expect_array(d: &mut Decoder<'_>, length: u64) -> Result<(), DecodeError> {
    if d.array()? != Some(length) {
        return Err(DecodeError::message("an array has another length than expected"));
    }
    Ok(())
}
