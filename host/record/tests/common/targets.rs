//! What is fuzzed: each function takes any bytes and panics if a decoder breaks its promise. Shared with `fuzz/`.
#![allow(dead_code, clippy::panic, clippy::unwrap_used)]

use opship_record::answer::Answer;
use opship_record::effect::{self, Change, Origins};
use opship_record::entry::{Body, BodyKind, Entry};
use opship_record::record::{Record, StepStreams};
use opship_record::tree;
use opship_record::version::Version;
use opship_record::{TreePath, codec, observation};
use std::collections::HashMap;

/// A request: what was read of it encodes to the bytes that it was read from.
pub(crate) fn entries(data: &[u8]) {
    let mut rest = data;
    while !rest.is_empty() {
        let from = rest;
        let Ok(entry) = Entry::decode_next(&mut rest) else { return };
        let mut again = Vec::new();
        entry.encode_into(&mut again);
        assert_eq!(again, from[..from.len() - rest.len()]);
        assert_eq!(entry.body.id(), entry.envelope.body);
    }
}

/// A record.
pub(crate) fn record(data: &[u8]) {
    if let Ok(record) = Record::decode(data) {
        assert_eq!(record.encode(), data);
        record.validate().unwrap();
    }
}

/// A value.
pub(crate) fn value(data: &[u8]) {
    if let Ok(body) = Body::decode(BodyKind::Value, data) {
        assert_eq!(body.encode(), data);
    }
}

/// The lists of observations, changes and streams; a list of changes is also applied to a tree.
pub(crate) fn lists(data: &[u8]) {
    if let Ok(list) = observation::decode_list(data) {
        assert_eq!(observation::encode_list(&list), data);
    }
    if let Ok(list) = codec::decode::<Vec<StepStreams>>(data, "streams") {
        assert_eq!(codec::encode(&list), data);
    }
    if let Ok(list) = effect::decode_list(data) {
        assert_eq!(effect::encode_list(&list), data);
        let origins = Origins::new(&list);
        list.iter().for_each(|change| drop((origins.of(&change.path), origins.has_left(&change.path))));
        applied(&list);
    }
}

/// What fits the empty tree gives a whole tree, whose paths are those of the list.
fn applied(list: &[Change]) {
    let mut store = HashMap::new();
    if let Ok(root) = tree::apply(&mut store, &tree::empty(), list) {
        tree::verify(&store, &root).unwrap();
        for change in list {
            let found = tree::lookup(&store, &root, &change.path).unwrap();
            assert_eq!(found.is_none(), change.after == effect::After::Removed);
        }
    }
}

/// A tree node, alone and as a tree.
pub(crate) fn tree_node(data: &[u8]) {
    let hash = tree::hash_of(data);
    let store = HashMap::from([(hash, data.to_vec())]);
    let listed = tree::list(&store, &hash);
    match tree::references(data) {
        Ok(references) => assert!(references.nodes.len() <= 32 && references.blobs.len() <= 32),
        Err(_) => assert!(listed.is_err() && tree::verify(&store, &hash).is_err()),
    }
    if let Ok(entries) = listed {
        assert!(entries.is_sorted_by(|a, b| a.name < b.name));
        entries.iter().for_each(|e| assert_eq!(tree::find(&store, &hash, &e.name).unwrap().as_ref(), Some(e)));
    }
}

/// A response: what is understood of an answer is an answer.
pub(crate) fn answer(data: &[u8]) {
    let mut rest = data;
    while !rest.is_empty() {
        let Ok(answer) = Answer::decode_next(&mut rest) else { return };
        let again = answer.encode();
        assert_eq!(Answer::decode_next(&mut again.as_slice()), Ok(answer));
    }
}

/// A version.
pub(crate) fn version(data: &[u8]) {
    if let Ok(version) = Version::decode(data) {
        assert_eq!(version.encode(), data);
    }
}

/// A path: one that is accepted is kept to the byte and stays inside the tree.
pub(crate) fn path(data: &[u8]) {
    let Ok(path) = TreePath::from_bytes(data) else { return };
    assert_eq!(path.as_str().as_bytes(), data);
    let mut again = TreePath::root();
    for name in path.components() {
        assert!(!matches!(name, "" | "." | "..") && !name.eq_ignore_ascii_case(".opship") && !name.contains('\0'));
        let parent = again;
        again = parent.join(name).unwrap();
        assert_eq!(again.parent(), Some(parent));
        assert!(path.starts_with(&again));
    }
    assert_eq!(again, path);
}
