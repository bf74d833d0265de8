//! What several tests share: a store in memory, a plain model of a tree, generators.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub(crate) mod samples;
pub(crate) mod targets;

use opship_record::effect::{After, Before, Change};
use opship_record::node::{Kind, Node};
use opship_record::tree::{self, TreeError};
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, HashMap};

/// Tree nodes in memory.
pub(crate) type Nodes = HashMap<Hash, Vec<u8>>;

/// A tree as plain data.
pub(crate) type Model = BTreeMap<TreePath, Node>;

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub(crate) fn file(content: &str) -> Node {
    Node::File { mode: 0o644, mtime: 1, length: content.len() as u64, hash: Hash::of(content.as_bytes()) }
}

pub(crate) fn directory() -> Node {
    Node::Directory { mode: 0o755 }
}

/// The state after that gives exactly this node.
pub(crate) fn after(node: &Node) -> After {
    match node.clone() {
        Node::File { mode, mtime, length, hash } => After::File { length, hash, mode: Some(mode), mtime },
        Node::Directory { mode } => After::Directory { mode: Some(mode) },
        Node::Symlink { mtime, target } => After::Symlink { target, mtime },
    }
}

/// The state before of a path of the model.
pub(crate) fn before(model: &Model, path: &TreePath) -> Before {
    if let Some(node) = model.get(path) {
        return Before::of(&node.content());
    }
    let mut missing = path.clone();
    loop {
        let parent = missing.parent().unwrap();
        let above = if parent.is_root() { Some(Kind::Directory) } else { model.get(&parent).map(Node::kind) };
        match above {
            Some(above) => return Before::Absent { missing, above },
            None => missing = parent,
        }
    }
}

/// The tree of a model, made at once.
pub(crate) fn build(store: &mut Nodes, model: &Model) -> Hash {
    let changes: Vec<Change> = model
        .iter()
        .map(|(path, node)| Change { path: path.clone(), before: before(&Model::new(), path), after: after(node) })
        .collect();
    tree::apply(store, &tree::empty(), &changes).unwrap()
}

/// All that a tree holds.
pub(crate) fn read(store: &Nodes, root: &Hash) -> Model {
    let mut model = Model::new();
    let mut open = vec![(TreePath::root(), *root)];
    while let Some((path, top)) = open.pop() {
        for entry in tree::list(store, &top).unwrap() {
            let path = path.join(&entry.name).unwrap();
            if entry.node.kind() == Kind::Directory {
                open.push((path.clone(), entry.children));
            }
            assert!(model.insert(path, entry.node).is_none(), "a name stands twice");
        }
    }
    model
}

/// The changes that turn the tree `a` into the tree `b`.
pub(crate) fn changes_between(store: &Nodes, a: &Hash, b: &Hash) -> Vec<Change> {
    let model = read(store, a);
    let mut changes = Vec::new();
    tree::diff::<_, TreeError<std::convert::Infallible>>(store, a, b, &mut |path, old, new| {
        assert_eq!(model.get(path), old);
        let after = new.map_or(After::Removed, after);
        changes.push(Change { path: path.clone(), before: before(&model, path), after });
        Ok(())
    })
    .unwrap();
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}
