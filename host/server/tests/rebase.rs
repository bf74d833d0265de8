//! Operations whose inputs were changed by others: run again on the new ones, unless that would cost somebody a change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module};
use common::{TestServer, WS, client, created, list_parts, needs_blob, operation, record, replaced, tree, value};
use opship_record::Hash;
use opship_record::answer::{Answer, Need, Reason, Status, Verdict};
use opship_record::effect::After;
use opship_record::entry::{Body, Entry, Part, PartKind};
use opship_record::record::{Lists, Record};
use std::time::Duration;

fn copy() -> Vec<u8> {
    module("copy", &[Do::Read("in"), Do::WriteRead("out"), Do::Print(b"done\n")])
}

/// A server on which `in` was "input" when a module ran on it, and is "other" now; beside it what else others did.
struct Stale {
    server: TestServer,
    record: Record,
    lists: Lists,
}

impl Stale {
    async fn new(module: &[u8], others: &[(&str, &[u8])]) -> Stale {
        let server = TestServer::with(|config| config.deadline = Duration::from_millis(500)).await;
        server.put_files(1, &[("in", b"input")]).await;
        server.upload(module).await;
        let (record, outcome) = record(module, tree(&[("in", b"input")]));
        let change = value(client(2), 1, vec![replaced("in", b"input", b"other")], [&b"other"[..]]);
        assert_eq!(server.ship_one(&change).await.verdict, Some(Verdict::Shipped));
        if !others.is_empty() {
            server.put_files(2, others).await;
        }
        Stale { server, record, lists: outcome.lists }
    }

