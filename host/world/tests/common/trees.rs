//! Trees as plain data: what a source holds, what changes make of it, what a guest sees.

use super::*;
use opship_record::effect::{self, Before, Origins};
use opship_record::node::{Kind, Node};
use opship_record::tree;
use opship_record::{Hash, observation};
use opship_world::SourceNode;
use std::collections::HashMap;

/// Tree nodes in memory.
pub type Nodes = HashMap<Hash, Vec<u8>>;

/// Builds a tree by changes over the empty one.
pub fn build(nodes: &mut Nodes, all: &BTreeMap<TreePath, Node>) -> Hash {
    use opship_record::effect::After;
    let change = |(path, node): (&TreePath, &Node)| {
        let before = Before::Absent { missing: path.clone(), above: Kind::Directory };
        let after = match node.clone() {
            Node::File { mode, mtime, length, hash } => After::File { length, hash, mode: Some(mode), mtime },
            Node::Directory { mode } => After::Directory { mode: Some(mode) },
            Node::Symlink { mtime, target } => After::Symlink { target, mtime },
        };
        Change { path: path.clone(), before, after }
    };
    let changes: Vec<Change> = all.iter().map(change).collect();
    tree::apply(nodes, &tree::empty(), &changes).unwrap()
}

pub fn source_nodes(tree: &MemoryTree) -> BTreeMap<TreePath, Node> {
    let node = |node: &SourceNode, content: &[u8]| match node.clone() {
        SourceNode::File { mode, mtime, length } => Node::File { mode, mtime, length, hash: Hash::of(content) },
        SourceNode::Directory { mode } => Node::Directory { mode },
        SourceNode::Symlink { mtime, target } => Node::Symlink { mtime, target },
    };
    tree.nodes().skip(1).map(|(path, n, content)| (path.clone(), node(n, content))).collect()
}

/// The whole tree as the guest sees it.
pub fn seen(guest: &mut Guest) -> BTreeMap<TreePath, Node> {
    let mut all = BTreeMap::new();
    see(guest, &TreePath::root(), &mut all);
    all
}

fn see(guest: &mut Guest, at: &TreePath, into: &mut BTreeMap<TreePath, Node>) {
    let here = if at.is_root() { "." } else { at.as_str() };
    for name in guest.list(here).unwrap() {
        let path = at.join(&name).unwrap();
        let stat = guest.stat(path.as_str(), 0).unwrap();
        let mode = u16::try_from(guest.mode(path.as_str()).unwrap()).unwrap();
        let mtime = i64::try_from(stat.mtime).unwrap();
        let node = match stat.file_type {
            3 => Node::Directory { mode },
            4 => {
                let content = guest.read_file(path.as_str()).unwrap();
                assert_eq!(content.len() as u64, stat.size);
                Node::File { mode, mtime, length: stat.size, hash: Hash::of(&content) }
            }
            _ => Node::Symlink { mtime, target: guest.readlink(path.as_str()).unwrap() },
        };
        into.insert(path.clone(), node);
        if stat.file_type == 3 {
            see(guest, &path, into);
        }
    }
}

/// Every state before is what the source holds at the place that [`Origins`] gives.
fn check_befores(source: &MemoryTree, changes: &[Change]) {
    let origins = Origins::new(changes);
    for change in changes {
        let origin = origins.of(&change.path);
        let found = origin.as_ref().and_then(|path| source.stat(path).unwrap());
        match (&change.before, found) {
            (Before::Absent { missing, .. }, None) => assert!(change.path.starts_with(missing), "{change:?}"),
            (Before::File { hash }, Some(SourceNode::File { .. })) => {
                assert_eq!(*hash, source.open(&origin.unwrap()).unwrap().hash().unwrap());
            }
            (Before::Directory, Some(SourceNode::Directory { .. })) => {}
            (Before::Symlink { target }, Some(SourceNode::Symlink { target: found, .. })) => assert_eq!(*target, found),
            (Before::Kind { kind }, Some(node)) => assert_eq!(*kind, node.kind()),
            other => panic!("{change:?}: {other:?}\n{changes:#?}"),
        }
    }
}

/// The outcome of a run on `source` holds together: its lists are canonical, its states before are the source's, its
/// changes can be applied and its files are what the changes say.
pub fn check_outcome(source: &MemoryTree, outcome: &Outcome) {
    let lists = &outcome.lists;
    assert_eq!(effect::decode_list(&effect::encode_list(&lists.changes)).as_ref(), Ok(&lists.changes));
    let bytes = observation::encode_list(&lists.observations);
    assert_eq!(observation::decode_list(&bytes).as_ref(), Ok(&lists.observations));
    check_befores(source, &lists.changes);
    for (path, produced) in &outcome.files {
        let mut bytes = Vec::new();
        produced.copy_to(&mut bytes).unwrap();
        assert_eq!((produced.length, produced.hash), (bytes.len() as u64, Hash::of(&bytes)));
        let change = lists.changes.iter().find(|c| c.path == *path).unwrap();
        assert_eq!(change.after.blob(), Some((produced.length, produced.hash)));
    }
    let mut nodes = Nodes::default();
    let before = build(&mut nodes, &source_nodes(source));
    let after = tree::apply(&mut nodes, &before, &lists.changes);
    let after = after.unwrap_or_else(|error| panic!("{error}\n{:#?}", lists.changes));
    tree::verify(&nodes, &after).unwrap();
}

/// Paths at which the changes of a run on `source` lead elsewhere than to `expected`, with both nodes.
pub fn differing(
    source: &MemoryTree,
    changes: &[Change],
    expected: &BTreeMap<TreePath, Node>,
) -> Vec<(TreePath, Option<Node>, Option<Node>)> {
    let mut nodes = Nodes::default();
    let before = build(&mut nodes, &source_nodes(source));
    let expected = build(&mut nodes, expected);
    let applied = tree::apply(&mut nodes, &before, changes).unwrap();
    let mut differing = Vec::new();
    tree::diff(&nodes, &applied, &expected, &mut |path, a, b| {
        differing.push((path.clone(), a.cloned(), b.cloned()));
        Ok::<(), tree::TreeError<std::convert::Infallible>>(())
    })
    .unwrap();
    differing
}
