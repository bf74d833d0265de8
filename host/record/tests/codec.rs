//! Every type: what is written is read again as the same, and nothing else is read as it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::answer::{Answer, Aspect, Difference, Need, Reason, Status, Verdict};
use opship_record::effect::{self, After, Before, Change};
use opship_record::entry::{Body, BodyKind, ClientId, Entry, Part, PartKind, Value};
use opship_record::node::{Kind, Node};
use opship_record::observation::{self, Observation};
use opship_record::plan::{Mount, Plan, RunLimits, Stdin, Step};
use opship_record::record::{self, Lists, Record, StepStreams};
use opship_record::version::Version;
use opship_record::{Error, FORMAT_VERSION, Hash, PathError, TreePath, codec, tree};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

fn some_path() -> impl Strategy<Value = TreePath> {
    vec("[a-c\u{e9}-]{1,3}", 1..4).prop_map(|names| TreePath::new(names.join("/")).unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::File), Just(Kind::Directory), Just(Kind::Symlink)]
}

fn mode() -> impl Strategy<Value = u16> {
    0u16..=0o777
}

fn text_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8.., 1..40)
}

fn absent_part(path: &TreePath) -> TreePath {
    path.parent().filter(|parent| !parent.is_root()).unwrap_or_else(|| path.clone())
}

fn observation() -> impl Strategy<Value = Observation> {
    prop_oneof![
        (some_path(), hash()).prop_map(|(path, hash)| Observation::Content { path, hash }),
        (some_path(), kind(), mode(), any::<i64>(), any::<u64>())
            .prop_map(|(path, kind, mode, mtime, size)| Observation::Metadata { path, kind, mode, mtime, size }),
        (some_path(), kind()).prop_map(|(path, above)| Observation::Absent {
            missing: absent_part(&path),
            path,
            above
        }),
        (some_path(), hash()).prop_map(|(path, digest)| Observation::Listing { path, digest }),
        (some_path(), text_bytes()).prop_map(|(path, target)| Observation::LinkTarget { path, target }),
        (some_path(), kind()).prop_map(|(path, kind)| Observation::Exists { path, kind }),
    ]
}

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    btree_set(observation(), 0..20).prop_map(|set| {
        let mut list: Vec<_> = set.into_iter().collect();
        list.dedup_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b) && a.path() == b.path());
        list
    })
}

/// States before and after of a path, without moves.
fn states() -> impl Strategy<Value = (Option<Before>, After)> {
    let before = prop_oneof![
        Just(None),
        hash().prop_map(|hash| Some(Before::File { hash })),
        Just(Some(Before::Directory)),
        text_bytes().prop_map(|target| Some(Before::Symlink { target })),
    ];
    let file = (any::<u64>(), hash(), option::of(mode()), any::<i64>());
    let after = prop_oneof![
        file.prop_map(|(length, hash, mode, mtime)| After::File { length, hash, mode, mtime }),
        option::of(mode()).prop_map(|mode| After::Directory { mode }),
        (text_bytes(), any::<i64>()).prop_map(|(target, mtime)| After::Symlink { target, mtime }),
    ];
    let metadata = (option::of(mode()), option::of(any::<i64>())).prop_map(|(mode, mtime)| {
        let kind = Kind::File;
        (Some(Before::Kind { kind }), After::Metadata { kind, mode, mtime })
    });
    prop_oneof![4 => (before, after), 1 => metadata, 1 => Just((Some(Before::Directory), After::Removed))]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let moves = btree_set("[d-f]{2}", 0..3);
    (btree_map(some_path(), states(), 0..20), moves, option::of(mode())).prop_map(|(states, moves, mode)| {
        let absent = |path: &TreePath| Before::Absent { missing: absent_part(path), above: Kind::Directory };
        let mut list: Vec<Change> = states
            .into_iter()
            .map(|(path, (before, after))| Change { before: before.unwrap_or_else(|| absent(&path)), path, after })
            .collect();
        for from in moves {
            let path = TreePath::new(format!("to-{from}")).unwrap();
            let from = TreePath::new(from).unwrap();
            let moved = After::Moved { from: from.clone(), mode };
            list.push(Change { before: absent(&path), path, after: moved });
            list.push(Change { path: from, before: Before::Directory, after: After::Removed });
        }
        list.sort_by(|a, b| a.path.cmp(&b.path));
        list
    })
}

