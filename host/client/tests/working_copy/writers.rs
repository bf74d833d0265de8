//! Other programs that write beside runs, and a disk that is full: no byte is lost.

use crate::support::{self, copy, folder, tree, write};
use opship_client::{ClientError, WorkingCopy};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The phase in which a writer ends.
const END: u32 = u32::MAX;
const FOLDER: &str = "OPSHIP_TEST_FULL";

/// Saves `name` again and again while the phase is even, by rename over or in place through one descriptor, and gives
/// what it wrote last.
fn keep_saving(folder: &Path, name: &str, in_place: bool, phase: &AtomicU32) -> Vec<u8> {
    let path = folder.join(name);
    let temporary = folder.with_file_name(format!("{name}.saving"));
    let mut open = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut last = Vec::new();
    let mut round = 0u32;
    loop {
        match phase.load(Ordering::SeqCst) {
            END => return last,
            phase if phase % 2 == 1 => {
                std::thread::yield_now();
                continue;
            }
            _ => round += 1,
        }
        last = format!("{name} by the writer, round {round:08}").into_bytes();
        if in_place {
            open.seek(SeekFrom::Start(0)).unwrap();
            open.write_all(&last).unwrap();
        } else {
            std::fs::write(&temporary, &last).unwrap();
            std::fs::rename(&temporary, &path).unwrap();
        }
    }
}

/// 200 runs beside a writer of each file. What each wrote last is in the tree, also after all releases, or a run has
/// overwritten it knowingly: then an entry of the log names it, and its bytes are kept until the verdict.
fn nothing_is_lost(in_place: bool) {
    let f = folder();
    f.write("in", "in by the writer, round 00000000");
    f.write("out", "out by the writer, round 00000000");
    let phase = AtomicU32::new(0);
    let last: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let save = |name: &'static str| {
            let (path, phase) = (&f.path, &phase);
            scope.spawn(move || keep_saving(path, name, in_place, phase))
        };
        let writers = [save("in"), save("out")];
        let mut done = 0;
        for run in 0..200 {
            phase.store(run, Ordering::SeqCst);
            match f.run(&[copy("in", "copied"), write("out", b"by the run")]) {
                Ok(_) => done += 1,
                Err(ClientError::Changed { .. }) => {}
                Err(error) => {
                    phase.store(END, Ordering::SeqCst);
                    panic!("{error}");
                }
            }
        }
        phase.store(END, Ordering::SeqCst);
        assert!(done > 0, "the writers are quiet at each second run");
        writers.map(|writer| writer.join().unwrap()).into()
    });
    let in_tree = |bytes: &[u8]| tree(&f.path).values().any(|content| content.as_deref() == Some(bytes));
    let in_log = |bytes: &[u8]| {
        let hash = opship_record::Hash::of(bytes);
        let names = |entry: &opship_client::LogEntry| {
            let changes = f.copy.lists(entry.number).unwrap().changes;
            changes.iter().any(|change| change.after.blob().is_some_and(|(_, named)| named == hash))
        };
        let kept = f.copy.blob_source(&hash).unwrap().is_some();
        kept && f.copy.pending().unwrap().iter().any(names)
    };
    let overwritten: Vec<bool> = last.iter().map(|bytes| in_log(bytes)).collect();
    for entry in f.copy.pending().unwrap() {
        let verdict = Some(opship_record::answer::Verdict::Matched);
        let answer = opship_record::answer::Answer {
            verdict,
            ..opship_record::answer::Answer::new(entry.sequence, opship_record::answer::Status::Ended)
        };
        f.copy.mark_answer(entry.number, &answer, opship_client::Traffic::default()).unwrap();
        f.copy.release(entry.number).unwrap();
    }
    f.copy.release_left().unwrap();
    for (bytes, overwritten) in last.iter().zip(overwritten) {
        assert!(overwritten || in_tree(bytes), "{} is lost", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_writer_that_renames_over_inputs_and_outputs_loses_nothing() {
    nothing_is_lost(false);
}

#[test]
fn a_writer_that_keeps_its_descriptor_loses_nothing() {
    nothing_is_lost(true);
}

/// Runs with files limited to 1,000 KiB. Without the variable it is no test.
#[test]
fn child_with_a_full_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let copy = WorkingCopy::open(Path::new(&folder)).unwrap();
    let error = support::run(&copy, &[support::copy("in", "out")]).unwrap_err();
    assert!(error.is_disk_full() || error.to_string().contains("free disk space"), "{error}");
}

#[test]
fn a_full_disk_is_a_clear_error_and_changes_nothing() {
    let f = folder();
    f.write("in", vec![1u8; 3_000_000]);
    f.write("out", "old");
    let before = f.tree();
    let child = std::env::current_exe().unwrap();
    let limited = "ulimit -f 1000; trap '' XFSZ; exec \"$0\" --exact writers::child_with_a_full_disk";
    let status = Command::new("bash").args(["-c", limited]).arg(child).env(FOLDER, &f.path).status().unwrap();
    assert!(status.success(), "{status}");
    let again = WorkingCopy::open(&f.path).unwrap();
    assert_eq!(f.tree(), before);
    assert_eq!(again.pending().unwrap().len(), 0);
    assert_eq!(support::run(&again, &[copy("in", "out")]).unwrap().exit(), 0);
    assert_eq!(f.read("out").len(), 3_000_000);
}
