//! The codec: what is written is read again as it was, and nothing else is read.
#![allow(clippy::unwrap_used)]

use super::format::{BundledEntry, Claim, FORMAT, Head, Kind, State};
use super::read::{Contents, root_of, scan};
use super::write::Writer;
use opship_record::effect::{self, After, Before, Change};
use opship_record::entry::{Body, BodyKind, ClientId, Value};
use opship_record::node::{Kind as NodeKind, Node};
use opship_record::{Hash, TreePath, codec};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// What a bundle is made of.
#[derive(Debug, Clone)]
struct Parts {
    states: Vec<State>,
    entries: Vec<BundledEntry>,
    contents: BTreeMap<Hash, Vec<u8>>,
}

fn node() -> impl Strategy<Value = Node> {
    let (mode, mtime) = (0u16..=0o777, any::<i64>());
    prop_oneof![
        (mode.clone(), mtime, any::<u64>(), any::<[u8; 32]>()).prop_map(|(mode, mtime, length, hash)| {
            Node::File { mode, mtime, length, hash: Hash::from_bytes(hash) }
        }),
        mode.prop_map(|mode| Node::Directory { mode }),
        (mtime, vec(1u8.., 1..20)).prop_map(|(mtime, target)| Node::Symlink { mtime, target }),
    ]
}

/// States of a flat tree, one in eight of them unknown.
fn states() -> impl Strategy<Value = Vec<State>> {
    let state = prop_oneof![1 => Just(None), 7 => node().prop_map(Some)];
    btree_map("[a-zé ]{1,12}", state, 0..40)
        .prop_map(|states| states.into_iter().map(|(path, node)| (TreePath::new(path).unwrap(), node)).collect())
}

fn value(client: u8, sequence: u64, text: &[u8]) -> BundledEntry {
    let path = TreePath::new("path").unwrap();
    let before = Before::Absent { missing: path.clone(), above: NodeKind::Directory };
    let after = After::File { length: text.len() as u64, hash: Hash::of(text), mode: Some(0o644), mtime: 5 };
    let changes = [Change { path, before, after }];
    BundledEntry {
        client: ClientId::from_bytes([client; 16]),
        sequence,
        kind: BodyKind::Value,
        waits: Vec::new(),
        command: "changed path".to_owned(),
        body: Body::Value(Value::new(&changes)).encode().into(),
        changes: effect::encode_list(&changes).into(),
        observations: None,
        streams: None,
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let contents = vec(prop_oneof![vec(any::<u8>(), 0..2000), (0usize..3_000_000).prop_map(|n| vec![7; n])], 0..4);
    (states(), contents, 0u64..4).prop_map(|(states, contents, entries)| Parts {
        entries: (1..=entries).map(|sequence| value(1, sequence, &sequence.to_le_bytes())).collect(),
        contents: contents.into_iter().map(|bytes| (Hash::of(&bytes), bytes)).collect(),
        states,
    })
}

fn head(parts: &Parts) -> Head {
    let root = root_of(&parts.states).unwrap();
    Head {
        format: FORMAT,
        server: "http://127.0.0.1:7420".to_owned(),
        workspace: "main".to_owned(),
        version: Some(Claim { number: 3, mark: Some(Hash::of(b"id").mark().into()), root }),
        since: None,
        paths: parts.states.len() as u64,
        entries: parts.entries.len() as u64,
        contents: parts.contents.len() as u64,
        made: 9,
    }
}

fn written(head: &Head, parts: &Parts) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.section(Kind::Head, &codec::encode(head)).unwrap();
    for page in parts.states.chunks(7) {
        writer.packed(Kind::States, &codec::encode(&page)).unwrap();
    }
    for entry in &parts.entries {
        writer.packed(Kind::Entry, &codec::encode(entry)).unwrap();
    }
    for (hash, bytes) in &parts.contents {
        assert!(writer.content(hash, bytes.len() as u64, bytes.as_slice()).unwrap());
    }
    writer.finish().unwrap()
}

fn content(bytes: &[u8], found: &Contents, hash: &Hash) -> Vec<u8> {
    let (at, length) = found.contents[hash];
    let sections = super::read::Sections::at(&bytes[at as usize..], at);
    let mut content = Vec::new();
    super::read::unpacked(Box::new(sections), length).unwrap().read_to_end(&mut content).unwrap();
    content
}

/// A bundle of one file and one entry.
fn small() -> (Head, Parts) {
    let node = Node::File { mode: 0o644, mtime: 1, length: 5, hash: Hash::of(b"bytes") };
    let parts = Parts {
        states: vec![(TreePath::new("file").unwrap(), Some(node))],
        entries: vec![value(1, 1, b"text")],
        contents: BTreeMap::from([(Hash::of(b"bytes"), b"bytes".to_vec()), (Hash::of(b"text"), b"text".to_vec())]),
    };
    (head(&parts), parts)
}

