//! Runs on a working copy: what is applied, what is logged, what is left alone.

use crate::support::{Call, copy, folder, path, request, write};
use opship_client::{ClientError, EntryState, StdinRequest};
use opship_record::Hash;
use opship_record::effect::{After, Before};
use opship_record::entry::{Body, BodyKind};
use opship_record::observation::Observation;
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn an_input_becomes_a_value_and_the_run_an_operation_that_waits_for_it() {
    let f = folder();
    f.write("in", "hello");
    let report = f.run(&[copy("in", "out")]).unwrap();
    assert_eq!((report.exits.as_slice(), report.changes, report.entry), ([0].as_slice(), 1, Some(2)));
    assert_eq!(f.read("out"), b"hello");
    let pending = f.copy.pending().unwrap();
    assert_eq!(pending.iter().map(|e| e.kind).collect::<Vec<_>>(), [BodyKind::Value, BodyKind::Operation]);
    assert_eq!((pending[0].waits.as_slice(), pending[1].waits.as_slice()), ([].as_slice(), [1].as_slice()));
    let lists = f.copy.lists(2).unwrap();
    let seen = Observation::Content { path: path("in"), hash: Hash::of(b"hello") };
    assert!(lists.observations.contains(&seen), "{lists:?}");
    let Body::Operation(record) = Body::decode(BodyKind::Operation, &pending[1].body).unwrap() else { panic!() };
    assert_eq!(record.observations, opship_record::observation::digest(&lists.observations));
    assert!(f.copy.blob_source(&Hash::of(b"hello")).unwrap().is_some());
}

#[test]
fn after_a_run_nothing_is_left_to_scan_and_nothing_in_staging_but_what_was_displaced() {
    let f = folder();
    f.write("out", "old");
    f.copy.append_changes().unwrap();
    f.run(&[write("out", b"new"), Call::MakeDirectory("d".into()), write("d/x", b"x")]).unwrap();
    let scan = f.copy.scan().unwrap();
    assert_eq!(scan.changes, []);
    assert!(f.copy.blob_source(&Hash::of(b"old")).unwrap().is_some(), "displaced, not lost");
    assert_eq!(f.read("out"), b"new");
}

#[test]
fn a_run_that_does_nothing_is_not_logged_and_one_that_traps_changes_nothing() {
    let f = folder();
    f.write("in", "x");
    assert_eq!(f.run(&[Call::Stat("in".into())]).unwrap().entry, None);
    let error = f.run(&[write("in", b"y"), Call::Trap]).unwrap_err();
    assert!(matches!(error, ClientError::Run(_)), "{error}");
    assert_eq!(f.read("in"), b"x");
    assert!(f.copy.pending().unwrap().is_empty());
}

#[test]
fn streams_alone_make_an_entry_and_come_back_whole() {
    let f = folder();
    f.write("in", "text");
    let report = f.run(&[Call::Print("in".into())]).unwrap();
    assert_eq!(report.entry, Some(2));
    let (mut out, mut error) = (Vec::new(), Vec::new());
    report.copy_streams(&mut out, &mut error).unwrap();
    assert_eq!((out.as_slice(), error.as_slice()), (b"text".as_slice(), b"".as_slice()));
}

#[test]
fn an_output_read_by_the_next_run_makes_it_wait_and_independent_runs_do_not() {
    let f = folder();
    f.run(&[write("a", b"1")]).unwrap();
    f.run(&[copy("a", "b")]).unwrap();
    f.run(&[write("c", b"2")]).unwrap();
    let waits: Vec<Vec<u64>> = f.copy.pending().unwrap().into_iter().map(|e| e.waits).collect();
    assert_eq!(waits, [vec![], vec![1], vec![]]);
}

#[test]
fn a_listing_waits_for_who_made_a_name_in_it_and_captures_new_names() {
    let f = folder();
    f.write("x", "1");
    f.run(&[write("made", b"1")]).unwrap();
    f.run(&[Call::List(".".into())]).unwrap();
    let pending = f.copy.pending().unwrap();
    let last = pending.last().unwrap();
    assert_eq!(last.waits, [1, 2], "the run and the value that names x");
    assert_eq!(f.copy.lists(2).unwrap().changes.first().map(|c| c.path.clone()), Some(path("x")));
}

