//! The process is killed at named points, and at any point: what was acknowledged is there, the rest is as if it had
//! never been, and sending again gives the same state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::Hash;
use opship_storage::{Commit, Committed, Scope, Store};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CHILD: &str = "OPSHIP_TEST_CRASH";
const LARGE: usize = 100_000;

/// The same test of this binary, in a process of its own that works on `data`.
fn child(test: &str, data: &Path, failpoint: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, data)
        .env("OPSHIP_FAILPOINT", failpoint)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn large() -> Vec<u8> {
    vec![5; LARGE]
}

fn second() -> Commit {
    let mut second = commit(2, vec![create("large", &large()), create("small", b"s")], &[b"s"]);
    second.pinned.push(Hash::of(&large()));
    second
}

fn ship(store: &Store, scope: &Scope) -> Committed {
    if !store.missing_blobs(scope, &[Hash::of(&large())]).unwrap().is_empty() {
        store.put_blob_bytes(scope, &large()).unwrap();
    }
    store.commit(scope, second()).unwrap()
}

#[test]
fn killed_at_named_points() {
    if let Some(data) = std::env::var_os(CHILD) {
        let (store, scope) = open(data.as_ref());
        ship(&store, &scope);
        panic!("not killed");
    }
    // (point, is the blob there before, did the entry end)
    let points = [
        ("storage-packs", false, false),
        ("storage-blob", false, false),
        ("storage-commit", false, false),
        ("storage-committed", false, false),
        ("storage-commit", true, false),
        ("storage-committed", true, true),
    ];
    let mut roots = Vec::new();
    for (point, with_blob, ended) in points {
        let data = tempfile::tempdir().unwrap();
        let (store, scope) = open(data.path());
        store.commit(&scope, commit(1, vec![create("a", b"one")], &[b"one"])).unwrap();
        if with_blob {
            store.put_blob_bytes(&scope, &large()).unwrap();
        }
        drop((store, scope));
        let status = child("killed_at_named_points", data.path(), point).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{point}: {status}");

        let (store, scope) = open(data.path());
        assert_consistent(&store, &scope);
        assert_eq!(store.head(&scope).unwrap().number, if ended { 2 } else { 1 }, "{point}");
        let again = ship(&store, &scope);
        assert_eq!(matches!(again, Committed::Duplicate(_)), ended, "{point}: {again:?}");
        assert_consistent(&store, &scope);
        roots.push(store.head(&scope).unwrap().root);
    }
    assert!(roots.iter().all(|root| *root == roots[0]), "the end is the same wherever it was killed");
}

#[test]
fn killed_at_any_point() {
    if let Some(data) = std::env::var_os(CHILD) {
        let (store, scope) = open(data.as_ref());
        let head = store.head(&scope).unwrap().number;
        for sequence in head + 1.. {
            let (name, content) = (format!("f{sequence}"), format!("content {sequence}"));
            let list = vec![create(&name, content.as_bytes())];
            let done = number(store.commit(&scope, commit(sequence, list, &[content.as_bytes()])).unwrap());
            println!("acknowledged {done}");
        }
    }
    let data = tempfile::tempdir().unwrap();
    open(data.path());
    for round in 1..6 {
        let mut child = child("killed_at_any_point", data.path(), "");
        let mut acknowledged = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        for (count, number) in (1..).zip(numbers) {
            acknowledged = number;
            if count == round * 3 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged > 0, "it never got to work");
        let (store, scope) = open(data.path());
        let head = store.head(&scope).unwrap().number;
        // One may have become durable whose acknowledgement was on its way.
        assert!((acknowledged..=acknowledged + 1).contains(&head), "{head}, acknowledged {acknowledged}");
        assert_consistent(&store, &scope);
    }
}