    /// Sends the entry, its lists and its own contents, as they are asked for.
    async fn ship(&self, own: &[&[u8]]) -> Answer {
        let mut parts = list_parts(&self.lists);
        parts.extend(own.iter().map(|bytes| Part::inline(PartKind::Blob, bytes.to_vec())));
        self.server.ship_one(&operation(client(1), 1, &self.record, parts)).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_inputs_are_run_on_and_what_was_recorded_is_kept_first() {
    let stale = Stale::new(&copy(), &[]).await;
    let answer = stale.server.ship_one(&operation(client(1), 1, &stale.record, Vec::new())).await;
    assert_eq!((answer.status, answer.needs), (Status::Needs, Some(vec![Need::Lists])));
    // Nothing on the server is what was recorded, were it not for the input that it was made of.
    let mut lists = stale.lists.clone();
    lists.changes[0].after = After::File { length: 3, hash: Hash::of(b"own"), mode: None, mtime: 5 };
    let stale = Stale { record: Record::new(stale.record.plan.clone(), &lists), lists, ..stale };
    let answer = stale.ship(&[]).await;
    assert_eq!((answer.status, answer.reason), (Status::Needs, Some(Reason::InputsChanged)));
    assert!(needs_blob(&answer, b"own"), "{answer:?}");
    assert_eq!(stale.server.head().await, 2);

    let answer = stale.ship(&[b"own"]).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Rebased), Some(Reason::InputsChanged)), "{answer:?}");
    assert!(answer.detail.as_ref().unwrap().contains("'in'"), "{answer:?}");
    assert_eq!(answer.version, Some(3));
    assert_eq!(stale.server.file("out").await.unwrap(), b"other");
    assert_eq!(stale.server.get(&format!("{WS}/blobs/{}", Hash::of(b"own"))).await.body, b"own");
    // The new record is that of the same plan on the new inputs.
    let (expected, _) = record(&copy(), tree(&[("in", b"other")]));
    assert_eq!(*answer.record.clone().unwrap(), expected);
    // The same key gives the same answer, and what waits for it goes on.
    assert_eq!(stale.ship(&[b"own"]).await, answer);
    let after = created("after", b"x");
    let after = value(client(1), 2, vec![after], [&b"x"[..]]);
    let answer = stale.server.ship_one(&Entry::new(client(1), 2, &[1], after.body, after.parts)).await;
    assert_eq!(answer.verdict, Some(Verdict::Shipped), "{answer:?}");
    let shown = stale.server.get(&format!("{WS}/entries/{}/1", client(1))).await.json();
    assert_eq!((&shown["verdict"], &shown["resolved"]), (&"rebased".into(), &serde_json::Value::Null));
    let pinned: Vec<&str> = shown["pinned"].as_array().unwrap().iter().map(|hash| hash.as_str().unwrap()).collect();
    for made in [&b"own"[..], b"other"] {
        assert!(pinned.contains(&Hash::of(made).to_string().as_str()), "{pinned:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_cost_another_a_change_or_ends_otherwise_is_a_conflict() {
    /// What the module does with `in`, what others made besides, the reason.
    type Case<'a> = (Vec<Do<'a>>, Vec<(&'a str, &'a [u8])>, Reason);
    let cases: Vec<Case<'_>> = vec![
        (vec![Do::Read("in"), Do::WriteRead("out")], vec![("out", b"theirs")], Reason::OutputsChanged),
        (vec![Do::Read("in"), Do::ExitIfRead(b'o', 3), Do::WriteRead("out")], vec![], Reason::OutcomeChanged),
        (vec![Do::Read("in"), Do::TrapIfRead(b'o'), Do::WriteRead("out")], vec![], Reason::OutcomeChanged),
        (vec![Do::Read("in"), Do::LoopIfRead(b'o'), Do::WriteRead("out")], vec![], Reason::InputsChanged),
    ];
    for (number, (actions, others, reason)) in cases.into_iter().enumerate() {
        let stale = Stale::new(&module("m", &actions), &others).await;
        let answer = stale.ship(&[b"input"]).await;
        let ended = (answer.verdict, answer.reason);
        assert_eq!(ended, (Some(Verdict::Conflicted), Some(reason)), "case {number}: {answer:?}");
        assert_eq!(answer.record, None);
        let theirs = others.first().map(|(_, bytes)| bytes.to_vec());
        assert_eq!(stale.server.file("out").await, theirs, "case {number}");
        // The author's bytes are here, and what waits for the entry is parked.
        assert_eq!(stale.server.get(&format!("{WS}/blobs/{}", Hash::of(b"input"))).await.body, b"input");
        let waits = Entry::new(client(1), 2, &[1], Body::Operation(stale.record.clone()), Vec::new());
        let answer = stale.server.ship_one(&waits).await;
        assert_eq!((answer.status, answer.waits), (Status::Parked, Some(vec![1])));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_may_forbid_it() {
    let stale = Stale::new(&copy(), &[]).await;
    let forbid = br#"{"settings":{"rebase":"forbid"}}"#.to_vec();
    let set = stale.server.request(http::Method::PATCH, WS, &[("content-type", "application/json")], forbid).await;
    assert!(set.status.is_success(), "{set:?}");
    let answer = stale.ship(&[]).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Conflicted), Some(Reason::Policy)), "{answer:?}");
    assert!(answer.detail.unwrap().contains("'in'"));
    assert_eq!((stale.server.head().await, stale.server.file("out").await), (2, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_final_only_when_the_recorded_outputs_are_here() {
    let stale = Stale::new(&module("w", &[Do::Read("in"), Do::Write("out", b"mine")]), &[("out", b"theirs")]).await;
    let mut lists = stale.lists.clone();
    lists.changes[0].after = After::File { length: 3, hash: Hash::of(b"own"), mode: None, mtime: 5 };
    let stale = Stale { record: Record::new(stale.record.plan.clone(), &lists), lists, ..stale };
    let answer = stale.ship(&[]).await;
    assert_eq!(answer.status, Status::Needs);
    assert!(needs_blob(&answer, b"own"), "{answer:?}");
    assert_eq!(stale.ship(&[b"own"]).await.verdict, Some(Verdict::Conflicted));
    assert_eq!(stale.server.get(&format!("{WS}/blobs/{}", Hash::of(b"own"))).await.body, b"own");
    // Its author may say that all is decided; others' entries are left alone by that.
    let resolve = |number: u8| opship_record::codec::encode(&(client(number), vec![1u64, 77]));
    let resolved = async |number| {
        let shown = stale.server.get(&format!("{WS}/entries/{}/1", client(number))).await.json();
        shown["resolved"].is_u64()
    };
    assert!(!resolved(1).await);
    assert_eq!(stale.server.post(&format!("{WS}/entries:resolve"), resolve(1)).await.status, 204);
    assert!(resolved(1).await && !resolved(2).await);
}

/// An entry's inputs change while it is decided, again and again: it ends on one of them, and never on a stale one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_keeps_moving_leads_to_a_result_of_the_head_it_is_committed_on() {
    let stale = Stale::new(&copy(), &[]).await;
    let others = async {
        let mut last = b"other".to_vec();
        for sequence in 2..30 {
            let next = format!("input {sequence}").into_bytes();
            let change = value(client(2), sequence, vec![replaced("in", &last, &next)], [&next[..]]);
            assert_eq!(stale.server.ship_one(&change).await.verdict, Some(Verdict::Shipped));
            last = next;
        }
    };
    let (answer, ()) = tokio::join!(stale.ship(&[b"input"]), others);
    let version = answer.version.unwrap();
    let file = async |path: &str| stale.server.get(&format!("{WS}/files/{path}?version={version}")).await;
    match answer.verdict {
        Some(Verdict::Rebased) => assert_eq!(file("out").await.body, file("in").await.body),
        verdict => assert_eq!(verdict, Some(Verdict::Conflicted), "{answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_between_versions_and_below_a_path_are_told() {
    let server = TestServer::start().await;
    server.put_files(1, &[("a", b"1"), ("b", b"1")]).await;
    server.put_files(2, &[("a b", b"2")]).await;
    let paths = async |query: &str| {
        let reply = server.get(&format!("{WS}/changes?{query}")).await;
        let mut items = minicbor::Decoder::new(&reply.body);
        items.skip().unwrap();
        let mut found = Vec::new();
        while items.position() < reply.body.len() {
            let (path, node): (String, Option<opship_record::node::Node>) = items.decode().unwrap();
            found.push((path, node.is_some()));
        }
        found
    };
    let named = |names: &[(&str, bool)]| names.iter().map(|(n, there)| ((*n).to_owned(), *there)).collect::<Vec<_>>();
    assert_eq!(paths("from=0&to=1").await, named(&[("a", true), ("b", true)]));
    assert_eq!(paths("from=2&to=1").await, named(&[("a b", false)]));
    assert_eq!(paths("from=0&to=2&below=a%20b").await, named(&[("a b", true)]));
    assert_eq!(server.get(&format!("{WS}/changes?from=0&to=9")).await.status, 404);
}
