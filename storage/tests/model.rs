//! Random changes against a map as the model of a tree, with the store reopened in between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::effect::{After, Before, Change};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind, Node};
use opship_record::{Hash, TreePath};
use opship_storage::{Committed, StorageError, Store};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Model = BTreeMap<TreePath, Node>;

/// What becomes of a path: removed with all below, or made, with the directories above it.
#[derive(Debug, Clone)]
enum Step {
    Remove(TreePath),
    Write(TreePath, u8),
    Link(TreePath, u8),
    Directory(TreePath),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    let some_path = prop::collection::vec(name, 1..4).prop_map(|names| path(&names.join("/")));
    // Many names in one directory, so that its trie has branches.
    let many_path = (0..80u8).prop_map(|n| path(&format!("many/{n}")));
    let any_path = prop_oneof![some_path, many_path];
    let step = (any_path, 0..5u8, 0..6u8).prop_map(|(path, kind, content)| match kind {
        0 => Step::Remove(path),
        1 => Step::Link(path, content),
        2 => Step::Directory(path),
        _ => Step::Write(path, content),
    });
    prop::collection::vec(step, 1..60)
}

fn take(model: &mut Model, step: &Step) {
    let (Step::Remove(path) | Step::Write(path, _) | Step::Link(path, _) | Step::Directory(path)) = step;
    if matches!(step, Step::Directory(_)) && matches!(model.get(path), Some(Node::Directory { .. })) {
        return;
    }
    model.retain(|other, _| !other.starts_with(path));
    if matches!(step, Step::Remove(_)) {
        return;
    }
    for above in std::iter::successors(path.parent(), TreePath::parent).filter(|p| !p.is_root()) {
        if !matches!(model.get(&above), Some(Node::Directory { .. })) {
            model.insert(above, Node::Directory { mode: DEFAULT_DIRECTORY_MODE });
        }
    }
    let node = match step {
        Step::Write(_, content) => {
            let hash = Hash::of(&[*content]);
            Node::File { mode: DEFAULT_FILE_MODE, mtime: 7, length: 1, hash }
        }
        Step::Link(_, content) => Node::Symlink { mtime: 7, target: vec![b'x', *content + 1] },
        _ => Node::Directory { mode: DEFAULT_DIRECTORY_MODE },
    };
    model.insert(path.clone(), node);
}

fn before(old: &Model, path: &TreePath) -> Before {
    if let Some(node) = old.get(path) {
        return Before::of(&node.content());
    }
    let mut above = Kind::Directory;
    let mut missing = TreePath::root();
    for name in path.components() {
        missing = missing.join(name).unwrap();
        match old.get(&missing) {
            Some(node) if above == Kind::Directory => above = node.kind(),
            _ => break,
        }
    }
    Before::Absent { missing, above }
}

fn changes(old: &Model, new: &Model) -> Vec<Change> {
    let paths: BTreeSet<&TreePath> = old.keys().chain(new.keys()).collect();
    let differing = paths.into_iter().filter(|path| old.get(path) != new.get(path));
    let change = |path: &TreePath| {
        let after = match new.get(path) {
            None => After::Removed,
            Some(Node::File { length, hash, mtime, mode }) => {
                After::File { length: *length, hash: *hash, mode: Some(*mode), mtime: *mtime }
            }
            Some(Node::Directory { .. }) => After::Directory { mode: None },
            Some(Node::Symlink { mtime, target }) => After::Symlink { target: target.clone(), mtime: *mtime },
        };
        Change { path: path.clone(), before: before(old, path), after }
    };
    differing.map(change).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn versions_are_what_the_changes_say(batches in prop::collection::vec(steps(), 1..5), reopen in 0..5usize) {
        let data = tempfile::tempdir().unwrap();
        let (mut store, scope) = open(data.path());
        let contents: Vec<[u8; 1]> = (0..6).map(|n| [n]).collect();
        let contents: Vec<&[u8]> = contents.iter().map(|content| content.as_slice()).collect();
        let mut models = vec![Model::new()];
        for (number, steps) in batches.iter().enumerate() {
            let old = models.last().unwrap();
            let mut new = old.clone();
            steps.iter().for_each(|step| take(&mut new, step));
            let list = changes(old, &new);
            if list.is_empty() {
                continue;
            }
            let sequence = number as u64 * 2 + 1;
            let done = store.commit(&scope, commit(sequence, list.clone(), &contents)).unwrap();
            prop_assert!(matches!(done, Committed::Done { version: Some(_), .. }), "{:?} {:?}", done, list);
            // On the tree that it made, the same list either does not hold any more, or makes what is there already.
            match store.commit(&scope, commit(sequence + 1, list, &[])) {
                Ok(Committed::Stale { before: Some(_), .. }) | Err(StorageError::Unfit { .. }) => {}
                Ok(Committed::Done { version, .. }) => models.extend(version.map(|_| new.clone())),
                other => prop_assert!(false, "{:?}", other),
            }
            models.push(new);
            if number == reopen {
                drop(store);
                store = Store::open(data.path()).unwrap();
            }
        }
        for (number, model) in models.iter().enumerate() {
            let version = store.version(&scope, number as u64).unwrap().unwrap();
            prop_assert_eq!(&walk(&store.tree(&scope, &version.root).unwrap().unwrap()), model);
        }
    }
}
