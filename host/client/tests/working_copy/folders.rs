//! Moved and copied folders, identities, refusals.

use crate::support::{Call, copy, folder, write};
use opship_client::{ClientError, WorkingCopy};
use opship_record::Hash;
use opship_record::TreePath;
use std::process::Command;

#[test]
fn a_moved_folder_works_while_it_is_open_and_keeps_its_identity() {
    let f = folder();
    f.write("in", "1");
    let client = f.copy.client().unwrap();
    let moved = f.path.with_file_name("elsewhere");
    std::fs::rename(&f.path, &moved).unwrap();
    f.run(&[copy("in", "out"), write("big", &vec![7; 100_000])]).unwrap();
    assert_eq!(std::fs::read(moved.join("out")).unwrap(), b"1");
    let again = WorkingCopy::open(&moved.join("out").parent().unwrap().join(".")).unwrap();
    assert_eq!((again.client().unwrap(), again.is_forked().unwrap()), (client, false));
}

#[test]
fn a_copied_folder_is_noticed_and_its_entries_move_to_a_new_client() {
    let f = folder();
    f.run(&[write("a", b"1")]).unwrap();
    f.run(&[copy("a", "b")]).unwrap();
    let copied = f.path.with_file_name("copied");
    assert!(Command::new("cp").arg("-a").arg(&f.path).arg(&copied).status().unwrap().success());
    let other = WorkingCopy::open(&copied).unwrap();
    assert!(other.is_forked().unwrap());
    assert!(!WorkingCopy::open(&f.path).unwrap().is_forked().unwrap(), "the original is not");
    let id = other.move_to_new_client(&[2]).unwrap();
    assert_ne!(id, f.copy.client().unwrap());
    let moved = other.entry(2).unwrap();
    assert_eq!((moved.client, moved.sequence, moved.waits.as_slice()), (id, 1, [].as_slice()));
    assert_eq!(other.entry(1).unwrap().client, f.copy.client().unwrap());
    assert!(!WorkingCopy::open(&copied).unwrap().is_forked().unwrap());
    let report = crate::support::run(&other, &[write("c", b"2")]).unwrap();
    assert_eq!(other.entry(report.entry.unwrap()).unwrap().sequence, 2);
}

#[test]
fn a_folder_without_a_working_copy_and_one_that_is_one_are_told_apart() {
    let f = folder();
    let outside = tempfile::tempdir().unwrap();
    assert!(matches!(WorkingCopy::open(outside.path()), Err(ClientError::NoWorkingCopy(_))));
    assert!(matches!(WorkingCopy::create(&f.path, "s", "w"), Err(ClientError::AlreadyWorkingCopy(_))));
    f.write("x", "1");
    f.copy.clone().leave().unwrap();
    assert!(matches!(WorkingCopy::open(&f.path), Err(ClientError::NoWorkingCopy(_))));
    assert_eq!(f.read("x"), b"1");
}

#[test]
fn names_like_opships_own_folder_are_not_synced_and_cannot_be_made() {
    let f = folder();
    f.write(".OPSHIP/x", "1");
    f.write("sub/.opship/x", "1");
    let scan = f.copy.scan().unwrap();
    let names: Vec<&str> = scan.unsupported.iter().map(|u| u.path.as_str()).collect();
    assert!(names.contains(&".OPSHIP"), "{scan:?}");
    assert!(scan.changes.iter().all(|c| !c.path.as_str().to_lowercase().contains("opship")), "{scan:?}");
    assert_ne!(f.run(&[Call::MakeDirectory(".opShip".into())]).unwrap().exit(), 0);
    assert_ne!(f.run(&[write(".opship/config.toml", b"x")]).unwrap().exit(), 0);
}

#[test]
fn names_that_are_not_utf8_are_listed_and_stop_nothing() {
    use std::os::unix::ffi::OsStrExt;
    let f = folder();
    std::fs::write(f.path.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    f.write("good", "y");
    let (scan, number) = f.copy.append_changes().unwrap();
    assert_eq!((scan.changes.len(), scan.unsupported.len(), number), (1, 1, Some(1)));
    assert!(f.copy.blob_source(&Hash::of(b"y")).unwrap().is_some());
}

const OWN: &str = "OPSHIP_TEST_OWN";

/// Runs with its standard output in the tree. Without the variable it is no test.
#[test]
fn child_with_its_output_in_the_tree() {
    let Some(folder) = std::env::var_os(OWN) else { return };
    let copy_of = WorkingCopy::open(std::path::Path::new(&folder)).unwrap();
    let calls = [Call::List(".".into()), copy("own", "seen"), Call::Say(b"the stream".to_vec())];
    let report = crate::support::run(&copy_of, &calls).unwrap();
    report.copy_streams(&mut std::io::stdout(), &mut std::io::stderr()).unwrap();
}

#[test]
fn the_callers_own_output_in_the_tree_is_shown_as_it_was_at_the_start() {
    let f = folder();
    f.write("own", "");
    let own = std::fs::OpenOptions::new().append(true).open(f.path.join("own")).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "folders::child_with_its_output_in_the_tree", "--nocapture"])
        .env(OWN, &f.path)
        .stdout(own)
        .status()
        .unwrap();
    assert!(status.success());
    let (own, seen) = (f.read("own"), f.read("seen"));
    assert!(String::from_utf8_lossy(&own).contains("the stream"));
    assert!(own.starts_with(&seen) && seen.len() < own.len());
    let names = |path: &str| f.copy.node(&TreePath::new(path).unwrap()).unwrap().unwrap().content();
    let at_start = opship_record::node::Content::File { length: seen.len() as u64, hash: Hash::of(&seen) };
    assert_eq!((names("own"), names("seen")), (at_start.clone(), at_start));
    let changes = f.copy.scan().unwrap().changes;
    assert_eq!(changes.len(), 1, "only our own output is new: {changes:?}");
}

#[test]
fn two_processes_on_one_folder_see_each_others_entries() {
    let f = folder();
    f.run(&[write("out", b"1")]).unwrap();
    let other = WorkingCopy::open(&f.path).unwrap();
    f.run(&[write("out", b"2")]).unwrap();
    crate::support::run(&other, &[copy("out", "copied")]).unwrap();
    assert_eq!((f.read("copied"), other.pending().unwrap().len()), (b"2".to_vec(), 3));
}