fn step(index: u8) -> impl Strategy<Value = Step> {
    let stdin = prop_oneof![
        Just(None),
        hash().prop_map(|hash| Some(Stdin::Blob { hash })),
        some_path().prop_map(|path| Some(Stdin::Path { path })),
        (0..index.max(1)).prop_map(move |step| (step < index).then_some(Stdin::Step { step })),
    ];
    let variable = ("[A-Z]{1,5}", vec(1u8.., 0..9)).prop_map(|(name, value)| (name.into_bytes().into(), value.into()));
    let mounts = btree_map("[m-p]{1,3}", hash(), 0..4).prop_map(|mounts| {
        let mount = |(path, tree)| Mount { path: TreePath::new(path).unwrap(), tree };
        mounts.into_iter().map(mount).collect::<Vec<_>>()
    });
    let places = (option::of(some_path()), option::of(some_path()));
    (hash(), vec(text_bytes(), 1..4), vec(variable, 0..3), stdin, places, mounts).prop_map(
        |(module, arguments, environment, stdin, (directory, stdout), mounts)| Step {
            environment: Some(environment).filter(|list| !list.is_empty()),
            mounts: Some(mounts).filter(|list| !list.is_empty()),
            directory,
            stdin,
            stdout,
            ..Step::new(module, arguments)
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let steps = (step(0), option::of(step(1))).prop_map(|(first, second)| [first].into_iter().chain(second).collect());
    let limits = option::of((0..16_384u32).prop_map(|memory_pages| RunLimits { memory_pages }));
    (steps, any::<u64>(), any::<[u8; 16]>(), limits, any::<u32>()).prop_map(
        |(steps, clock_start, seed, limits, profile)| Plan {
            format: FORMAT_VERSION,
            steps,
            clock_start,
            seed: seed.into(),
            limits,
            profile,
        },
    )
}

fn streams() -> impl Strategy<Value = StepStreams> {
    (any::<u64>(), hash(), any::<u64>(), hash()).prop_map(|(stdout_length, stdout, stderr_length, stderr)| {
        StepStreams { stdout_length, stdout, stderr_length, stderr }
    })
}

fn a_record() -> impl Strategy<Value = Record> {
    let lists = (observations(), changes(), vec(streams(), 2), vec(any::<u32>(), 2));
    (plan(), lists).prop_map(|(plan, (observations, changes, mut streams, mut exits))| {
        streams.truncate(plan.steps.len());
        exits.truncate(plan.steps.len());
        Record::new(plan, &Lists { observations, changes, streams, exits })
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let body = prop_oneof![
        a_record().prop_map(Body::Operation),
        changes().prop_map(|changes| Body::Value(Value::new(&changes))),
    ];
    let kind = prop_oneof![
        Just(PartKind::Blob),
        Just(PartKind::Observations),
        Just(PartKind::Changes),
        Just(PartKind::Streams)
    ];
    let part = (kind, vec(any::<u8>(), 0..99), any::<bool>()).prop_map(|(kind, bytes, inline)| {
        let part = Part::inline(kind, bytes);
        if inline { part } else { Part { bytes: None, ..part } }
    });
    let client = any::<[u8; 16]>().prop_map(ClientId::from_bytes);
    (client, 1..=i64::MAX as u64, btree_set(any::<u64>(), 0..5), body, vec(part, 0..4), any::<Option<[u8; 8]>>())
        .prop_map(|(client, sequence, waits, body, parts, head)| {
            let waits: Vec<u64> = waits.into_iter().filter(|wait| (1..sequence).contains(wait)).collect();
            let mut entry = Entry::new(client, sequence, &waits, body, parts);
            entry.envelope.head = head.map(Into::into);
            entry
        })
}

fn difference() -> impl Strategy<Value = Difference> {
    let aspects = [
        Aspect::Observation,
        Aspect::Before,
        Aspect::Content,
        Aspect::Metadata,
        Aspect::Stdout,
        Aspect::Stderr,
        Aspect::Exit,
        Aspect::Finish,
    ];
    let numbers = any::<[Option<u64>; 3]>();
    let what = (prop::sample::select(aspects.to_vec()), option::of(some_path()), any::<Option<u8>>());
    (what, option::of(hash()), option::of(hash()), numbers).prop_map(
        |((aspect, path, step), recorded, replayed, [recorded_length, replayed_length, offset])| Difference {
            aspect,
            path,
            step,
            recorded,
            replayed,
            recorded_length,
            replayed_length,
            offset,
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let statuses =
        [Status::Ended, Status::Accepted, Status::Parked, Status::Needs, Status::Forked, Status::Failed].to_vec();
    let need = hash().prop_flat_map(|hash| {
        let needs = [Need::Lists, Need::Blob { hash }, Need::Module { hash }, Need::Tree { hash }, Need::Values];
        prop::sample::select(needs.to_vec())
    });
    let verdict = option::of(prop::sample::select(Verdict::ALL.to_vec()));
    let reason = option::of(prop::sample::select(Reason::ALL.to_vec()));
    let lists = (option::of(vec(need, 0..4)), option::of(vec(difference(), 0..3)), any::<Option<Vec<u64>>>());
    let texts = (any::<Option<String>>(), any::<Option<String>>());
    let numbers = any::<(u64, Option<u64>, Option<u64>)>();
    let record = option::of(a_record());
    (prop::sample::select(statuses), verdict, reason, lists, texts, numbers, record).prop_map(
        |(status, verdict, reason, (needs, report, waits), (detail, location), numbers, record)| {
            let ((sequence, version, replay_micros), record) = (numbers, record.map(Box::new));
            let answer = Answer { verdict, reason, version, needs, report, waits, ..Answer::new(sequence, status) };
            Answer { detail, location, replay_micros, record, ..answer }
        },
    )
}

fn version() -> impl Strategy<Value = Version> {
    let entry = option::of((any::<[u8; 16]>(), any::<u64>(), hash()));
    (any::<u64>(), hash(), hash(), entry, any::<u64>()).prop_map(|(number, root, parent, entry, time)| {
        let entry = entry.filter(|_| number > 0);
        Version {
            format: FORMAT_VERSION,
            number,
            root: if number > 0 { root } else { tree::empty() },
            parent: (number > 0).then_some(parent),
            author: entry.map(|(client, ..)| ClientId::from_bytes(client)),
            sequence: entry.map(|(_, sequence, _)| sequence),
            entry: entry.map(|(.., id)| id),
            time,
        }
    })
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        (mode(), any::<i64>(), any::<u64>(), hash()).prop_map(|(mode, mtime, length, hash)| Node::File {
            mode,
            mtime,
            length,
            hash
        }),
        mode().prop_map(|mode| Node::Directory { mode }),
        (any::<i64>(), text_bytes()).prop_map(|(mtime, target)| Node::Symlink { mtime, target }),
    ]
}

proptest! {
    #[test]
    fn records_are_read_as_written(record in a_record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn lists_are_read_as_written(seen in observations(), done in changes(), streams in vec(streams(), 0..5)) {
        prop_assert_eq!(observation::decode_list(&observation::encode_list(&seen)), Ok(seen));
        prop_assert_eq!(effect::decode_list(&effect::encode_list(&done)), Ok(done));
        prop_assert_eq!(record::decode_streams(&record::encode_streams(&streams)), Ok(streams));
    }

    #[test]
    fn requests_are_read_as_written(entries in vec(entry(), 0..4)) {
        let mut request = Vec::new();
        entries.iter().for_each(|entry| entry.encode_into(&mut request));
        let mut rest = request.as_slice();
        for entry in entries {
            prop_assert_eq!(Entry::decode_next(&mut rest), Ok(entry));
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn answers_versions_and_nodes_are_read_as_written(answers in vec(answer(), 1..3), version in version(), node in node()) {
        let response: Vec<u8> = answers.iter().flat_map(Answer::encode).collect();
        let mut rest = response.as_slice();
        for answer in answers {
            prop_assert_eq!(Answer::decode_next(&mut rest), Ok(answer));
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(Version::decode(&version.encode()), Ok(version));
        prop_assert_eq!(codec::decode(&codec::encode(&node), "node"), Ok(node));
    }

    /// A record right in all but one field is another record.
    #[test]
    fn ids_tell_records_apart(a in a_record(), b in a_record()) {
        prop_assert_eq!(a == b, a.id() == b.id());
    }

    #[test]
    fn any_difference_in_a_list_shows_in_a_digest(done in changes(), index in any::<prop::sample::Index>(), other in states()) {
        prop_assume!(!done.is_empty());
        let mut changed = done.clone();
        let change = &mut changed[index.index(done.len())];
        change.after = other.1;
        prop_assume!(changed != done);
        prop_assert_ne!(effect::digests(&changed), effect::digests(&done));
        prop_assert_ne!(effect::list_digest(&changed), effect::list_digest(&done));
        prop_assert!(Value::new(&done).is_of(&done) && !Value::new(&done).is_of(&changed));
    }

    #[test]
    fn a_response_may_arrive_in_pieces(answer in answer(), cut in any::<prop::sample::Index>()) {
        let bytes = answer.encode();
        prop_assert_eq!(codec::item_length(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(codec::item_length(&bytes[..cut.index(bytes.len())]), Ok(None));
    }

    #[test]
    fn any_text_is_a_path_or_refused_for_a_rule(text in "\\PC{0,12}|([./a\u{0}]|\\.opship|\\.\\.){1,6}") {
        let broken = |name: &str| matches!(name, "" | "." | "..") || name.contains('\0');
        match TreePath::new(text.clone()) {
            Ok(path) => {
                prop_assert_eq!(path.as_str(), &text);
                prop_assert!(text.is_empty() || !text.split('/').any(|n| broken(n) || n.eq_ignore_ascii_case(".opship")));
                prop_assert_eq!(path.components().collect::<Vec<_>>().join("/"), text);
            }
            // No ASCII text is taken for the folder's name but that name.
            Err(PathError::Reserved(_)) => {
                prop_assert!(!text.is_ascii() || text.to_ascii_lowercase().split('/').any(|name| name == ".opship"));
            }
            Err(_) => prop_assert!(text.split('/').any(broken)),
        }
    }

    #[test]
    fn paths_take_apart_and_fit_together(a in some_path(), b in some_path()) {
        let whole = a.append(&b).unwrap();
        prop_assert!(whole.starts_with(&a) && whole.starts_with(&TreePath::root()) && !a.starts_with(&whole));
        prop_assert_eq!(whole.strip_prefix(&a), Some(b.clone()));
        prop_assert_eq!(whole.parent().unwrap().join(whole.name().unwrap()), Ok(whole.clone()));
        prop_assert_eq!(a.starts_with(&b), b.components().zip(a.components()).filter(|(b, a)| b == a).count() == b.components().count());
        prop_assert_eq!(TreePath::root().append(&a), Ok(a.clone()));
        prop_assert_eq!(a.append(&TreePath::root()), Ok(a));
    }
}

#[test]
fn each_number_of_parts_over_the_limit_is_refused() {
    let body = Body::Value(Value::new(&[]));
    for count in [4097, 65_535, 65_536, 65_537] {
        let part = Part { kind: PartKind::Blob, hash: Hash::of_empty(), bytes: None };
        let mut request = Vec::new();
        let entry = Entry::new(ClientId::from_bytes([1; 16]), 1, &[], body.clone(), vec![part; count]);
        entry.encode_into(&mut request);
        let refused = Entry::decode_next(&mut request.as_slice());
        assert!(matches!(refused, Err(Error::TooLarge { what: "number of parts", .. })), "{count}: {refused:?}");
    }
}

#[test]
fn lengths_that_add_up_to_more_than_a_number_holds_are_counted_as_the_most() {
    let change = |path: &str| Change {
        path: TreePath::new(path).unwrap(),
        before: Before::Directory,
        after: After::File { length: u64::MAX, hash: Hash::of_empty(), mode: None, mtime: 0 },
    };
    let value = Value::new(&[change("a"), change("b")]);
    assert_eq!(value.bytes, u64::MAX);
    assert_eq!(Body::decode(BodyKind::Value, &codec::encode(&value)), Ok(Body::Value(value)));
}
