//! Trees at their limits: deep, wide, damaged, hostile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Model, Nodes, after, before, build, changes_between, directory, file, path, read};
use opship_record::effect::{After, Before, Change, Origins, decode_list, encode_list};
use opship_record::node::Kind;
use opship_record::tree::{self, TreeError};
use opship_record::{Hash, TreePath};
use std::convert::Infallible;

/// 2,048 components, the most that a path can have.
fn deepest() -> Model {
    let mut model = Model::new();
    let mut text = String::new();
    for depth in 0..2048 {
        text.push_str(if depth == 0 { "a" } else { "/a" });
        model.insert(path(&text), if depth == 2047 { file("x") } else { directory() });
    }
    model
}

#[test]
fn the_deepest_path_fits_the_stack_of_a_worker() {
    let work = || {
        let mut store = Nodes::default();
        let model = deepest();
        let root = build(&mut store, &model);
        assert_eq!(read(&store, &root), model);
        tree::verify(&store, &root).unwrap();
        let changes = changes_between(&store, &root, &tree::empty());
        assert_eq!(changes.len(), 2048);
        assert_eq!(tree::apply(&mut store, &root, &changes).unwrap(), tree::empty());
    };
    // 2 MiB is what Rust gives its threads, and a debug build needs the most of it.
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn one_change_in_a_large_directory_makes_few_nodes() {
    let mut model: Model = (0..100_000).map(|i| (path(&format!("d/{i:06}")), file("x"))).collect();
    model.insert(path("d"), directory());
    let mut store = Nodes::default();
    let root = build(&mut store, &model);
    let nodes = store.len();
    let changed = path("d/054321");
    let list = [Change { before: before(&model, &changed), after: after(&file("y")), path: changed.clone() }];
    let next = tree::apply(&mut store, &root, &list).unwrap();
    let new = store.len() - nodes;
    assert!(new <= 8, "{new} new nodes");
    let entry = tree::lookup(&store, &next, &changed).unwrap().unwrap();
    assert_eq!(entry.node, file("y"));
    let mut found = Vec::new();
    tree::diff::<_, TreeError<Infallible>>(&store, &root, &next, &mut |path, _, _| {
        found.push(path.clone());
        Ok(())
    })
    .unwrap();
    assert_eq!(found, [changed]);
}

/// Each of 60 directories above the path is listed as one that was there, so that each asks about all those above it.
#[test]
fn origins_cost_one_step_however_many_directories_above_are_listed() {
    let mut text = String::from("a");
    let mut list = Vec::new();
    for _ in 0..60 {
        list.push(Change {
            path: path(&text),
            before: Before::Directory,
            after: After::Directory { mode: Some(0o700) },
        });
        text.push_str("/a");
    }
    let from = path("elsewhere");
    let moved = After::Moved { from: from.clone(), mode: None };
    list.push(Change { path: path(&text), before: Before::Directory, after: moved });
    list.push(Change { path: from.clone(), before: Before::Directory, after: After::Removed });
    let origins = Origins::new(&list);
    assert_eq!(origins.of(&path(&format!("{text}/x"))), Some(path("elsewhere/x")));
    assert_eq!(decode_list(&encode_list(&list)).unwrap(), list);
}

#[test]
fn a_move_that_would_make_a_path_too_long_is_refused() {
    let deep = path(&["x".repeat(200).as_str(); 20].join("/"));
    let mut model = Model::from([(deep.clone(), file("kept"))]);
    std::iter::successors(deep.parent(), TreePath::parent).filter(|p| !p.is_root()).for_each(|p| {
        model.insert(p, directory());
    });
    model.insert(path(&"n".repeat(76)), directory());
    model.insert(path(&"n".repeat(77)), directory());
    let mut store = Nodes::default();
    let root = build(&mut store, &model);
    let from = path(&"x".repeat(200));
    let mut apply = |to: &str| {
        let moved = Change {
            path: path(to),
            before: Before::Absent { missing: path(to), above: Kind::Directory },
            after: After::Moved { from: from.clone(), mode: None },
        };
        let mut list = vec![moved, Change { path: from.clone(), before: Before::Directory, after: After::Removed }];
        list.sort_by(|a, b| a.path.cmp(&b.path));
        tree::apply(&mut store, &root, &list)
    };
    // 20 names of 200 bytes and 19 slashes are 4,019: there are 77 bytes left.
    assert!(apply(&format!("{}/{}", "n".repeat(76), "y".repeat(200))).is_ok());
    let refused = apply(&format!("{}/{}", "n".repeat(77), "y".repeat(200)));
    assert!(matches!(refused, Err(TreeError::Unfit { .. })), "{refused:?}");
    assert!(apply(&"y".repeat(255)).is_ok());
}

/// A store that gives other bytes than it was given.
fn damage(store: &mut Nodes, hash: &Hash, with: impl Fn(&mut Vec<u8>)) {
    with(store.get_mut(hash).unwrap());
}

#[test]
fn a_damaged_or_missing_node_is_named() {
    let model = Model::from([(path("a"), file("x")), (path("b"), file("y"))]);
    let mut store = Nodes::default();
    let root = build(&mut store, &model);
    // A bit of a content's hash: the node stays well-formed.
    damage(&mut store, &root, |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert!(matches!(tree::find(&store, &root, "a"), Err(TreeError::Damaged(hash, _)) if hash == root));
    store.remove(&root);
    assert_eq!(tree::list(&store, &root), Err(TreeError::Missing(root)));
}

/// Keeps a node that was made by hand.
fn keep(store: &mut Nodes, bytes: Vec<u8>) -> Hash {
    let hash = tree::hash_of(&bytes);
    store.insert(hash, bytes);
    hash
}

fn branch(children: &[(usize, u64, Hash)]) -> Vec<u8> {
    let mut bytes = vec![0x82, 1, 0x90];
    for slot in 0..16 {
        match children.iter().find(|(at, ..)| *at == slot) {
            None => bytes.push(0xf6),
            Some((_, count, hash)) => {
                bytes.extend([0x82, 0x18, u8::try_from(*count).unwrap(), 0x58, 32]);
                bytes.extend(hash.as_bytes());
            }
        }
    }
    bytes
}

#[test]
fn a_tree_that_is_not_canonical_or_endless_is_refused_as_a_whole() {
    let mut store = Nodes::default();
    let model: Model = (0..33).map(|i| (path(&format!("{i}")), file("x"))).collect();
    let root = build(&mut store, &model);
    tree::verify(&store, &root).unwrap();
    // Chains of branches, longer than names have bits, with the real tree at the end.
    let mut top = root;
    for _ in 0..100_000 {
        top = keep(&mut store, branch(&[(0, 33, top)]));
    }
    assert!(matches!(tree::verify(&store, &top), Err(TreeError::Damaged(..))));
    assert!(matches!(tree::list(&store, &top), Err(TreeError::Damaged(..))));
    // All below one branch: names stand where they are not looked for.
    let misplaced = keep(&mut store, branch(&[(3, 33, root)]));
    assert!(matches!(tree::verify(&store, &misplaced), Err(TreeError::Damaged(..))));
    // A wrong count.
    let lie = keep(&mut store, branch(&[(3, 40, tree::empty())]));
    assert!(matches!(tree::verify(&store, &lie), Err(TreeError::Damaged(..))));
}

#[test]
fn a_few_nodes_that_stand_for_endless_paths_are_checked_once_each() {
    let mut store = Nodes::default();
    let mut top = tree::empty();
    let mut sizes = Vec::new();
    for _ in 0..2100 {
        // Two directories of the same content: 2^n paths of n nodes.
        let mut bytes = vec![0x82, 0, 0x82];
        for name in [b'a', b'b'] {
            bytes.extend([0x84, 0x61, name, 1, 0x19, 0x01, 0xed, 0x58, 32]);
            bytes.extend(top.as_bytes());
        }
        top = keep(&mut store, bytes);
        sizes.push(top);
    }
    tree::verify(&store, &sizes[2047]).unwrap();
    assert!(matches!(tree::verify(&store, &sizes[2048]), Err(TreeError::Damaged(..))));
    assert!(matches!(tree::verify(&store, &top), Err(TreeError::Damaged(..))));
}