#[test]
fn a_shell_redirection_of_a_recorded_stream_names_its_hash_and_waits_for_the_run() {
    let f = folder();
    f.run(&[Call::Say(b"stream".to_vec())]).unwrap();
    f.write("b", "stream");
    let (_, number) = f.copy.append_changes().unwrap();
    let entry = f.copy.entry(number.unwrap()).unwrap();
    assert_eq!((entry.kind, entry.waits.as_slice()), (BodyKind::Value, [1].as_slice()));
}

#[test]
fn moved_directories_keep_what_they_hold_and_their_entries_in_the_index() {
    let f = folder();
    f.write("d/one", "1");
    f.write("d/sub/two", "2");
    f.write("d/gone", "3");
    f.copy.append_changes().unwrap();
    f.run(&[
        Call::Rename("d".into(), "e".into()),
        Call::Remove("e/gone".into()),
        write("e/new", b"n"),
        Call::MakeDirectory("d".into()),
        write("d/one", b"other"),
    ])
    .unwrap();
    let names: Vec<String> = f.tree().into_keys().collect();
    assert_eq!(names, ["d", "d/one", "e", "e/new", "e/one", "e/sub", "e/sub/two"]);
    assert_eq!((f.read("d/one"), f.read("e/one")), (b"other".to_vec(), b"1".to_vec()));
    assert_eq!(f.copy.scan().unwrap().changes, []);
    assert!(f.copy.blob_source(&Hash::of(b"3")).unwrap().is_some(), "what was removed is kept until the verdict");
}

#[test]
fn kinds_replace_each_other() {
    let f = folder();
    f.write("file", "1");
    f.write("dir/x", "2");
    f.copy.append_changes().unwrap();
    f.run(&[
        Call::Remove("file".into()),
        Call::MakeDirectory("file".into()),
        write("file/in", b"i"),
        Call::Remove("dir/x".into()),
        Call::RemoveDirectory("dir".into()),
        Call::Symlink("file/in".into(), "dir".into()),
    ])
    .unwrap();
    assert_eq!(f.read("file/in"), b"i");
    assert_eq!(f.tree()["dir"], Some(b"-> file/in".to_vec()));
    assert_eq!(f.copy.scan().unwrap().changes, []);
}

#[test]
fn an_overwritten_file_keeps_its_mode_and_a_new_one_has_the_default() {
    let f = folder();
    f.write("script", "a");
    std::fs::set_permissions(f.path.join("script"), PermissionsExt::from_mode(0o750)).unwrap();
    f.run(&[write("script", b"b"), write("new", b"c")]).unwrap();
    let mode = |name: &str| std::fs::metadata(f.path.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("script"), mode("new")), (0o750, 0o644));
    assert_eq!(f.copy.scan().unwrap().changes, []);
}

#[test]
fn what_is_ignored_or_unsupported_is_not_there_and_is_never_overwritten() {
    let f = folder();
    f.write(".opshipignore", "*.tmp\n!keep.tmp\n/build/\n");
    f.write("sub/.opshipignore", "secret\n");
    f.write("sub/secret", "s");
    f.write("a.tmp", "hidden");
    f.write("keep.tmp", "shown");
    f.write("build/x", "hidden");
    let fifo = f.path.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let report = f.run(&[Call::List(".".into()), Call::List("sub".into())]).unwrap();
    let (mut out, mut error) = (Vec::new(), Vec::new());
    report.copy_streams(&mut out, &mut error).unwrap();
    let listing = String::from_utf8_lossy(&out).into_owned();
    assert!(listing.contains("keep.tmp") && listing.contains("sub"), "{listing:?}");
    for hidden in ["a.tmp", "build", "fifo", "secret", ".opship\0"] {
        assert!(!listing.contains(hidden), "{hidden} in {listing:?}");
    }
    let error = f.run(&[write("a.tmp", b"mine")]).unwrap_err();
    assert!(matches!(error, ClientError::InTheWay { .. }), "{error}");
    assert_eq!(f.read("a.tmp"), b"hidden");
    let scan = f.copy.scan().unwrap();
    assert!(scan.unsupported.iter().any(|u| u.path == "fifo"), "{scan:?}");
}

