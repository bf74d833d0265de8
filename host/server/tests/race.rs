//! The value of an operation that comes while its replay is under way: what it may end, and what it must leave to the replay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module};
use common::{TestServer, WS, client, created, list_parts, operation, record, replaced, tree, value};
use http::Method;
use opship_record::Hash;
use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_record::entry::{Body, Entry, Part, PartKind};
use opship_record::record::{Lists, Record};
use std::time::Duration;

/// A server where the module `copies` never ends, and the record of a run that came to its end elsewhere: it read `in`, wrote
/// that to `out` and printed something.
struct Endless {
    server: TestServer,
    record: Record,
    lists: Lists,
}

const OUT: &[u8] = b"input";

impl Endless {
    async fn new() -> Endless {
        let server = TestServer::with(|config| {
            config.workers = 1;
            config.answer_within = Duration::from_millis(50);
        })
        .await;
        server.put_files(1, &[("in", OUT)]).await;
        let actions = || [Do::Read("in"), Do::WriteRead("out"), Do::Print(b"done\n")];
        let (mut record, outcome) = record(&module("copies", &actions()), tree(&[("in", OUT)]));
        let endless = module("copies", &actions().into_iter().chain([Do::Loop]).collect::<Vec<_>>());
        record.plan.steps[0].module = server.upload(&endless).await;
        Endless { server, record, lists: outcome.lists }
    }

    /// The entry as it goes first: its record alone.
    fn entry(&self, sequence: u64) -> Entry {
        operation(client(1), sequence, &self.record, Vec::new())
    }

    /// As it goes when its value was brought.
    fn with_value(&self, sequence: u64) -> Entry {
        let mut parts = list_parts(&self.lists);
        parts.push(Part::inline(PartKind::Blob, OUT.to_vec()));
        operation(client(1), sequence, &self.record, parts)
    }

    /// Begins its replay.
    async fn begin(&self, sequence: u64) {
        assert_eq!(self.server.ship_one(&self.entry(sequence)).await.status, Status::Accepted);
    }

    async fn poll(&self, sequence: u64) -> Answer {
        let (address, accept) = (format!("{WS}/entries/{}/{sequence}", client(1)), [("accept", "application/cbor")]);
        self.server.request(Method::GET, &address, &accept, Vec::new()).await.answers().remove(0)
    }
}

/// Offers a value once, and gives what becomes of it, however busy the machine is.
async fn offer(server: &TestServer, entry: &Entry) -> Answer {
    let answer = server.ship_one(entry).await;
    if answer.status != Status::Accepted {
        return answer;
    }
    let address = format!("{WS}/entries/{}/{}?wait=25", entry.envelope.client, entry.envelope.sequence);
    server.request(Method::GET, &address, &[("accept", "application/cbor")], Vec::new()).await.answers().remove(0)
}

