//! What the tests of the store share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use opship_record::answer::Verdict;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, ClientId, Entry, Value};
use opship_record::node::{Kind, Node};
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use opship_storage::{Commit, Committed, Ending, Principal, Role, Scope, Store, TreeView};
use opship_world::FileContent;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

pub fn admin(store: &Store) -> Principal {
    let token = std::fs::read_to_string(store.admin_token_file()).unwrap();
    store.authenticate(token.trim()).unwrap().unwrap()
}

/// The workspace `work`, made where it is missing.
pub fn scope(store: &Store) -> Scope {
    let admin = admin(store);
    store.scope(&admin, "work", Role::Write).or_else(|_| store.create_workspace(&admin, "work")).unwrap()
}

pub fn open(data: &Path) -> (Store, Scope) {
    let store = Store::open(data).unwrap();
    let scope = scope(&store);
    (store, scope)
}

/// A new file at the root.
pub fn create(name: &str, content: &[u8]) -> Change {
    let before = Before::Absent { missing: path(name), above: Kind::Directory };
    Change { path: path(name), before, after: file(content) }
}

pub fn overwrite(name: &str, old: &[u8], content: &[u8]) -> Change {
    Change { path: path(name), before: Before::File { hash: Hash::of(old) }, after: file(content) }
}

pub fn file(content: &[u8]) -> After {
    After::File { length: content.len() as u64, hash: Hash::of(content), mode: None, mtime: 7 }
}

/// A value entry of `changes` with the contents beside it.
pub fn commit(sequence: u64, changes: Vec<Change>, contents: &[&[u8]]) -> Commit {
    let body = Body::Value(Value::new(&changes));
    let envelope = Entry::new(client(1), sequence, &[], body.clone(), Vec::new()).envelope;
    Commit {
        envelope,
        body,
        lists: Lists { changes, ..Lists::default() },
        small_blobs: contents.iter().map(|bytes| bytes.to_vec()).collect(),
        pinned: contents.iter().map(|bytes| Hash::of(bytes)).collect(),
        ending: Ending::new(Verdict::Shipped),
        based_on: None,
    }
}

/// Bytes without a pattern (xorshift, Marsaglia 2003).
pub fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The pack files of a data directory.
pub fn pack_files(data: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(data.join("packs")).into_iter().flatten();
    folders.flat_map(|f| std::fs::read_dir(f.unwrap().path()).unwrap()).map(|f| f.unwrap().path()).collect()
}

pub fn number(committed: Committed) -> u64 {
    match committed {
        Committed::Done { version: Some(version), .. } => version.number,
        other => panic!("no version: {other:?}"),
    }
}

pub fn read(content: &dyn FileContent) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content.length()).unwrap()];
    assert_eq!(content.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// All paths of a tree.
pub fn walk(tree: &TreeView) -> BTreeMap<TreePath, Node> {
    let mut found = BTreeMap::new();
    let mut todo = vec![TreePath::root()];
    while let Some(directory) = todo.pop() {
        for entry in tree.entries(&directory).unwrap() {
            let path = directory.join(&entry.name).unwrap();
            if entry.node.kind() == Kind::Directory {
                todo.push(path.clone());
            }
            found.insert(path, entry.node);
        }
    }
    found
}

/// Checks that all that the workspace names is there and whole: versions chain, trees open, blobs have their hashes.
pub fn assert_consistent(store: &Store, scope: &Scope) {
    let versions = store.versions(scope, None, 1000).unwrap();
    let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
    assert_eq!(numbers, (0..versions.len() as u64).rev().collect::<Vec<_>>(), "versions are without gaps");
    for pair in versions.windows(2) {
        assert_eq!(pair[0].parent, Some(pair[1].id()), "each version names the one before");
        let (client, sequence) = (pair[0].author.unwrap(), pair[0].sequence.unwrap());
        let entry = store.entry(scope, &client, sequence).unwrap().expect("a version has its entry");
        assert_eq!((entry.version, entry.made_version), (pair[0].number, true));
    }
    for version in &versions {
        let tree = store.tree(scope, &version.root).unwrap().unwrap();
        for (path, node) in walk(&tree) {
            if let Node::File { hash, length, .. } = node {
                let content = store.open_blob(scope, &hash).unwrap().unwrap_or_else(|| panic!("{path} has no blob"));
                let bytes = read(&content);
                assert_eq!((Hash::of(&bytes), bytes.len() as u64), (hash, length), "{path}");
            }
        }
    }
}
