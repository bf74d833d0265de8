//! A value of each type of the wire format, by name. `docs/wire-format.md` shows their bytes.
#![allow(dead_code, clippy::unwrap_used)]

use super::{directory, file, path};
use opship_record::answer::{Answer, Aspect, Difference, Need, Reason, Status, Verdict};
use opship_record::effect::{self, After, Before, Change};
use opship_record::entry::{Body, BodyKind, ClientId, Entry, Part, PartKind, Value};
use opship_record::node::{Kind, Node};
use opship_record::observation::{self, Observation};
use opship_record::plan::{Mount, Plan, RunLimits, Stdin, Step};
use opship_record::record::{self, Lists, Record, StepStreams};
use opship_record::tree::{self, NodeStore};
use opship_record::version::Version;
use opship_record::{Error, FORMAT_VERSION, Hash, TreePath, codec};

/// A value as bytes, with the hashes that it goes by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) hashes: Vec<(&'static str, Hash)>,
}

/// Reads bytes as a type and writes what was read.
pub(crate) fn reencode(kind: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    match kind {
        "record" => Ok(Record::decode(bytes)?.encode()),
        "value" => Ok(Body::decode(BodyKind::Value, bytes)?.encode()),
        "observations" => Ok(observation::encode_list(&observation::decode_list(bytes)?)),
        "changes" => Ok(effect::encode_list(&effect::decode_list(bytes)?)),
        "streams" => Ok(record::encode_streams(&record::decode_streams(bytes)?)),
        "version" => Ok(Version::decode(bytes)?.encode()),
        "node" => Ok(codec::encode(&codec::decode::<Node>(bytes, "node")?)),
        "tree-node" => tree::references(bytes).map(|_| bytes.to_vec()),
        "path" => Ok(TreePath::from_bytes(bytes)?.as_str().as_bytes().to_vec()),
        "request" => sequence(bytes, |rest, again| {
            Entry::decode_next(rest)?.encode_into(again);
            Ok(())
        }),
        "response" => sequence(bytes, |rest, again| {
            again.extend(Answer::decode_next(rest)?.encode());
            Ok(())
        }),
        other => unreachable!("type {other}"),
    }
}

