//! Entries and versions: idempotency, checks against the head, group commit, reopening.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::answer::{Reason, Verdict};
use opship_record::effect::{After, Before, Change};
use opship_record::node::Kind;
use opship_record::observation::Observation;
use opship_record::record::Lists;
use opship_record::{Hash, tree};
use opship_storage::{Committed, EntryFilter, Finish, StorageError, Store};

#[test]
fn a_commit_makes_a_version_that_survives_reopening() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    assert_eq!(store.head(&scope).unwrap().root, tree::empty());
    let first = store.commit(&scope, commit(1, vec![create("a", b"one")], &[b"one"])).unwrap();
    assert_eq!(number(first), 1);
    let head = store.head(&scope).unwrap();
    drop(store);

    let (store, scope) = open(data.path());
    assert_eq!(store.head(&scope).unwrap(), head);
    assert_eq!(store.version_by_id(&scope, &head.id()).unwrap(), Some(head.clone()));
    let tree = store.tree(&scope, &head.root).unwrap().unwrap();
    assert_eq!(walk(&tree).len(), 1);
    let detail = store.entry_by_id(&scope, 1).unwrap().unwrap();
    assert_eq!(detail.lists.changes, vec![create("a", b"one")]);
    assert_eq!(detail.pinned, vec![Hash::of(b"one")]);
    assert_eq!(detail.entry, store.entry(&scope, &client(1), 1).unwrap().unwrap());
    assert_consistent(&store, &scope);
}

#[test]
fn the_same_key_is_answered_as_before_and_another_body_is_a_fork() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let entry = commit(1, vec![create("a", b"one")], &[b"one"]);
    let Committed::Done { entry: done, .. } = store.commit(&scope, entry.clone()).unwrap() else { panic!() };
    let Committed::Duplicate(again) = store.commit(&scope, entry.clone()).unwrap() else { panic!() };
    assert_eq!(again, done);
    assert_eq!(again.answer().version, Some(1));
    let other = store.commit(&scope, commit(1, vec![create("b", b"one")], &[b"one"])).unwrap();
    assert!(matches!(other, Committed::Forked));
    let Finished { envelope, body, lists } = finished(&entry);
    let finish = Finish { envelope, body, lists, small_blobs: vec![], pinned: vec![], ending: entry.ending };
    assert!(matches!(store.finish(&scope, finish).unwrap(), Committed::Duplicate(_)));
    assert_eq!(store.head(&scope).unwrap().number, 1);
}

struct Finished {
    envelope: opship_record::entry::Envelope,
    body: opship_record::entry::Body,
    lists: Lists,
}

fn finished(commit: &opship_storage::Commit) -> Finished {
    Finished { envelope: commit.envelope.clone(), body: commit.body.clone(), lists: commit.lists.clone() }
}

#[test]
fn what_no_longer_holds_on_the_head_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    store.commit(&scope, commit(1, vec![create("a", b"one")], &[b"one"])).unwrap();
    let old = store.head(&scope).unwrap().root;
    store.commit(&scope, commit(2, vec![overwrite("a", b"one", b"two")], &[b"two"])).unwrap();
    let head = store.head(&scope).unwrap();

    let mut blind = commit(3, vec![overwrite("a", b"one", b"three")], &[b"three"]);
    blind.based_on = Some(old);
    let result = store.commit(&scope, blind).unwrap();
    assert!(
        matches!(&result, Committed::Stale { observation: None, before: Some(p) } if *p == path("a")),
        "{result:?}"
    );

    let seen = Observation::Content { path: path("a"), hash: Hash::of(b"one") };
    let mut dependent = commit(3, vec![create("b", b"x")], &[b"x"]);
    dependent.lists.observations = vec![seen.clone()];
    let result = store.commit(&scope, dependent).unwrap();
    assert!(matches!(&result, Committed::Stale { observation: Some(o), before: None } if *o == seen), "{result:?}");

    assert_eq!(store.head(&scope).unwrap(), head);
    assert_eq!(store.entry(&scope, &client(1), 3).unwrap(), None);
    assert_eq!(store.missing_blobs(&scope, &[Hash::of(b"x")]).unwrap().len(), 1);

    // What does not touch the other's change commutes.
    let mut independent = commit(3, vec![create("b", b"x")], &[b"x"]);
    independent.based_on = Some(old);
    independent.lists.observations =
        vec![Observation::Absent { path: path("b"), missing: path("b"), above: Kind::Directory }];
    assert_eq!(number(store.commit(&scope, independent).unwrap()), 3);
    assert_consistent(&store, &scope);
}

#[test]
fn a_directory_that_another_filled_is_not_removed() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let directory = |before| Change { path: path("d"), before, after: After::Directory { mode: None } };
    let absent = Before::Absent { missing: path("d"), above: Kind::Directory };
    store.commit(&scope, commit(1, vec![directory(absent)], &[])).unwrap();
    let old = store.head(&scope).unwrap().root;
    let before = Before::Absent { missing: path("d/f"), above: Kind::Directory };
    let filled = Change { path: path("d/f"), before, after: file(b"x") };
    store.commit(&scope, commit(2, vec![filled], &[b"x"])).unwrap();
    let removed = Change { path: path("d"), before: Before::Directory, after: After::Removed };
    let mut blind = commit(3, vec![removed], &[]);
    blind.based_on = Some(old);
    let result = store.commit(&scope, blind).unwrap();
    assert!(matches!(&result, Committed::Stale { before: Some(p), .. } if *p == path("d")), "{result:?}");
    assert_eq!(store.head(&scope).unwrap().number, 2);
}

