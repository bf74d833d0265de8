//! Other programs write while operations run: nothing that anybody wrote is lost.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, guest, snapshot};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All contents in the tree, conflict copies included, and those that opship keeps for itself.
fn contents(folder: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for name in snapshot(folder).keys() {
        let path = folder.join(name);
        if fs::symlink_metadata(&path).unwrap().is_file() {
            found.insert(fs::read(path).unwrap());
        }
    }
    found
}

/// Runs while a writer saves; the last bytes that the writer wrote to each file must be there at the end.
fn beside_a_writer(save: impl Fn(&Path, &str) + Send + 'static) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("input"), "start\n").unwrap();
    fs::write(here.join("output"), "start\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, here) = (stop.clone(), here.clone());
        std::thread::spawn(move || {
            let mut round = 0u64;
            loop {
                round += 1;
                save(&here.join("input"), &format!("input {round}\n"));
                save(&here.join("output"), &format!("output {round}\n"));
                if stop.load(Ordering::Relaxed) {
                    return round;
                }
                // A person or an editor does not save without a pause.
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        })
    };
    let probe = guest("treeprobe");
    let (mut done, mut refused) = (0, 0);
    for _ in 0..200 {
        match place.run(&here, ["run", probe.to_str().unwrap(), "--", "copy", "input", "output"]).code {
            Some(0) => done += 1,
            // The file kept changing: nothing was changed, and the user is told which file.
            Some(125) => refused += 1,
            code => panic!("exit code {code:?}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    let last = writer.join().unwrap();
    assert_eq!(done + refused, 200);
    assert!(done > 0, "no run ever found a quiet moment: this test shows nothing");
    // What was displaced while somebody had it open shows itself when the verdicts are there.
    place.ok(&here, ["sync"]);
    place.ok(&here, ["sync"]);
    let all = contents(&here);
    assert!(all.contains(format!("input {last}\n").as_bytes()), "the last input is lost after {done} runs");
    assert!(all.contains(format!("output {last}\n").as_bytes()), "the last output is lost after {done} runs");
}

#[test]
fn a_writer_that_replaces_files_loses_nothing() {
    beside_a_writer(|path, text| {
        let temporary = path.with_extension("saving");
        fs::write(&temporary, text).unwrap();
        fs::rename(&temporary, path).unwrap();
    });
}

#[test]
fn a_writer_that_writes_in_place_loses_nothing() {
    beside_a_writer(|path, text| fs::write(path, text).unwrap());
}

#[test]
fn a_writer_that_keeps_its_descriptor_open_loses_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    fs::write(here.join("out"), "before\n").unwrap();
    let mut open = fs::OpenOptions::new().write(true).open(here.join("out")).unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "out", "a"]);
    assert_eq!(fs::read_to_string(here.join("out")).unwrap(), "1\n2\n");
    place.ok(&here, ["sync"]);
    open.rewind().unwrap();
    open.write_all(b"written late to the file that was there").unwrap();
    open.set_len(39).unwrap();
    drop(open);
    place.ok(&here, ["sync"]);
    let all = contents(&here);
    assert!(all.contains(b"written late to the file that was there".as_slice()), "{:?}", snapshot(&here).keys());
    assert_eq!(fs::read_to_string(here.join("out")).unwrap(), "1\n2\n");
}

#[test]
fn two_runs_at_once_both_stand() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    let run = |out: &str| place.command(&here).args(["run", "sort", "--", "-o", out, "a"]).spawn().unwrap();
    let mut children: Vec<_> = ["one", "two", "three", "four"].map(run).into();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["waiting"], 0);
    let matched = report["entries"].as_array().unwrap().iter().filter(|e| e["verdict"] == "matched").count();
    assert_eq!(matched, 4, "{report}");
}

#[test]
fn a_moved_folder_works_and_a_copied_one_takes_an_identity_of_its_own() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    place.ok(&here, ["sync"]);
    let moved = place.path("moved");
    fs::rename(&here, &moved).unwrap();
    place.ok(&moved, ["run", "sort", "--", "-o", "first", "a"]);
    let client = |folder: &Path| place.json(folder, ["log"])["entries"][0]["client"].as_str().unwrap().to_owned();
    let before = client(&moved);
    let copy = place.path("copy");
    assert!(std::process::Command::new("cp").arg("-a").arg(&moved).arg(&copy).status().unwrap().success());
    // Both go on from the same unshipped state.
    place.ok(&moved, ["run", "sort", "--", "-r", "-o", "second", "a"]);
    place.ok(&moved, ["sync"]);
    place.ok(&copy, ["run", "sort", "--", "-u", "-o", "third", "a"]);
    let report = place.json(&copy, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
    place.ok(&moved, ["sync"]);
    assert_eq!(client(&moved), before);
    assert_ne!(client(&copy), before);
    opship_tests::assert_same_tree(&moved, &copy);
    assert!(["first", "second", "third"].iter().all(|name| copy.join(name).exists()));
}

#[test]
fn leaving_keeps_what_a_program_wrote_to_a_displaced_file() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("log"), "b\na\n").unwrap();
    let mut open = fs::OpenOptions::new().append(true).open(here.join("log")).unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "log", "log"]);
    place.ok(&here, ["sync"]);
    open.write_all(b"precious line\n").unwrap();
    place.ok(&here, ["leave"]);
    drop(open);
    assert!(contents(&here).contains(b"b\na\nprecious line\n".as_slice()), "{:?}", snapshot(&here).keys());
}

#[test]
fn who_waits_for_a_folder_is_told_for_whom() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "1\n").unwrap();
    let lock = fs::OpenOptions::new().write(true).open(here.join(".opship/lock")).unwrap();
    lock.lock().unwrap();
    let mut command = place.command(&here);
    let mut waiting = command.arg("sync").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    let told = said.find(|line| line.contains("waiting for")).expect("it says that it waits");
    assert!(told.contains(&format!("process {},", std::process::id())), "{told}");
    lock.unlock().unwrap();
    assert!(waiting.wait().unwrap().success());
    assert!(!place.ok(&here, ["status"]).contains("file"), "it shipped the file when it could");
}
