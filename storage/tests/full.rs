//! A disk that takes no more: a clear error, and a consistent state. A limit on the size of files stands for the disk;
//! to the store it is the same error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::Hash;
use opship_storage::upkeep::{CheckOptions, CollectOptions};
use opship_storage::{Setting, StorageError, Store};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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

/// A small file system in memory; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount, and nobody insists (`OPSHIP_REQUIRE_ALL`).
    fn mount(folder: &Path) -> Option<SmallDisk> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder).status();
        let done = mounted.is_ok_and(|status| status.success());
        assert!(done || std::env::var_os("OPSHIP_REQUIRE_ALL").is_none(), "cannot mount; this test runs as root");
        done.then(|| SmallDisk(folder.to_owned()))
    }

    /// Takes all the room that is left.
    fn fill(&self, name: &str) {
        let mut file = fs::File::create(self.0.join(name)).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        while file.write_all(&[7]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn collecting_frees_space_where_there_is_none() {
    const MB: usize = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let (store, scope) = open(&disk.0.join("data"));
    for setting in ["retention.all-days", "retention.daily-days"] {
        store.set_setting(&scope, Setting::parse(setting, "0").unwrap()).unwrap();
    }
    // One pack: more of it stays than can be set aside, and more goes.
    let (stays, old, older) = (random(5 * MB, 1), random(3 * MB, 2), random(3 * MB, 3));
    for bytes in [&stays, &older, &old] {
        store.put_blob_bytes(&scope, bytes).unwrap();
    }
    let first = vec![create("changes", &older), create("stays", &stays)];
    store.commit(&scope, commit(1, first, &[])).unwrap();
    store.commit(&scope, commit(2, vec![overwrite("changes", &older, &old)], &[])).unwrap();
    store.commit(&scope, commit(3, vec![overwrite("changes", &old, b"new")], &[b"new"])).unwrap();
    disk.fill("filler");
    let refused = store.put_blob_bytes(&scope, &random(MB, 4)).unwrap_err();
    assert!(matches!(refused, StorageError::DiskFull { .. }), "{refused:?}");

    let later = CollectOptions { ahead: Duration::from_secs(30 * 24 * 3600), ..CollectOptions::default() };
    let collect = |store: &Store| store.collect(&admin(store), &later, &mut |_| ()).unwrap();
    let report = collect(&store);
    assert_eq!(report.versions, 2);
    assert!(report.bytes >= 5 * MB as u64, "{report:?}");
    assert_eq!(store.put_blob_bytes(&scope, &random(MB, 4)).unwrap(), Hash::of(&random(MB, 4)), "there is room again");
    assert_eq!(store.check(&admin(&store), &CheckOptions::default(), &mut |_| ()).unwrap().findings, []);
    let content = store.open_blob(&scope, &Hash::of(&stays)).unwrap().unwrap();
    assert!(read(&content) == stays);
    // And once more: what was given up was set aside again.
    disk.fill("more");
    collect(&store);
    let number = number(store.commit(&scope, commit(4, vec![create("after", b"after")], &[b"after"])).unwrap());
    assert_eq!(number, 4);
}
