//! Value entries: what the scan finds, how entries grow, how they are rewritten, and what a verdict releases.

use crate::support::{Call, Folder, copy, folder, path, write};
use opship_client::{EntryState, Traffic};
use opship_record::Hash;
use opship_record::answer::{Answer, Need, Status, Verdict};
use opship_record::effect::{After, Before, Change};
use opship_record::node::Kind;
use std::collections::BTreeMap;
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
fn on_a_slow_link_entries_are_small_and_a_file_that_is_written_again_stays_in_its_entry() {
    let f = folder();
    // A modem never gets to more in one sync; what few bytes took in a moment says nothing.
    f.copy.note_rate(20_000, 20.0).unwrap();
    f.copy.note_rate(20_000, 0.01).unwrap();
    for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
        f.write(name, vec![byte; 60_000]);
    }
    assert_eq!(f.copy.append_changes().unwrap().1, Some(3), "each fills half a minute of the link");
    f.write("c", vec![4; 200_000]);
    assert_eq!(f.copy.append_changes().unwrap().1, Some(3));
    assert_eq!(changes(&f, 3).len(), 1);
    f.write("d", "1");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(4));
}

#[test]
fn a_value_that_a_run_needs_is_kept_as_it_was() {
    let f = folder();
    f.write("in", "1");
    f.run(&[copy("in", "out")]).unwrap();
    f.write("in", "2 and more");
    assert_eq!(f.copy.append_changes().unwrap().1, Some(3));
    assert!(f.copy.blob_source(&Hash::of(b"1")).unwrap().is_some());
    let before = changes(&f, 1);
    assert_eq!(lacking(&f), [0u64; 0]);
    assert_eq!(changes(&f, 1), before);
}

/// Mends what can be mended and gives the numbers of the rest.
fn lacking(f: &Folder) -> Vec<u64> {
    f.copy.mend_values(&BTreeMap::new()).unwrap().lacking
}

/// The content that a value entry gives a path.
fn given(f: &Folder, number: u64, name: &str) -> Option<Hash> {
    let list = changes(f, number);
    list.iter().find(|change| change.path == path(name)).and_then(|change| change.after.blob()).map(|(_, hash)| hash)
}

#[test]
fn a_value_that_was_sent_stays_as_it_is_until_the_answer_tells_that_it_is_not_held() {
    let f = folder();
    f.write("a", "1");
    f.copy.append_changes().unwrap();
    f.copy.mark_sent(&[1]).unwrap();
    f.write("a", "2 and more");
    assert!(f.copy.blob_source(&Hash::of(b"1")).unwrap().is_none());
    assert_eq!(lacking(&f), [1]);
    assert_eq!(given(&f, 1, "a"), Some(Hash::of(b"1")));
    assert_eq!(given(&f, 2, "a"), Some(Hash::of(b"2 and more")));
    let needs = Answer { needs: Some(vec![Need::Blob { hash: Hash::of(b"1") }]), ..Answer::new(1, Status::Needs) };
    f.copy.mark_answer(1, &needs, Traffic::default()).unwrap();
    assert_eq!(lacking(&f), [0u64; 0]);
    assert_eq!(given(&f, 1, "a"), Some(Hash::of(b"2 and more")));
    assert_eq!(changes(&f, 2), []);
    // Sent again without an answer: held, for all that is known.
    f.copy.mark_sent(&[1]).unwrap();
    f.write("a", "3");
    assert_eq!(lacking(&f), [1]);
}

/// Entry 1 gives `in` and `gone`; a run needs `in`, so that entry 1 is waited for and takes nothing more in.
fn waited_for() -> Folder {
    let f = folder();
    f.write("in", "1");
    f.write("gone", "2");
    f.copy.append_changes().unwrap();
    f.run(&[copy("in", "out")]).unwrap();
    assert_eq!(f.copy.entry(2).unwrap().waits, [1]);
    f
}

#[test]
fn a_waited_for_value_takes_the_next_state_of_a_path_that_no_run_uses() {
    let f = waited_for();
    f.write("gone", "3 and more");
    f.write("in", "also changed");
    assert_eq!(lacking(&f), [0u64; 0]);
    assert_eq!(given(&f, 1, "in"), Some(Hash::of(b"1")), "the run saw this");
    assert_eq!(given(&f, 1, "gone"), Some(Hash::of(b"3 and more")));
    assert_eq!(given(&f, 3, "gone"), None);
    assert_eq!(given(&f, 3, "in"), Some(Hash::of(b"also changed")));
    assert_eq!(f.copy.scan().unwrap().changes, []);
    // A path that entry 1 made is with the server when entry 1 is.
    end(&f, 1, Verdict::Shipped);
    assert!(f.copy.origin(&path("gone")).unwrap().unwrap().synced);
    assert!(!f.copy.origin(&path("in")).unwrap().unwrap().synced);
}

#[test]
fn a_waited_for_value_drops_a_path_that_came_and_went() {
    let f = waited_for();
    std::fs::remove_file(f.path.join("gone")).unwrap();
    assert_eq!(lacking(&f), [0u64; 0]);
    let paths: Vec<_> = changes(&f, 1).into_iter().map(|change| change.path).collect();
    assert_eq!(paths, [path("in")]);
}

#[test]
fn a_file_that_became_a_folder_is_one_from_the_first_entry_on() {
    let f = waited_for();
    std::fs::remove_file(f.path.join("gone")).unwrap();
    f.write("gone/x", "3");
    assert_eq!(lacking(&f), [0u64; 0]);
    assert!(matches!(changes(&f, 1)[0].after, After::Directory { .. }));
    let below = changes(&f, 3);
    assert_eq!(below[0].path, path("gone/x"));
    assert_eq!(below[0].before, Before::Absent { missing: path("gone/x"), above: Kind::Directory });
}

#[test]
fn who_uses_the_state_that_moved_to_an_earlier_value_waits_for_that_one() {
    let f = waited_for();
    f.write("gone", "3 and more");
    f.copy.append_changes().unwrap();
    f.run(&[copy("gone", "later")]).unwrap();
    assert_eq!(lacking(&f), [0u64; 0]);
    assert_eq!(given(&f, 1, "gone"), Some(Hash::of(b"3 and more")));
    assert!(f.copy.entry(4).unwrap().waits.contains(&1));
    f.write("gone", "4");
    end(&f, 3, Verdict::Shipped);
    f.copy.release(3).unwrap();
    assert!(f.copy.blob_source(&Hash::of(b"3 and more")).unwrap().is_some(), "entry 1 still needs it");
}

#[test]
fn the_bytes_of_what_a_run_looked_at_are_kept_until_its_value_is_shipped() {
    for look in [Call::Stat("f".to_owned()), Call::List(".".to_owned()), Call::Rename("d".to_owned(), "e".to_owned())] {
        let f = folder();
        f.write("f", "1");
        f.write("d/f", "2");
        f.copy.append_changes().unwrap();
        f.run(&[look.clone(), write("out", b"x")]).unwrap();
        let (moved, bytes) = if f.exists("e") { ("e/f", b"2") } else { ("f", b"1") };
        std::fs::remove_file(f.path.join(moved)).unwrap();
        assert_eq!(lacking(&f), [0u64; 0], "{look:?}");
        assert!(f.copy.blob_source(&Hash::of(bytes)).unwrap().is_some(), "{look:?}");
        assert!(
            changes(&f, 1).iter().any(|c| c.after.blob().is_some_and(|(_, hash)| hash == Hash::of(bytes))),
            "{look:?}"
        );
    }
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