fn refusal(bytes: &[u8]) -> String {
    let error = scan(bytes).unwrap_err();
    assert!(matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof), "{error:?}");
    error.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_again_as_it_was(parts in parts()) {
        let head = head(&parts);
        let bytes = written(&head, &parts);
        let found = scan(bytes.as_slice()).unwrap();
        prop_assert_eq!(&found.head, &head);
        prop_assert_eq!(&found.states, &parts.states);
        prop_assert_eq!(found.entries.len(), parts.entries.len());
        for (at, entry) in found.entries.iter().zip(&parts.entries) {
            let section = super::read::Sections::at(&bytes[*at as usize..], *at).expect(Kind::Entry).unwrap();
            prop_assert_eq!(&super::read::decode_entry(&section).unwrap(), entry);
        }
        for (hash, expected) in &parts.contents {
            prop_assert!(content(&bytes, &found, hash) == *expected);
        }
    }
}

#[test]
fn no_byte_can_be_another_or_missing() {
    let (head, parts) = small();
    let whole = written(&head, &parts);
    scan(whole.as_slice()).unwrap();
    for at in 0..whole.len() {
        for flip in [1, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            refusal(&bytes);
        }
        refusal(&whole[..at]);
    }
    refusal(&[&whole[..], b"x"].concat());
}

#[test]
fn what_contradicts_itself_is_refused_although_its_checksum_is_right() {
    let (head, parts) = small();
    let other = |change: &dyn Fn(&mut Head, &mut Parts)| {
        let (mut head, mut parts) = (head.clone(), parts.clone());
        change(&mut head, &mut parts);
        refusal(&written(&head, &parts))
    };
    let unlike = |head: &mut Head| head.version.as_mut().unwrap().root = Some(Hash::of(b"another"));
    assert!(other(&|head, _| unlike(head)).contains("not the tree"));
    assert!(other(&|head, _| head.version = None).contains("contradicts"));
    assert!(other(&|head, _| head.since = Some(4)).contains("contradicts"));
    assert!(other(&|head, _| head.format = 2).contains("newer"));
    assert!(other(&|head, _| head.paths = 5_000_000).contains("paths"));
    assert!(other(&|head, _| head.contents = 7).contains("more or less"));
    assert!(other(&|_, parts| parts.entries.push(value(1, 1, b"other"))).contains("twice"));
    assert!(other(&|_, parts| parts.entries[0].changes = effect::encode_list(&[]).into()).contains("lists"));
    assert!(other(&|_, parts| parts.entries[0].waits = vec![1]).contains("waits"));
    assert!(other(&|_, parts| parts.states.insert(0, parts.states[0].clone())).contains("no tree may hold"));
    assert!(
        other(&|head, parts| {
            let (path, _) = parts.states[0].clone();
            let node = Node::File { mode: 0o644, mtime: 1, length: 6, hash: Hash::of(b"bytes") };
            parts.states[0] = (path, Some(node));
            head.version.as_mut().unwrap().root = root_of(&parts.states).unwrap();
        })
        .contains("length")
    );
    let below = |parts: &mut Parts| {
        let (_, node) = parts.states[0].clone();
        parts.states.push((TreePath::new("file/below").unwrap(), node));
    };
    assert!(
        other(&|head, parts| {
            below(parts);
            head.paths = 2;
        })
        .contains("does not fit")
    );
}

#[test]
fn sections_in_another_order_and_contents_with_other_bytes_are_refused() {
    let (head, parts) = small();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.section(Kind::Head, &codec::encode(&head)).unwrap();
    writer.packed(Kind::Entry, &codec::encode(&parts.entries[0])).unwrap();
    writer.packed(Kind::States, &codec::encode(&parts.states)).unwrap();
    assert!(refusal(&writer.finish().unwrap()).contains("wrong place"));

    for (length, bytes) in [(5, &b"bytez"[..]), (4, b"bytes"), (6, b"bytes"), (u64::MAX, b"bytes")] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer
            .section(Kind::Head, &codec::encode(&Head { paths: 0, entries: 0, contents: 1, ..head.clone() }))
            .unwrap();
        assert!(!writer.content(&Hash::of(b"bytes"), length, bytes).unwrap());
        assert!(refusal(&writer.finish().unwrap()).contains("other bytes"), "{length}");
    }
}

#[test]
fn a_window_that_takes_too_much_memory_is_refused() {
    let (head, _) = small();
    let content = vec![1; 1000];
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.section(Kind::Head, &codec::encode(&Head { paths: 0, entries: 0, contents: 1, ..head })).unwrap();
    let mut stated = Hash::of(&content).as_bytes().to_vec();
    stated.extend(1000u64.to_be_bytes());
    writer.section(Kind::Content, &stated).unwrap();
    // A frame's header (RFC 8878, section 3.1.1): the magic number, no stated size, a window of 2^31 bytes.
    writer.section(Kind::Piece, &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00]).unwrap();
    refusal(&writer.finish().unwrap());
}
