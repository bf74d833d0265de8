//! A disk that takes no more: a clear error, and a consistent state. A limit on the size of files stands for the disk;
//! to the store it is the same error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::Hash;
use opship_storage::StorageError;
use std::process::Command;

const CHILD: &str = "OPSHIP_TEST_FULL";
/// In units of 512 bytes: 2 MiB.
const LIMIT: &str = "4096";

#[test]
fn a_full_disk_is_said_and_harms_nothing() {
    if let Some(data) = std::env::var_os(CHILD) {
        return fill(data.as_ref());
    }
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    store.commit(&scope, commit(1, vec![create("before", b"x")], &[b"x"])).unwrap();
    drop((store, scope));
    // A write over the limit gives an error instead of a signal where the signal is ignored.
    let script = format!("trap '' XFSZ; ulimit -f {LIMIT}; exec \"$0\" --exact a_full_disk_is_said_and_harms_nothing");
    let mut child = Command::new("sh");
    child.arg("-c").arg(script).arg(std::env::current_exe().unwrap()).env(CHILD, data.path());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let (store, scope) = open(data.path());
    let head = store.head(&scope).unwrap().number;
    let acknowledged: u64 = std::fs::read_to_string(data.path().join("acknowledged")).unwrap().parse().unwrap();
    assert_eq!(head, acknowledged, "what was acknowledged is there, and nothing else");
    assert_consistent(&store, &scope);
    assert_eq!(pack_files(data.path()).len(), 0, "what could not be written whole is removed");
    assert_eq!(number(store.commit(&scope, commit(head + 1, vec![create("after", b"y")], &[b"y"])).unwrap()), head + 1);
}

/// Under the limit: one blob that is too large, then commits until no more go.
fn fill(data: &std::path::Path) {
    let (store, scope) = open(data);
    let large = random(8 << 20, 3);
    let refused = store.put_blob_bytes(&scope, &large).unwrap_err();
    assert!(matches!(refused, StorageError::DiskFull { .. }), "{refused:?}");
    assert_eq!(store.missing_blobs(&scope, &[Hash::of(&large)]).unwrap().len(), 1);
    let mut acknowledged = 1;
    let error = loop {
        let content = vec![acknowledged as u8; 30_000 + acknowledged as usize];
        let name = format!("f{acknowledged}");
        let list = vec![create(&name, &content)];
        match store.commit(&scope, commit(acknowledged + 1, list, &[&content])) {
            Ok(committed) => acknowledged = number(committed),
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the limit was never met");
    };
    assert!(matches!(error, StorageError::DiskFull { .. }), "{error:?}");
    assert_eq!(store.head(&scope).unwrap().number, acknowledged, "reading goes on");
    std::fs::write(data.join("acknowledged"), acknowledged.to_string()).unwrap();
}