fn sequence(
    bytes: &[u8],
    mut next: impl FnMut(&mut &[u8], &mut Vec<u8>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let (mut rest, mut again) = (bytes, Vec::new());
    while !rest.is_empty() {
        next(&mut rest, &mut again)?;
    }
    Ok(again)
}

pub(crate) fn plan() -> Plan {
    Plan {
        format: FORMAT_VERSION,
        steps: vec![Step::new(Hash::of(b"module"), ["gzip", "-k", "data.csv"])],
        clock_start: 1_800_000_000_000_000_000,
        seed: [7; 16].into(),
        limits: None,
        profile: 1,
    }
}

/// Two steps with every field in use.
pub(crate) fn full_plan() -> Plan {
    let mut first = Step::new(Hash::of(b"module"), ["sort"]);
    first.environment = Some(vec![(b"LC_ALL".to_vec().into(), b"C".to_vec().into())]);
    first.directory = Some(path("logs"));
    first.stdin = Some(Stdin::Path { path: path("logs/a.txt") });
    first.mounts = Some(vec![Mount { path: path("share"), tree: tree::empty() }]);
    let mut second = Step::new(Hash::of(b"module"), ["uniq"]);
    second.stdin = Some(Stdin::Step { step: 0 });
    second.stdout = Some(path("out.txt"));
    Plan { steps: vec![first, second], limits: Some(RunLimits { memory_pages: 256 }), ..plan() }
}

pub(crate) fn observations() -> Vec<Observation> {
    let target = b"data.csv".to_vec();
    vec![
        Observation::Content { path: path("data.csv"), hash: Hash::of(b"1,2\n") },
        Observation::Metadata { path: path("data.csv"), kind: Kind::File, mode: 0o644, mtime: -1, size: 4 },
        Observation::Absent { path: path("no/such"), missing: path("no"), above: Kind::Directory },
        Observation::Listing {
            path: TreePath::root(),
            digest: observation::listing_digest([("data.csv", Kind::File), ("latest", Kind::Symlink)]),
        },
        Observation::LinkTarget { path: path("latest"), target },
        Observation::Exists { path: path("old"), kind: Kind::Directory },
    ]
}

pub(crate) fn changes() -> Vec<Change> {
    let absent = |at: &str| Before::Absent { missing: path(at), above: Kind::Directory };
    let new_file = After::File { length: 4, hash: Hash::of(b"1,2\n"), mode: None, mtime: 5 };
    let set = After::File { length: 0, hash: Hash::of_empty(), mode: Some(0o600), mtime: 6 };
    let metadata = After::Metadata { kind: Kind::File, mode: Some(0o755), mtime: None };
    let change = |at: &str, before, after| Change { path: path(at), before, after };
    vec![
        change("data.csv.gz", absent("data.csv.gz"), new_file),
        change("dir", absent("dir"), After::Directory { mode: None }),
        change("link", Before::Symlink { target: b"a".to_vec() }, After::Symlink { target: b"b".to_vec(), mtime: 7 }),
        change("moved", absent("moved"), After::Moved { from: path("old"), mode: None }),
        change("moved/empty", Before::File { hash: Hash::of(b"x") }, set),
        change("old", Before::Directory, After::Removed),
        change("run.sh", Before::Kind { kind: Kind::File }, metadata),
    ]
}

pub(crate) fn streams() -> Vec<StepStreams> {
    vec![StepStreams { stdout_length: 3, stdout: Hash::of(b"ok\n"), ..StepStreams::default() }]
}

pub(crate) fn client() -> ClientId {
    ClientId::from_bytes([9; 16])
}

fn operation() -> Record {
    let lists = Lists { observations: observations(), changes: changes(), streams: streams(), exits: vec![0] };
    Record::new(plan(), &lists)
}

pub(crate) fn entries() -> Vec<Entry> {
    let mut first = Entry::new(client(), 7, &[3, 6], Body::Operation(operation()), Vec::new());
    first.envelope.head = Some([1; 8].into());
    let list = Part::inline(PartKind::Changes, effect::encode_list(&changes()));
    let uploaded = Part { kind: PartKind::Blob, hash: Hash::of(b"1,2\n"), bytes: None };
    vec![first, Entry::new(client(), 8, &[], Body::Value(Value::new(&changes())), vec![list, uploaded])]
}

pub(crate) fn answers() -> Vec<Answer> {
    let ended = Answer {
        verdict: Some(Verdict::Matched),
        version: Some(12),
        replay_micros: Some(350),
        ..Answer::new(7, Status::Ended)
    };
    let needs = vec![Need::Lists, Need::Blob { hash: Hash::of(b"1,2\n") }, Need::Module { hash: Hash::of(b"module") }];
    let difference = Difference {
        aspect: Aspect::Content,
        path: Some(path("data.csv.gz")),
        step: None,
        recorded: Some(Hash::of(b"1,2\n")),
        replayed: None,
        recorded_length: Some(4),
        replayed_length: None,
        offset: None,
    };
    let shipped = Answer {
        verdict: Some(Verdict::Shipped),
        reason: Some(Reason::Diverged),
        report: Some(vec![difference]),
        ..Answer::new(8, Status::Ended)
    };
    let parked = Answer { waits: Some(vec![8]), detail: Some("waits".to_owned()), ..Answer::new(10, Status::Parked) };
    vec![ended, shipped, Answer { needs: Some(needs), ..Answer::new(9, Status::Needs) }, parked]
}

fn rebased() -> Answer {
    Answer {
        verdict: Some(Verdict::Rebased),
        reason: Some(Reason::InputsChanged),
        version: Some(13),
        record: Some(Box::new(operation())),
        ..Answer::new(7, Status::Ended)
    }
}

fn versions() -> [Version; 2] {
    let first = Version {
        format: FORMAT_VERSION,
        number: 0,
        root: tree::empty(),
        parent: None,
        author: None,
        sequence: None,
        entry: None,
        time: 1_800_000_000_000,
    };
    let second = Version {
        number: 1,
        parent: Some(first.id()),
        author: Some(client()),
        sequence: Some(7),
        entry: Some(operation().id()),
        time: 1_800_000_000_050,
        ..first.clone()
    };
    [first, second]
}

/// A leaf of each kind of entry, and a directory of 33 files, one more than a leaf holds.
fn tree_nodes() -> [Vec<u8>; 2] {
    let mut store = super::Nodes::default();
    let link = Node::Symlink { mtime: 2, target: b"a".to_vec() };
    let leaf = [("a", file("x")), ("d", directory()), ("l", link)].map(|(at, node)| (path(at), node)).into();
    let branch = (0..33).map(|i| (path(&format!("{i}")), file("x"))).collect();
    [leaf, branch].map(|model| {
        let root = super::build(&mut store, &model);
        store.node(&root).unwrap().unwrap()
    })
}

/// All samples.
pub(crate) fn samples() -> Vec<Sample> {
    let sample = |name, kind, bytes: Vec<u8>, hashes: &[(&'static str, Hash)]| Sample {
        name,
        kind,
        bytes,
        hashes: hashes.to_vec(),
    };
    let small = Record::new(plan(), &Lists { exits: vec![0], ..Lists::default() });
    let full_lists = Lists { exits: vec![0, 2], observations: observations(), ..Lists::default() };
    let full = Record::new(full_plan(), &full_lists);
    let native = Record { native: Some(true), streams: None, ..operation() };
    let value = Body::Value(Value::new(&changes()));
    let results = Body::Value(Value { reason: Some(Reason::CheaperByValue), ..Value::new(&changes()) });
    let digests = effect::digests(&changes());
    let mut request = Vec::new();
    entries().iter().for_each(|entry| entry.encode_into(&mut request));
    let [first, second] = versions();
    let [leaf, branch] = tree_nodes();
    vec![
        sample("record-without-effects", "record", small.encode(), &[("id", small.id())]),
        sample("record-with-effects", "record", operation().encode(), &[("id", operation().id())]),
        sample("record-of-a-native-run", "record", native.encode(), &[("id", native.id())]),
        sample("record-of-two-steps", "record", full.encode(), &[("id", full.id())]),
        sample(
            "observations-of-each-kind",
            "observations",
            observation::encode_list(&observations()),
            &[("digest", observation::digest(&observations()).unwrap())],
        ),
        sample(
            "changes-of-each-kind",
            "changes",
            effect::encode_list(&changes()),
            &[
                ("list", effect::list_digest(&changes())),
                ("before", digests.before.unwrap()),
                ("content", digests.content.unwrap()),
                ("metadata", digests.metadata.unwrap()),
            ],
        ),
        sample(
            "streams-of-one-step",
            "streams",
            record::encode_streams(&streams()),
            &[("digest", record::streams_digest(&streams()).unwrap())],
        ),
        sample("value-of-those-changes", "value", value.encode(), &[("id", value.id())]),
        sample("value-of-the-results-of-an-operation", "value", results.encode(), &[("id", results.id())]),
        sample("request-of-two-entries", "request", request, &[]),
        sample("response-of-a-rebased-answer", "response", rebased().encode(), &[]),
        sample("response-of-four-answers", "response", answers().iter().flat_map(Answer::encode).collect(), &[]),
        sample("version-0", "version", first.encode(), &[("id", first.id())]),
        sample("version-1", "version", second.encode(), &[("id", second.id())]),
        sample("node-of-a-file", "node", codec::encode(&file("x")), &[]),
        sample("tree-node-empty", "tree-node", tree::empty_node(), &[("hash", tree::empty())]),
        sample("tree-node-leaf", "tree-node", leaf.clone(), &[("hash", tree::hash_of(&leaf))]),
        sample("tree-node-branch", "tree-node", branch.clone(), &[("hash", tree::hash_of(&branch))]),
        sample("path", "path", "é/a b".as_bytes().to_vec(), &[]),
    ]
}