#[test]
fn a_run_that_wrote_nothing_makes_an_entry_and_no_version() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let Committed::Done { entry, version } = store.commit(&scope, commit(1, vec![], &[b"output"])).unwrap() else {
        panic!()
    };
    assert_eq!((version, entry.version, entry.made_version), (None, 0, false));
    assert_eq!(store.entry_by_id(&scope, entry.id).unwrap().unwrap().pinned, vec![Hash::of(b"output")]);
}

#[test]
fn a_conflicted_entry_keeps_its_outputs_and_no_version() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let Finished { envelope, body, lists } = finished(&commit(1, vec![create("a", b"mine")], &[]));
    let mut ending = opship_storage::Ending::new(Verdict::Conflicted);
    ending.reason = Some(Reason::OutputsChanged);
    ending.detail = Some("kept beside".to_owned());
    let mut finish = Finish { envelope, body, lists, small_blobs: vec![], pinned: vec![Hash::of(b"mine")], ending };
    let refused = store.finish(&scope, finish.clone()).unwrap_err();
    assert!(matches!(refused, StorageError::Incomplete { blobs, .. } if blobs == [Hash::of(b"mine")]));
    finish.small_blobs = vec![b"mine".to_vec()];
    let watch = store.watch();
    let Committed::Done { entry, version: None } = store.finish(&scope, finish).unwrap() else { panic!() };
    assert!(watch.has_changed().unwrap());
    assert_eq!(*watch.borrow(), entry.id);
    let answer = entry.answer();
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Conflicted), Some(Reason::OutputsChanged)));
    assert_eq!(store.head(&scope).unwrap().number, 0);
    let filter = EntryFilter { limit: 10, verdict: Some(Verdict::Conflicted), ..EntryFilter::default() };
    assert_eq!(store.entries(&scope, &filter).unwrap(), vec![*entry.clone()]);
    let none = EntryFilter { client: Some(client(2)), ..filter };
    assert_eq!(store.entries(&scope, &none).unwrap(), vec![]);
    let events = store.events(&scope, 0, 10).unwrap();
    assert_eq!((events.len(), events[0].entry, events[0].version), (1, entry.id, None));
}

#[test]
fn a_change_whose_content_is_not_here_is_refused_whole() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let changes = vec![create("a", b"here"), create("b", b"not here")];
    let refused = store.commit(&scope, commit(1, changes.clone(), &[b"here"])).unwrap_err();
    assert!(matches!(refused, StorageError::Incomplete { blobs, .. } if blobs == [Hash::of(b"not here")]));
    assert_eq!(store.missing_blobs(&scope, &[Hash::of(b"here")]).unwrap().len(), 1, "nothing of it was kept");
    let mut lying = commit(1, vec![create("a", b"here")], &[b"here"]);
    if let After::File { length, .. } = &mut lying.lists.changes[0].after {
        *length = 99;
    }
    assert!(store.commit(&scope, lying).is_err(), "a length that is not the blob's");
    assert_eq!(number(store.commit(&scope, commit(1, changes, &[b"here", b"not here"])).unwrap()), 1);
}

#[test]
fn many_at_once_each_get_a_version_of_their_own() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    std::thread::scope(|threads| {
        for thread in 0..8u64 {
            let (store, scope) = (&store, &scope);
            threads.spawn(move || {
                for n in 1..=10u64 {
                    let sequence = thread * 100 + n;
                    let name = format!("f{sequence}");
                    let done = store.commit(scope, commit(sequence, vec![create(&name, b"x")], &[b"x"])).unwrap();
                    assert!(matches!(done, Committed::Done { version: Some(_), .. }));
                    // One that fails takes nobody with it.
                    let refused = store.commit(scope, commit(sequence + 50, vec![create("z", b"lacking")], &[]));
                    assert!(matches!(refused, Err(StorageError::Incomplete { .. })));
                }
            });
        }
    });
    assert_eq!(store.head(&scope).unwrap().number, 80);
    assert_consistent(&store, &scope);
}

#[test]
fn differences_between_versions() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    store.commit(&scope, commit(1, vec![create("a", b"1"), create("b", b"1")], &[b"1"])).unwrap();
    store.commit(&scope, commit(2, vec![overwrite("b", b"1", b"2")], &[b"2"])).unwrap();
    let roots: Vec<Hash> = store.versions(&scope, None, 10).unwrap().iter().map(|v| v.root).collect();
    let mut found = Vec::new();
    let mut note = |path: &opship_record::TreePath, _: Option<&_>, _: Option<&_>| {
        found.push(path.to_string());
        Ok(())
    };
    store.diff(&scope, &roots[1], &roots[0], &mut note).unwrap();
    assert_eq!(found, ["b"]);
    let unknown = store.diff(&scope, &roots[1], &Hash::of(b"?"), &mut |_, _, _| Ok(()));
    assert!(matches!(unknown, Err(StorageError::NotFound { .. })));
}

#[test]
fn a_second_server_is_refused_with_the_pid_of_the_first() {
    let data = tempfile::tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    let refused = Store::open(data.path()).unwrap_err();
    assert!(matches!(&refused, StorageError::Locked { pid, .. } if *pid == std::process::id().to_string()));
    drop(store);
    Store::open(data.path()).unwrap();
}