#[test]
fn ignore_rules_do_not_touch_what_is_in_the_index() {
    let f = folder();
    f.write("a.log", "1");
    f.copy.append_changes().unwrap();
    f.write(".opshipignore", "*.log\n");
    f.write("a.log", "2!");
    f.write("b.log", "3");
    let changed: Vec<String> = f.copy.scan().unwrap().changes.iter().map(|c| c.path.to_string()).collect();
    assert_eq!(changed, [".opshipignore", "a.log"]);
}

#[test]
fn a_removed_folder_with_hidden_files_stays_outside_the_version() {
    let f = folder();
    f.write(".opshipignore", "*.tmp\n");
    f.write("d/x", "1");
    f.write("d/y.tmp", "hidden");
    f.copy.append_changes().unwrap();
    f.run(&[Call::Remove("d/x".into()), Call::RemoveDirectory("d".into())]).unwrap();
    assert_eq!(f.read("d/y.tmp"), b"hidden");
    assert_eq!(f.copy.node(&path("d")).unwrap(), None);
    assert_eq!(f.copy.scan().unwrap().changes, [], "it does not come back as a new folder");
    f.run(&[Call::MakeDirectory("d".into()), write("d/x", b"2")]).unwrap();
    assert_eq!((f.read("d/x"), f.read("d/y.tmp")), (b"2".to_vec(), b"hidden".to_vec()));
}

#[test]
fn a_path_of_the_index_that_cannot_be_synced_any_more_fails_the_run_naming_it() {
    let f = folder();
    f.write("in", "1");
    f.copy.append_changes().unwrap();
    std::fs::remove_file(f.path.join("in")).unwrap();
    let fifo = f.path.join("in");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let error = f.run(&[copy("in", "out")]).unwrap_err();
    assert!(error.to_string().contains("'in'"), "{error}");
    let scan = f.copy.scan().unwrap();
    assert_eq!((scan.changes.len(), scan.unsupported.len()), (0, 1), "it stays in the version: {scan:?}");
}

#[test]
fn a_link_out_of_the_folder_is_never_followed() {
    let f = folder();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    symlink(outside.path(), f.path.join("link")).unwrap();
    let report = f.run(&[copy("link/secret", "out")]).unwrap();
    assert_ne!(report.exit(), 0);
    let report = f.run(&[write("link/new", b"x")]).unwrap();
    assert_ne!(report.exit(), 0);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn standard_input_is_kept_for_the_record() {
    let f = folder();
    let mut request = request(&[Call::Say(b"x".to_vec())]);
    request.steps[0].stdin = StdinRequest::Bytes(b"typed".to_vec());
    f.copy.run(crate::support::engine(), request).unwrap();
    assert!(f.copy.blob_source(&Hash::of(b"typed")).unwrap().is_some());
}

#[test]
fn removed_and_overwritten_states_that_the_log_does_not_hold_are_captured() {
    let f = folder();
    f.write("a", "1");
    f.run(&[write("a", b"2")]).unwrap();
    let captured = f.copy.lists(1).unwrap().changes;
    assert_eq!(captured.len(), 1);
    assert!(matches!(&captured[0].after, After::File { hash, .. } if *hash == Hash::of(b"1")));
    let run = f.copy.lists(2).unwrap().changes;
    assert_eq!(run[0].before, Before::File { hash: Hash::of(b"1") });
    std::fs::remove_file(f.path.join("a")).unwrap();
    f.run(&[Call::Stat("a".into()), Call::Say(b"s".to_vec())]).unwrap();
    assert_eq!(f.copy.lists(3).unwrap().changes[0].after, After::Removed);
}

#[test]
fn two_runs_at_once_both_stand() {
    let f = folder();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let copy = &f.copy;
            scope.spawn(move || {
                for round in 0..5u8 {
                    crate::support::run(copy, &[write(&format!("{name}{round}"), &[round])]).unwrap();
                }
            });
        }
    });
    assert_eq!(f.tree().len(), 20);
    let pending = f.copy.pending().unwrap();
    assert_eq!(pending.len(), 20);
    assert!(pending.iter().enumerate().all(|(i, e)| e.sequence == i as u64 + 1 && e.state == EntryState::Pending));
    assert_eq!(f.copy.scan().unwrap().changes, []);
}
