//! Pulls: what others did comes in, local edits stay.

use crate::support::{Folder, folder, path, write};
use opship_client::{RemoteChange, Traffic};
use opship_record::Hash;
use opship_record::answer::{Answer, Status, Verdict};
use opship_record::node::Node;
use opship_world::MemoryContent;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

fn file(at: &str, bytes: &'static [u8]) -> RemoteChange {
    let node =
        Node::File { mode: 0o640, mtime: 1_500_000_000_123_456_789, length: bytes.len() as u64, hash: Hash::of(bytes) };
    RemoteChange { path: path(at), node: Some(node), content: Some(Arc::new(MemoryContent::new(bytes))) }
}

fn directory(at: &str) -> RemoteChange {
    RemoteChange { path: path(at), node: Some(Node::Directory { mode: 0o755 }), content: None }
}

fn gone(at: &str) -> RemoteChange {
    RemoteChange { path: path(at), node: None, content: None }
}

fn pull(f: &Folder, changes: Vec<RemoteChange>) -> Vec<String> {
    f.copy.apply_remote(changes).unwrap().into_iter().map(|skip| skip.path.to_string()).collect()
}

#[test]
fn what_is_pulled_is_as_the_server_has_it_and_no_change_of_ours() {
    let f = folder();
    let link = Node::Symlink { mtime: 7_000_000_001, target: b"d/x".to_vec() };
    let link = RemoteChange { path: path("link"), node: Some(link), content: None };
    assert_eq!(pull(&f, vec![directory("d"), file("d/x", b"1"), link]), [""; 0]);
    let found = std::fs::metadata(f.path.join("d/x")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.mtime(), found.mtime_nsec()), (0o640, 1_500_000_000, 123_456_789));
    assert_eq!(f.copy.scan().unwrap().changes, []);
    assert!(f.copy.origin(&path("d/x")).unwrap().unwrap().synced);
    assert_eq!(pull(&f, vec![file("d/x", b"2"), gone("link")]), [""; 0]);
    assert_eq!((f.read("d/x"), f.exists("link")), (b"2".to_vec(), false));
    assert_eq!(pull(&f, vec![gone("d"), gone("d/x")]), [""; 0]);
    assert_eq!(f.tree().len(), 0);
    assert_eq!(std::fs::read_dir(f.path.join(".opship/staging")).unwrap().count(), 0);
}

#[test]
fn a_known_content_needs_no_bytes_and_an_unknown_one_is_asked_for() {
    let f = folder();
    pull(&f, vec![file("a", b"1")]);
    let bare = |at: &str, bytes: &'static [u8]| RemoteChange { content: None, ..file(at, bytes) };
    assert_eq!(pull(&f, vec![bare("copy", b"1")]), [""; 0]);
    assert_eq!(f.read("copy"), b"1");
    let skipped = f.copy.apply_remote(vec![bare("other", b"2")]).unwrap();
    assert!(skipped[0].content_missing);
    assert_eq!(f.copy.deferred().unwrap(), []);
}

#[test]
fn local_edits_pending_entries_and_hidden_files_are_left_alone_and_deferred() {
    let f = folder();
    pull(&f, vec![file("edited", b"1"), file("run", b"1"), file("removed", b"1"), directory("d"), file("d/x", b"1")]);
    f.write("edited", "mine");
    f.write("made", "mine");
    f.write("d/mine", "mine");
    f.write(".opshipignore", "hidden\n");
    f.write("hidden", "mine");
    std::fs::remove_file(f.path.join("removed")).unwrap();
    f.run(&[write("run", b"mine")]).unwrap();
    let skipped = pull(
        &f,
        vec![
            file("edited", b"theirs"),
            file("made", b"theirs"),
            file("hidden", b"theirs"),
            file("run", b"theirs"),
            file("removed", b"theirs"),
            gone("d"),
            gone("d/x"),
        ],
    );
    assert_eq!(skipped, ["edited", "hidden", "made", "removed", "run"]);
    for ours in ["edited", "made", "hidden", "run", "d/mine"] {
        assert_eq!(f.read(ours), b"mine", "{ours}");
    }
    assert!(!f.exists("d/x"));
    assert_eq!(f.copy.deferred().unwrap().len(), 5);
    // Once the entry has ended and the path is as the log says, the deferred change applies.
    for entry in f.copy.pending().unwrap() {
        let answer = Answer { verdict: Some(Verdict::Matched), ..Answer::new(entry.sequence, Status::Ended) };
        f.copy.mark_answer(entry.number, &answer, Traffic::default()).unwrap();
    }
    assert_eq!(pull(&f, vec![file("run", b"theirs")]), [""; 0]);
    assert_eq!((f.read("run"), f.copy.deferred().unwrap().len()), (b"theirs".to_vec(), 4));
}

#[test]
fn a_conflict_copy_stands_beside_the_file_and_is_a_change_of_ours() {
    let f = folder();
    f.write("d/a.txt", "mine");
    f.copy.append_changes().unwrap();
    let copy =
        || f.copy.conflict_copy_of(&path("d/a.txt"), &path("d"), (&Hash::of(b"mine"), 0o644, 0)).unwrap().unwrap();
    let at = copy();
    assert!(at.as_str().starts_with("d/a (conflict ") && at.as_str().ends_with(").txt"), "{at}");
    let second = copy();
    assert_ne!(at, second);
    assert_eq!((f.read(at.as_str()), f.read(second.as_str())), (b"mine".to_vec(), b"mine".to_vec()));
}
