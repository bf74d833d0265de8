//! A client that is killed at each named point: whatever is left is either as before the run or as after it.

use crate::support::{self, Call, Folder, folder, path, tree, write};
use opship_client::{EntryState, RemoteChange, WorkingCopy};
use opship_record::Hash;
use opship_record::node::Node;
use opship_world::MemoryContent;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const FOLDER: &str = "OPSHIP_TEST_FOLDER";
const WHAT: &str = "OPSHIP_TEST_WHAT";

fn calls() -> Vec<Call> {
    vec![
        write("out", b"after"),
        Call::Rename("d".into(), "moved".into()),
        Call::Remove("moved/gone".into()),
        write("moved/new", b"new"),
        Call::MakeDirectory("d".into()),
        write("d/one", b"one again"),
        Call::Remove("file".into()),
        Call::MakeDirectory("file".into()),
        Call::Symlink("x".into(), "link".into()),
    ]
}

fn pulled() -> Vec<RemoteChange> {
    let file = |bytes: &'static [u8]| Node::File {
        mode: 0o644,
        mtime: 1_000_000_000,
        length: bytes.len() as u64,
        hash: Hash::of(bytes),
    };
    let change = |at: &str, bytes: Option<&'static [u8]>| RemoteChange {
        path: path(at),
        node: bytes.map(file),
        content: bytes.map(|bytes| Arc::new(MemoryContent::new(bytes)) as _),
    };
    vec![change("out", Some(b"theirs")), change("d/gone", None), change("new", Some(b"theirs too"))]
}

/// What the killed process does. Without the variables it is no test.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let copy = WorkingCopy::open(Path::new(&folder)).unwrap();
    match std::env::var(WHAT).unwrap().as_str() {
        "run" => assert_eq!(support::run(&copy, &calls()).unwrap().exit(), 0),
        _ => assert_eq!(copy.apply_remote(pulled()).unwrap(), []),
    }
}

fn start() -> Folder {
    let f = folder();
    f.write("out", "first");
    f.write("d/one", "1");
    f.write("d/sub/two", "2");
    f.write("d/gone", "3");
    f.copy.append_changes().unwrap();
    f.copy.mark_sent(&[1]).unwrap();
    f.write("out", "before");
    f.write("file", "4");
    f
}

/// Does it in a process that is killed at `point`; `false` if the point was never reached.
fn killed_at(f: &Folder, what: &str, point: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recover::child"])
        .env(FOLDER, &f.path)
        .env(WHAT, what)
        .env("OPSHIP_FAILPOINT", point)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{point}: {status}");
    !status.success()
}

fn points() -> Vec<String> {
    let fixed = ["captured", "staged", "intent", "exchanged", "appended"];
    fixed.iter().map(|p| (*p).to_owned()).chain((0..10).map(|n| format!("exchange-{n}"))).collect()
}

#[test]
fn a_run_killed_at_any_point_is_there_whole_or_not_at_all() {
    let done = start();
    assert_eq!(done.run(&calls()).unwrap().exit(), 0);
    let after = done.tree();
    let mut killed = 0;
    for point in points() {
        let f = start();
        let before = f.tree();
        killed += u32::from(killed_at(&f, "run", &point));
        let copy = WorkingCopy::open(&f.path).unwrap();
        let rolls_forward = !matches!(point.as_str(), "captured" | "staged");
        assert_eq!(tree(&f.path), if rolls_forward { after.clone() } else { before }, "{point}");
        let pending = copy.pending().unwrap();
        assert_eq!(pending.len(), if rolls_forward { 3 } else { 1 }, "{point}");
        assert!(pending.iter().all(|entry| entry.state == EntryState::Pending));
        if rolls_forward {
            assert_eq!(copy.scan().unwrap().changes, [], "{point}");
            for lost in [b"before".as_slice(), b"3", b"4"] {
                assert!(copy.blob_source(&Hash::of(lost)).unwrap().is_some(), "{point}: {lost:?}");
            }
        } else {
            assert_eq!(support::run(&copy, &calls()).unwrap().exit(), 0);
            assert_eq!(tree(&f.path), after, "{point}: again");
        }
    }
    assert_eq!(killed, 15, "each point was reached");
}

#[test]
fn a_process_that_has_the_folder_open_finishes_what_a_killed_one_left() {
    let f = start();
    assert!(killed_at(&f, "run", "exchange-3"));
    // No open in between: whoever takes the lock finishes first.
    f.run(&[crate::support::copy("out", "copied")]).unwrap();
    assert_eq!(f.read("copied"), b"after");
    assert_eq!(f.copy.scan().unwrap().changes, []);
}

#[test]
fn a_pull_killed_at_any_point_leaves_no_change_of_ours_behind() {
    for point in points().iter().filter(|point| !matches!(point.as_str(), "captured")) {
        let f = folder();
        f.copy.apply_remote(first_pull()).unwrap();
        killed_at(&f, "pull", point);
        let copy = WorkingCopy::open(&f.path).unwrap();
        assert_eq!(copy.scan().unwrap().changes, [], "{point}");
        assert_eq!(copy.apply_remote(pulled()).unwrap(), [], "{point}");
        let names: Vec<String> = tree(&f.path).into_keys().collect();
        assert_eq!(
            (names.as_slice(), f.read("out")),
            (["d", "new", "out"].map(String::from).as_slice(), b"theirs".to_vec())
        );
    }
}

fn first_pull() -> Vec<RemoteChange> {
    let file = |at: &str, bytes: &'static [u8]| RemoteChange {
        path: path(at),
        node: Some(Node::File { mode: 0o644, mtime: 5, length: bytes.len() as u64, hash: Hash::of(bytes) }),
        content: Some(Arc::new(MemoryContent::new(bytes))),
    };
    let folder = RemoteChange { path: path("d"), node: Some(Node::Directory { mode: 0o755 }), content: None };
    vec![folder, file("d/gone", b"g"), file("out", b"first")]
}
