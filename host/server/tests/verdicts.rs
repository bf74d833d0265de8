//! How entries are decided: each decision of the carriage, with real modules on a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module, stranger};
use common::{TestServer, WS, client, created, list_parts, needs_blob, operation, path, record, replaced, tree, value};
use opship_record::Hash;
use opship_record::answer::{Aspect, Need, Reason, Status, Verdict};
use opship_record::effect::{After, Change};
use opship_record::entry::{Body, Entry, Part, PartKind};
use opship_record::record::Record;
use opship_residual::parity::{Code, Parity};
use opship_residual::residual::{Delta, Item, Repair, Residual};
use std::time::Duration;

/// What to spoil in a record, and what the answer must then name.
type Edit = (Aspect, fn(&mut Record, Option<Hash>));

fn copy() -> Vec<u8> {
    module("copy", &[Do::Read("in"), Do::WriteRead("out"), Do::Print(b"done\n")])
}

/// A server that holds `in` and the module, and a record of the module's run there.
async fn server_with_record(module: &[u8]) -> (TestServer, Record, opship_world::Outcome) {
    let server = TestServer::start().await;
    server.put_files(1, &[("in", b"input")]).await;
    server.upload(module).await;
    let (record, outcome) = record(module, tree(&[("in", b"input")]));
    (server, record, outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_comes_out_the_same_is_matched_and_makes_the_same_files() {
    let (server, record, _) = server_with_record(&copy()).await;
    let answer = server.ship_one(&operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!((answer.status, answer.verdict, answer.reason), (Status::Ended, Some(Verdict::Matched), None));
    assert_eq!(answer.version, Some(2));
    assert!(answer.replay_micros.is_some());
    assert_eq!(server.file("out").await.unwrap(), b"input");
    // The stream is kept too, so that a later value may name it.
    let missing = server.get(&format!("{WS}/blobs/{}", Hash::of(b"done\n"))).await;
    assert_eq!(missing.body, b"done\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_gives_the_same_answer_and_one_version_and_another_body_is_forked() {
    let (server, record, _) = server_with_record(&copy()).await;
    let entry = operation(client(1), 1, &record, Vec::new());
    let first = server.ship_one(&entry).await;
    let twice = server.ship(&[entry.clone(), entry.clone()]).await;
    assert_eq!(twice, vec![first.clone(), first]);
    assert_eq!(server.head().await, 2);

    let other = value(client(1), 1, vec![created("x", b"x")], [&b"x"[..]]);
    assert_eq!(server.ship_one(&other).await.status, Status::Forked);
    assert_eq!(server.head().await, 2);
    let state = |entry: &Entry| (entry.envelope.client, entry.envelope.sequence, entry.envelope.body);
    let unknown = (client(1), 2, entry.envelope.body);
    let asked = opship_record::codec::encode(&vec![state(&entry), state(&other), unknown]);
    let held: Vec<u8> = minicbor::decode(&server.post(&format!("{WS}/entries:state"), asked).await.body).unwrap();
    assert_eq!(held, [1, 2, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_right_in_all_but_one_digest_is_never_matched() {
    let (server, record, _) = server_with_record(&copy()).await;
    let wrong = Some(Hash::of(b"wrong"));
    let edits: [Edit; 6] = [
        (Aspect::Observation, |r, wrong| r.observations = wrong),
        (Aspect::Before, |r, wrong| r.before = wrong),
        (Aspect::Content, |r, wrong| r.content = wrong),
        (Aspect::Metadata, |r, wrong| r.metadata = wrong),
        (Aspect::Stdout, |r, wrong| r.streams = wrong),
        (Aspect::Exit, |r, _| r.exits = Some(vec![1])),
    ];
    for (sequence, (aspect, edit)) in (1..).zip(edits) {
        let mut record = record.clone();
        edit(&mut record, wrong);
        let answer = server.ship_one(&operation(client(1), sequence, &record, Vec::new())).await;
        assert_eq!((answer.status, answer.verdict), (Status::Needs, None), "{aspect:?}");
        assert_eq!(answer.needs, Some(vec![Need::Lists]));
        let named: Vec<Aspect> = answer.report.unwrap().iter().map(|d| d.aspect).collect();
        assert_eq!(named, [aspect]);
    }
    assert_eq!(server.head().await, 1);
    assert_eq!(server.file("out").await, None);
}

/// The record of a program that did what `outcome` says, with modes and times of its own, and its list of changes.
fn native(record: &Record, outcome: &opship_world::Outcome, content: &[u8]) -> (Record, Part) {
    let mut lists = outcome.lists.clone();
    for change in &mut lists.changes {
        if let After::File { length, hash, mode, mtime } = &mut change.after {
            (*length, *hash, *mode, *mtime) = (content.len() as u64, Hash::of(content), Some(0o600), 123_456_789);
        }
    }
    let record = Record { native: Some(true), streams: None, ..Record::new(record.plan.clone(), &lists) };
    (record, list_parts(&lists).swap_remove(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_native_run_is_matched_by_content_and_keeps_its_own_modes_and_times() {
    let (server, record, outcome) = server_with_record(&copy()).await;
    let (record, changes) = native(&record, &outcome, b"input");
    let answer = server.ship_one(&operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!((answer.status, answer.needs), (Status::Needs, Some(vec![Need::Lists])));
    let answer = server.ship_one(&operation(client(1), 1, &record, vec![changes])).await;
    assert_eq!((answer.verdict, answer.reason, answer.report), (Some(Verdict::Matched), None, None));
    assert_eq!(server.file("out").await.unwrap(), b"input");
    let listed = server.get(&format!("{WS}/versions/2/tree")).await.json();
    let out = listed.as_array().unwrap().iter().find(|entry| entry["name"] == "out").unwrap();
    assert_eq!((&out["mode"], &out["mtime"]), (&0o600.into(), &123_456_789.into()), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_native_run_that_wrote_something_else_is_not_matched() {
    let (server, record, outcome) = server_with_record(&copy()).await;
    let (record, changes) = native(&record, &outcome, b"other");
    let answer = server.ship_one(&operation(client(1), 1, &record, vec![changes.clone()])).await;
    assert_eq!((answer.status, answer.reason), (Status::Needs, Some(Reason::Diverged)));
    assert!(needs_blob(&answer, b"other"));
    let parts = vec![changes, Part::inline(PartKind::Blob, b"other".to_vec())];
    let answer = server.ship_one(&operation(client(1), 1, &record, parts)).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::Diverged)));
    assert_eq!(server.file("out").await.unwrap(), b"other");
}

/// A part with a residual of the first change's content.
fn residual(repair: Repair) -> Part {
    let residual = Residual::new(vec![Item { index: 0, repair }]).unwrap();
    Part::inline(PartKind::Residual, residual.encode())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn residuals_repair_what_a_replay_gave() {
    let (server, record, outcome) = server_with_record(&copy()).await;
    let replayed = (&Hash::of(b"input"), &b"input"[..]);
    let of = |content: &[u8]| Parity::of(content, Code::new(16, 5).unwrap()).unwrap();
    let cases: [(&[u8], Repair); 3] = [
        (b"inPut", Repair::Parity(of(b"inPut"))),
        (b"an input that is longer", Repair::delta(b"an input that is longer", replayed).unwrap()),
        (b"", Repair::delta(b"", replayed).unwrap()),
    ];
    for (number, (content, repair)) in (1..).zip(cases) {
        let (record, changes) = native(&record, &outcome, content);
        let answer = server.ship_one(&operation(client(number), 1, &record, vec![changes, residual(repair)])).await;
        assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Repaired), Some(Reason::Diverged)), "{answer:?}");
        assert!(answer.report.unwrap().iter().any(|difference| difference.aspect == Aspect::Content));
        assert_eq!(server.file("out").await.unwrap(), content);
        // For the next one the path is as it was.
        let gone = Change { after: After::Removed, ..replaced("out", content, b"") };
        let removed = value(client(number), 2, vec![gone], []);
        assert_eq!(server.ship_one(&removed).await.verdict, Some(Verdict::Shipped));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_residual_that_does_not_give_what_was_recorded_counts_for_nothing() {
    let (server, record, outcome) = server_with_record(&copy()).await;
    let (record, changes) = native(&record, &outcome, b"other");
    let wrong = (&Hash::of(b"wrong"), &b"wrong"[..]);
    let mut parts = vec![
        residual(Repair::delta(b"OTHER", (&Hash::of(b"input"), b"input")).unwrap()),
        residual(Repair::delta(b"other", wrong).unwrap()),
        residual(Repair::Delta(Delta::from_bytes(b"no document".to_vec()))),
        residual(Repair::Parity(Parity::of(&b"OTHER"[..], Code::new(16, 5).unwrap()).unwrap())),
        Part::inline(PartKind::Residual, b"no residual".to_vec()),
    ];
    for part in parts.drain(..) {
        let answer = server.ship_one(&operation(client(1), 1, &record, vec![changes.clone(), part])).await;
        assert_eq!((answer.status, answer.reason), (Status::Needs, Some(Reason::Diverged)));
        assert!(needs_blob(&answer, b"other"));
    }
    assert_eq!(server.file("out").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replay_disabled_nothing_is_matched_and_the_value_ships() {
    let server = TestServer::with(|config| config.replay = false).await;
    server.put_files(1, &[("in", b"input")]).await;
    server.upload(&copy()).await;
    let (record, outcome) = record(&copy(), tree(&[("in", b"input")]));
    let answer = server.ship_one(&operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!((answer.status, answer.reason), (Status::Needs, Some(Reason::Policy)));
    let answer = server.ship_one(&operation(client(1), 1, &record, list_parts(&outcome.lists))).await;
    // The content of 'out' is that of 'in', which is here.
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::Policy)));
    assert_eq!(server.file("out").await.unwrap(), b"input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_do_not_touch_each_other_both_match() {
    let (a, b) =
        (module("a", &[Do::Read("in"), Do::WriteRead("a")]), module("b", &[Do::Read("in"), Do::WriteRead("b")]));
    let (server, first, _) = server_with_record(&a).await;
    server.upload(&b).await;
    let (second, _) = record(&b, tree(&[("in", b"input")]));
    let (x, y) = (operation(client(1), 1, &first, Vec::new()), operation(client(2), 1, &second, Vec::new()));
    let (x, y) = tokio::join!(server.ship_one(&x), server.ship_one(&y));
    assert_eq!((x.verdict, y.verdict), (Some(Verdict::Matched), Some(Verdict::Matched)));
    assert_eq!(server.head().await, 3);
    assert!(server.file("a").await.is_some() && server.file("b").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blind_overwrite_of_anothers_change_is_a_conflict() {
    let write = module("w", &[Do::Write("out", b"mine")]);
    let (server, record, outcome) = server_with_record(&write).await;
    server.put_files(2, &[("out", b"theirs")]).await;
    let answer = server.ship_one(&operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!(answer.status, Status::Needs, "{answer:?}");
    let parts = [list_parts(&outcome.lists), vec![Part::inline(PartKind::Blob, b"mine".to_vec())]].concat();
    let answer = server.ship_one(&operation(client(1), 1, &record, parts)).await;
    assert_eq!(answer.verdict, Some(Verdict::Conflicted), "{answer:?}");
    assert!(matches!(answer.reason, Some(Reason::OutputsChanged | Reason::InputsChanged)), "{answer:?}");
    assert_eq!(server.file("out").await.unwrap(), b"theirs");

    // The same by value.
    let blind = value(client(3), 1, vec![created("out", b"blind")], [&b"blind"[..]]);
    let answer = server.ship_one(&blind).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Conflicted), Some(Reason::OutputsChanged)));
    assert_eq!(server.file("out").await.unwrap(), b"theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_divergence_is_reported_and_goes_by_value() {
    let write = module("w", &[Do::Write("big", &[b'a'; 500]), Do::Write("out", b"same"), Do::Print(b"said")]);
    let server = TestServer::start().await;
    server.upload(&write).await;
    let (_, outcome) = record(&write, tree(&[]));
    // As if the client's own program had written other bytes.
    let mut lists = outcome.lists.clone();
    let mut own = vec![b'a'; 500];
    own[321] = b'b';
    let big = lists.changes.iter_mut().find(|c| c.path == path("big")).unwrap();
    let After::File { hash, .. } = &mut big.after else { panic!("a file") };
    *hash = Hash::of(&own);
    lists.streams[0].stdout = Hash::of(b"did!");
    let record = Record::new(common::plan(&write), &lists);
    let ship = |parts| operation(client(1), 1, &record, parts);

    let answer = server.ship_one(&ship(Vec::new())).await;
    assert_eq!((answer.status, answer.reason), (Status::Needs, Some(Reason::Diverged)));
    let answer = server.ship_one(&ship(list_parts(&lists))).await;
    assert!(needs_blob(&answer, &own), "{answer:?}");
    assert_eq!(answer.report.as_ref().unwrap().len(), 2, "{answer:?}");
    server.upload(&own).await;
    let answer = server.ship_one(&ship(list_parts(&lists))).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::Diverged)));
    let report = answer.report.unwrap();
    let content = report.iter().find(|d| d.aspect == Aspect::Content).unwrap();
    assert_eq!((content.path.clone(), content.offset), (Some(path("big")), Some(321)));
    assert_eq!((content.recorded, content.recorded_length), (Some(Hash::of(&own)), Some(500)));
    assert!(report.iter().any(|d| d.aspect == Aspect::Stdout && d.step == Some(0)));
    assert_eq!(server.file("big").await.unwrap(), own);
    assert_eq!(server.file("out").await.unwrap(), b"same");
    let shown = server.get(&format!("{WS}/entries/{}/1", client(1))).await.json();
    assert_eq!(shown["verdict"], "shipped");
    assert_eq!(shown["report"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_another_run_are_refused() {
    let (server, mut record, outcome) = server_with_record(&copy()).await;
    record.content = Some(Hash::of(b"wrong"));
    let answer = server.ship_one(&operation(client(1), 1, &record, list_parts(&outcome.lists))).await;
    assert_eq!(answer.status, Status::Failed);
    assert!(answer.detail.unwrap().contains("digests"));
    assert_eq!(server.head().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_that_is_not_here_is_asked_for_and_may_come_inline() {
    let server = TestServer::start().await;
    server.put_files(1, &[("in", b"input")]).await;
    let module = copy();
    let (record, _) = record(&module, tree(&[("in", b"input")]));
    let answer = server.ship_one(&operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!(answer.needs, Some(vec![Need::Module { hash: Hash::of(&module) }]));
    let inline = vec![Part::inline(PartKind::Blob, module.clone())];
    let answer = server.ship_one(&operation(client(1), 1, &record, inline)).await;
    assert_eq!(answer.verdict, Some(Verdict::Matched), "{answer:?}");
    // It is known from now on.
    let kept = server.get(&format!("{WS}/blobs/{}", Hash::of(&module))).await;
    assert_eq!(kept.body, module);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_replayed_goes_by_value_with_its_reason() {
    let server = TestServer::with(|config| config.deadline = Duration::from_millis(200)).await;
    let write = module("w", &[Do::Write("out", b"x")]);
    let (ran, outcome) = record(&write, tree(&[]));
    let cases = [
        (module("t", &[Do::Write("out", b"x"), Do::Trap]), Reason::OutcomeChanged),
        (module("l", &[Do::Write("out", b"x"), Do::Loop]), Reason::ReplaySlow),
        (module("e", &[Do::Write("out", b"x"), Do::Exit(7)]), Reason::OutcomeChanged),
        (stranger(), Reason::Imports),
        (b"no module".to_vec(), Reason::ModuleRefused),
    ];
    for (sequence, (module, reason)) in (1..).zip(cases) {
        server.upload(&module).await;
        let mut record = ran.clone();
        record.plan.steps[0].module = Hash::of(&module);
        let answer = server.ship_one(&operation(client(1), sequence, &record, Vec::new())).await;
        assert_eq!((answer.status, answer.reason), (Status::Needs, Some(reason)), "{answer:?}");
    }
    let mut foreign = ran.clone();
    foreign.plan.profile = 77;
    let answer = server.ship_one(&operation(client(1), 9, &foreign, Vec::new())).await;
    assert_eq!(answer.reason, Some(Reason::EngineDiffers));
    let parts = [list_parts(&outcome.lists), vec![Part::inline(PartKind::Blob, b"x".to_vec())]].concat();
    let answer = server.ship_one(&operation(client(1), 9, &foreign, parts)).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::EngineDiffers)));
    assert_eq!(server.file("out").await.unwrap(), b"x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_in_one_request_ends_in_its_order() {
    let server = TestServer::start().await;
    let module = copy();
    server.upload(&module).await;
    let (record, _) = record(&module, tree(&[("in", b"input")]));
    let first = value(client(1), 1, vec![created("in", b"input")], [&b"input"[..]]);
    let second = Entry::new(client(1), 2, &[1], Body::Operation(record), Vec::new());
    let third = {
        let change = replaced("in", b"input", b"later");
        let entry = value(client(1), 3, vec![change], [&b"later"[..]]);
        Entry::new(client(1), 3, &[1, 2], entry.body, entry.parts)
    };
    let answers = server.ship(&[first, second, third]).await;
    let ended: Vec<_> = answers.iter().map(|a| (a.verdict, a.version)).collect();
    let (shipped, matched) = (Some(Verdict::Shipped), Some(Verdict::Matched));
    assert_eq!(ended, [(shipped, Some(1)), (matched, Some(2)), (shipped, Some(3))]);
    let early = Entry::new(client(1), 9, &[8], Body::Value(opship_record::entry::Value::new(&[])), Vec::new());
    let answer = server.ship_one(&early).await;
    assert_eq!((answer.status, answer.waits), (Status::Parked, Some(vec![8])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reordered_request_commits_nothing_out_of_order_and_is_whole_when_sent_again() {
    let server = TestServer::start().await;
    let module = copy();
    server.upload(&module).await;
    let (record, _) = record(&module, tree(&[("in", b"input")]));
    let first = value(client(1), 1, vec![created("in", b"input")], [&b"input"[..]]);
    let second = Entry::new(client(1), 2, &[1], Body::Operation(record), Vec::new());
    let answers = server.ship(&[second.clone(), first]).await;
    assert_eq!(answers.len(), 2);
    let of = |sequence| answers.iter().find(|answer| answer.sequence == sequence).unwrap();
    assert_eq!(of(1).verdict, Some(Verdict::Shipped));
    assert!(of(2).verdict == Some(Verdict::Matched) || of(2).status == Status::Parked, "{:?}", of(2));
    let answer = server.ship_one(&second).await;
    assert_eq!((answer.verdict, answer.version), (Some(Verdict::Matched), Some(2)));
    assert_eq!(server.head().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_asks_for_its_list_and_contents_and_its_lengths_must_be_true() {
    let server = TestServer::start().await;
    let whole = value(client(1), 1, vec![created("a", b"text")], [&b"text"[..]]);
    let without = |kind| {
        let parts = whole.parts.iter().filter(|p| p.kind != kind).cloned().collect();
        Entry::new(client(1), 1, &[], whole.body.clone(), parts)
    };
    assert_eq!(server.ship_one(&without(PartKind::Changes)).await.needs, Some(vec![Need::Lists]));
    // The content came with that, and stays.
    assert_eq!(server.ship_one(&without(PartKind::Blob)).await.verdict, Some(Verdict::Shipped));
    assert_eq!(server.file("a").await.unwrap(), b"text");

    let missing = value(client(1), 2, vec![created("b", b"other")], []);
    assert!(needs_blob(&server.ship_one(&missing).await, b"other"));
    let mut lying = created("c", b"text");
    lying.after = After::File { length: 5, hash: Hash::of(b"text"), mode: None, mtime: 0 };
    let answer = server.ship_one(&value(client(1), 3, vec![lying], [&b"text"[..]])).await;
    assert_eq!(answer.status, Status::Failed, "{answer:?}");
    assert_eq!(server.head().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_runs_do_not_starve_short_ones_and_can_be_asked_for_later() {
    let server = TestServer::with(|config| {
        config.workers = 1;
        config.answer_within = Duration::from_millis(100);
    })
    .await;
    let endless = module("endless", &[Do::Loop]);
    server.upload(&endless).await;
    let (short, _) = record(&module("short", &[Do::Write("out", b"x")]), tree(&[]));
    server.upload(&module("short", &[Do::Write("out", b"x")])).await;
    let mut long = short.clone();
    long.plan.steps[0].module = Hash::of(&endless);
    for sequence in 1..=12 {
        let answer = server.ship_one(&operation(client(1), sequence, &long, Vec::new())).await;
        assert_eq!(answer.status, Status::Accepted);
        assert_eq!(answer.location.unwrap(), format!("{WS}/entries/{}/{sequence}", client(1)));
    }
    // Many more runs that never end have come than long ones may run at once, on one place, and still:
    let mut entry = operation(client(2), 1, &short, Vec::new());
    let mut answer = server.ship_one(&entry).await;
    while answer.status == Status::Accepted {
        entry = operation(client(2), 1, &short, Vec::new());
        answer = server.ship_one(&entry).await;
    }
    assert_eq!(answer.verdict, Some(Verdict::Matched), "{answer:?}");
    let accept = [("accept", "application/cbor")];
    let polled = server.request(http::Method::GET, &format!("{WS}/entries/{}/1", client(1)), &accept, Vec::new()).await;
    assert_eq!(polled.answers()[0].status, Status::Accepted);
    // A clean stop ends them and commits nothing of them.
    let folder = server.stop().await;
    let server = TestServer::open(folder, |_| {}).await;
    assert_eq!(server.head().await, 1);
    assert_eq!(server.ship_one(&entry).await.verdict, Some(Verdict::Matched));
}
