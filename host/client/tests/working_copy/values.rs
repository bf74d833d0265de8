//! Value entries: what the scan finds, how entries grow, how they are rewritten, and what a verdict releases.

use crate::support::{Folder, copy, folder, path, write};
use opship_client::{EntryState, Traffic};
use opship_record::Hash;
use opship_record::answer::{Answer, Status, Verdict};
use opship_record::effect::{After, Before, Change};
use opship_record::node::Kind;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

fn end(f: &Folder, number: u64, verdict: Verdict) {
    let sequence = f.copy.entry(number).unwrap().sequence;
    let answer = Answer { verdict: Some(verdict), ..Answer::new(sequence, Status::Ended) };
    f.copy.mark_answer(number, &answer, Traffic { sent: 10, received: 5 }).unwrap();
}

fn changes(f: &Folder, number: u64) -> Vec<Change> {
    f.copy.lists(number).unwrap().changes
}

#[test]
fn a_scan_tells_added_changed_removed_and_mode_only() {
    let f = folder();
    f.write("changed", "1");
    f.write("removed/x", "1");
    f.write("mode", "1");
    f.copy.append_changes().unwrap();
    f.write("changed", "2");
    f.write("added/x", "1");
    std::fs::remove_dir_all(f.path.join("removed")).unwrap();
    std::fs::set_permissions(f.path.join("mode"), PermissionsExt::from_mode(0o600)).unwrap();
    let scan = f.copy.scan().unwrap();
    let paths: Vec<String> = scan.changes.iter().map(|c| c.path.to_string()).collect();
    assert_eq!(paths, ["added", "added/x", "changed", "mode", "removed", "removed/x"]);
    let mode = &scan.changes[3];
    assert_eq!(mode.before, Before::Kind { kind: Kind::File });
    assert_eq!(mode.after, After::Metadata { kind: Kind::File, mode: Some(0o600), mtime: None });
    assert_eq!(scan.changes[5].after, After::Removed);
}

#[test]
fn a_change_of_equal_size_within_one_tick_of_the_clock_is_found() {
    let f = folder();
    for round in 0..20u8 {
        f.write("x", [round]);
        f.copy.append_changes().unwrap();
        assert_eq!(f.copy.node(&path("x")).unwrap().unwrap().content(), node_content(&[round]), "{round}");
    }
}

fn node_content(bytes: &[u8]) -> opship_record::node::Content {
    opship_record::node::Content::File { length: bytes.len() as u64, hash: Hash::of(bytes) }
}

#[test]
fn unsent_values_that_nobody_waits_for_are_one_entry_with_the_first_before_and_the_last_after() {
    let f = folder();
    f.write("a", "1");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(1));
    f.write("a", "22");
    f.write("b", "3");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(1));
    let list = changes(&f, 1);
    assert_eq!(list.len(), 2);
    assert!(matches!(list[0].before, Before::Absent { .. }));
    assert!(matches!(&list[0].after, After::File { hash, .. } if *hash == Hash::of(b"22")));
    f.copy.mark_sent(&[1]).unwrap();
    f.write("a", "333");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(2), "what was sent does not change");
    assert_eq!(f.copy.entry(2).unwrap().waits, [1]);
}

#[test]
fn a_value_that_a_run_needs_is_kept_as_it_was() {
    let f = folder();
    f.write("in", "1");
    f.run(&[copy("in", "out")]).unwrap();
    f.write("in", "2 and more");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(3));
    assert!(f.copy.blob_source(&Hash::of(b"1")).unwrap().is_some());
    assert!(!f.copy.rewrite_value(1).unwrap());
}

#[test]
fn a_value_whose_content_went_before_it_was_shipped_takes_the_new_one() {
    let f = folder();
    f.write("a", "1");
    f.copy.append_changes().unwrap();
    f.copy.mark_sent(&[1]).unwrap();
    f.write("a", "2 and more");
    assert!(f.copy.blob_source(&Hash::of(b"1")).unwrap().is_none());
    assert!(f.copy.rewrite_value(1).unwrap());
    assert!(matches!(&changes(&f, 1)[0].after, After::File { hash, .. } if *hash == Hash::of(b"2 and more")));
    assert_eq!(f.copy.scan().unwrap().changes, []);
}

#[test]
fn a_verdict_ends_the_waiting_and_release_drops_what_was_kept() {
    let f = folder();
    f.write("in", "input");
    f.write("out", "old");
    f.run(&[copy("in", "out")]).unwrap();
    assert!(f.copy.release(2).is_err(), "not before the verdict");
    for number in [1, 2] {
        end(&f, number, Verdict::Matched);
        assert_eq!(f.copy.release(number).unwrap(), []);
    }
    let entry = f.copy.entry(2).unwrap();
    assert_eq!((entry.state, entry.waits.as_slice(), entry.sent_bytes), (EntryState::Ended, [].as_slice(), 10));
    assert!(f.copy.blob_source(&Hash::of(b"old")).unwrap().is_none(), "dropped");
    for folder in ["kept", "staging"] {
        assert_eq!(std::fs::read_dir(f.path.join(".opship").join(folder)).unwrap().count(), 0, "{folder}");
    }
    assert!(f.copy.origin(&path("out")).unwrap().unwrap().synced);
    // What the server holds is read live and not kept.
    f.run(&[copy("out", "again")]).unwrap();
    assert_eq!(std::fs::read_dir(f.path.join(".opship/kept")).unwrap().count(), 0);
}

#[test]
fn a_conflict_parks_what_waits_for_it() {
    let f = folder();
    f.run(&[write("a", b"1")]).unwrap();
    f.run(&[copy("a", "b")]).unwrap();
    end(&f, 1, Verdict::Conflicted);
    assert_eq!(f.copy.entry(2).unwrap().waits, [1]);
}

#[test]
fn a_displaced_file_that_is_open_stays_and_one_written_to_becomes_a_conflict_copy() {
    let f = folder();
    f.write("out", "old");
    f.copy.append_changes().unwrap();
    let mut writer = std::fs::OpenOptions::new().append(true).open(f.path.join("out")).unwrap();
    f.run(&[write("out", b"new")]).unwrap();
    (1..=2).for_each(|number| end(&f, number, Verdict::Matched));
    assert_eq!(f.copy.release(2).unwrap(), []);
    assert!(f.copy.blob_source(&Hash::of(b"old")).unwrap().is_some(), "a writer has it open, so it stays");
    writer.write_all(b" and more").unwrap();
    drop(writer);
    let copies = f.copy.release_left().unwrap();
    assert_eq!(copies.len(), 1);
    assert_eq!(f.read(copies[0].as_str()), b"old and more");
    assert_eq!(f.read("out"), b"new");
}