fn is_shipped_as_slow(answer: &Answer) -> bool {
    (answer.status, answer.verdict, answer.reason) == (Status::Ended, Some(Verdict::Shipped), Some(Reason::ReplaySlow))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_complete_ends_an_entry_whose_replay_goes_on() {
    let endless = Endless::new().await;
    endless.begin(1).await;
    let answer = offer(&endless.server, &endless.with_value(1)).await;
    assert!(is_shipped_as_slow(&answer), "{answer:?}");
    assert_eq!((answer.version, endless.server.head().await), (Some(2), 2));
    assert_eq!(endless.server.file("out").await.unwrap(), OUT);
    // Whoever asks gets the same, with or without the value, and nothing is made twice.
    assert_eq!(endless.poll(1).await, answer);
    assert_eq!(endless.server.ship(&[endless.entry(1), endless.with_value(1)]).await, [answer.clone(), answer]);
    assert_eq!(endless.server.head().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_is_not_needed_any_more_stops_and_makes_room() {
    let endless = Endless::new().await;
    // A run that turns out long and ends: of all that may run so long at once, it is one too many until others stop.
    let long = module("long", &[Do::Count(200_000_000), Do::Write("long", b"x")]);
    endless.server.upload(&long).await;
    let (long, _) = record(&long, tree(&[]));
    let long = operation(client(2), 1, &long, Vec::new());
    endless.begin(1).await;
    let mut second = endless.record.clone();
    second.plan.seed = [8; 16].into();
    let second = operation(client(3), 1, &second, Vec::new());
    assert_eq!(endless.server.ship_one(&second).await.status, Status::Accepted);
    assert_eq!(endless.server.ship_one(&long).await.status, Status::Accepted);
    assert!(is_shipped_as_slow(&offer(&endless.server, &endless.with_value(1)).await));
    let ending = async {
        loop {
            let answer = endless.server.ship_one(&long).await;
            if answer.status != Status::Accepted {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(120), ending).await.expect("the other replay stops");
    assert_eq!(answer.verdict, Some(Verdict::Matched), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_lacks_something_leaves_the_entry_to_its_replay() {
    let endless = Endless::new().await;
    endless.begin(1).await;
    let lists_of_another = {
        let lists = Lists { changes: Vec::new(), ..endless.lists.clone() };
        operation(client(1), 1, &endless.record, list_parts(&lists))
    };
    let without_observations = {
        let parts = list_parts(&endless.lists).into_iter().filter(|part| part.kind == PartKind::Changes).collect();
        operation(client(1), 1, &endless.record, parts)
    };
    for incomplete in [lists_of_another, without_observations] {
        assert_eq!(endless.server.ship_one(&incomplete).await.status, Status::Accepted);
        assert_eq!(endless.poll(1).await.status, Status::Accepted);
    }
    assert_eq!(endless.server.head().await, 1);
    assert!(is_shipped_as_slow(&offer(&endless.server, &endless.with_value(1)).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_that_came_later_complete_a_value() {
    let server = TestServer::with(|config| config.answer_within = Duration::from_millis(50)).await;
    let actions = || [Do::Write("out", b"made")];
    let (mut record, outcome) = record(&module("m", &actions()), tree(&[]));
    record.plan.steps[0].module = server.upload(&module("m", &[Do::Write("out", b"made"), Do::Loop])).await;
    let offered = operation(client(1), 1, &record, list_parts(&outcome.lists));
    let first = operation(client(1), 1, &record, Vec::new());
    assert_eq!(server.ship_one(&first).await.status, Status::Accepted);
    assert_eq!(server.ship_one(&offered).await.status, Status::Accepted);
    assert_eq!(server.head().await, 0);
    server.upload(b"made").await;
    assert!(is_shipped_as_slow(&offer(&server, &offered).await));
    assert_eq!((server.head().await, server.file("out").await.unwrap()), (1, b"made".to_vec()));
}

/// The replay alone decides what becomes of an entry that no longer fits: it may end `rebased`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_anothers_change_stands_in_the_way_the_value_ends_nothing() {
    for (path, old, new) in [("in", Some(OUT), &b"others"[..]), ("out", None, b"theirs")] {
        let endless = Endless::new().await;
        endless.begin(1).await;
        match old {
            Some(old) => {
                let change = value(client(8), 1, vec![replaced(path, old, new)], [new]);
                assert_eq!(endless.server.ship_one(&change).await.verdict, Some(Verdict::Shipped));
            }
            None => endless.server.put_files(2, &[(path, new)]).await,
        }
        let answer = endless.server.ship_one(&endless.with_value(1)).await;
        assert_eq!((answer.status, answer.verdict), (Status::Accepted, None), "{path}");
        assert_eq!(endless.server.head().await, 2);
        assert_eq!(endless.server.file(path).await.unwrap(), new);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_workspace_does_not_take_comes_in_by_no_value_either() {
    let Endless { server, record, lists } = Endless::new().await;
    let large = vec![1; 70_000];
    let lists = Lists { changes: vec![created("large", &large)], ..lists };
    let record = Record::new(record.plan, &lists);
    let set = |limit: &str| {
        let body = format!(r#"{{"settings":{{"largest-file":"{limit}"}}}}"#);
        server.request(Method::PATCH, WS, &[], body.into_bytes())
    };
    assert!(set("65536").await.status.is_success());
    server.upload(&large).await;
    let offered = operation(client(1), 1, &record, list_parts(&lists));
    assert_eq!(server.ship_one(&operation(client(1), 1, &record, Vec::new())).await.status, Status::Accepted);
    assert_eq!((server.ship_one(&offered).await.status, server.head().await), (Status::Accepted, 1));
    assert!(set("none").await.status.is_success());
    assert!(is_shipped_as_slow(&offer(&server, &offered).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_ends_nothing_before_the_entries_that_its_own_waits_for() {
    let endless = Endless::new().await;
    endless.begin(1).await;
    let mut second = endless.with_value(2);
    second = Entry::new(client(1), 2, &[1], Body::Operation(endless.record.clone()), second.parts);
    // The second reads what is there before the first, and overwrites nothing that is: only the order keeps it back.
    let without = Entry::new(client(1), 2, &[1], Body::Operation(endless.record.clone()), Vec::new());
    assert_eq!(endless.server.ship_one(&without).await.status, Status::Accepted);
    assert_eq!(endless.server.ship_one(&second).await.status, Status::Accepted);
    assert_eq!(endless.server.head().await, 1);
    let answer = offer(&endless.server, &endless.with_value(1)).await;
    assert!(is_shipped_as_slow(&answer), "{answer:?}");
    // `out` is there now, so that the second would overwrite it: it is left to its replay.
    assert_eq!(endless.server.ship_one(&second).await.status, Status::Accepted);
    assert_eq!((endless.server.head().await, endless.poll(2).await.status), (2, Status::Accepted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_value_that_comes_many_times_and_a_replay_that_ends_one_makes_a_version() {
    let server = TestServer::with(|config| config.workers = 2).await;
    let copy = module("copy", &[Do::Read("in"), Do::WriteRead("out"), Do::Count(20_000_000)]);
    server.upload(&copy).await;
    server.put_files(1, &[("in", OUT)]).await;
    let (record, outcome) = record(&copy, tree(&[("in", OUT)]));
    let mut parts = list_parts(&outcome.lists);
    parts.push(Part::inline(PartKind::Blob, OUT.to_vec()));
    for round in 1..=10 {
        let alone = operation(client(1), round, &record, Vec::new());
        let offered = operation(client(1), round, &record, parts.clone());
        let (first, second, third) =
            tokio::join!(server.ship_one(&alone), server.ship_one(&offered), server.ship_one(&offered));
        assert_eq!((first.status, &first, &first), (Status::Ended, &second, &third));
        assert!(first.verdict == Some(Verdict::Matched) || is_shipped_as_slow(&first), "{first:?}");
        assert_eq!(server.head().await, 2 * round);
        let gone =
            opship_record::effect::Change { after: opship_record::effect::After::Removed, ..replaced("out", OUT, b"") };
        assert_eq!(server.ship_one(&value(client(8), round, vec![gone], [])).await.verdict, Some(Verdict::Shipped));
    }
    assert_eq!(Hash::of(&server.file("in").await.unwrap()), Hash::of(OUT));
}
