//! Files that are written to while they are shipped: they keep nothing back, and are not sent again and again.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::Hash;
use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, noise, point, run_through, until};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of the file that is written to: more than is read at once before it is sent.
const LENGTH: u64 = 5 << 20;
/// Bytes a second on the link: reading the file takes much less than sending it.
const RATE: u64 = 2 << 20;

/// A program that writes to a file until it is told to stop.
struct Writer {
    stop: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(file: File, pause: Duration, mut write: impl FnMut(&File, u64) + Send + 'static) -> Writer {
        let (stop, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), writes.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                write(&file, count.fetch_add(1, Ordering::Relaxed));
                std::thread::sleep(pause);
            }
        });
        Writer { stop, writes, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.writes.load(Ordering::Relaxed)
    }
}

fn notes(folder: &Path) -> PathBuf {
    for n in 0..3 {
        fs::write(folder.join(format!("note {n}")), format!("note {n}")).unwrap();
    }
    folder.join("note 2")
}

fn stored_uploads(server: &Server) -> usize {
    fs::read_dir(server.data().join("uploads")).map_or(0, Iterator::count)
}

/// A working copy with a large new file, three notes and a slow link to the server.
fn beside_notes() -> (Place, Server, PathBuf, Tap) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("log"), noise(1, LENGTH as usize)).unwrap();
    notes(&here);
    let tap = Tap::start_paced(server.authority().parse().unwrap(), RATE).unwrap();
    (place, server, here, tap)
}

fn clone(place: &Place, server: &Server) -> PathBuf {
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    place.path("there")
}

#[test]
fn a_file_that_grows_is_shipped_as_it_was_found_once_and_notes_beside_it_arrive() {
    let (place, server, here, tap) = beside_notes();
    let log = OpenOptions::new().append(true).open(here.join("log")).unwrap();
    let line = b"a line of a log that somebody writes all the time\n";
    let writer = Writer::start(log, Duration::from_millis(10), move |mut file, _| file.write_all(line).unwrap());
    run_through(&place, &tap, &server, &here, &["sync"]);
    assert!(writer.stop() > 2, "nobody wrote meanwhile");
    let sent = tap.count().sent;
    assert!(sent < LENGTH * 3 / 2, "{sent} bytes for a file of {LENGTH}");
    let there = clone(&place, &server);
    assert!(there.join("note 2").exists());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    File::open(here.join("log")).unwrap().read_to_end(&mut ours).unwrap();
    File::open(there.join("log")).unwrap().read_to_end(&mut theirs).unwrap();
    assert!(theirs.len() as u64 >= LENGTH && ours.starts_with(&theirs));
    assert_eq!(stored_uploads(&server), 0);
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn a_file_that_is_written_over_again_and_again_keeps_nothing_back_and_is_sent_twice_at_most() {
    let (place, server, here, tap) = beside_notes();
    let file = OpenOptions::new().write(true).open(here.join("log")).unwrap();
    let writer = Writer::start(file, Duration::from_millis(60), |file, n| {
        file.write_all_at(&noise(n, 4096), LENGTH - 8192).unwrap();
    });
    point(&here, tap.address());
    let output = place.command(&here).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(writer.stop() > 2, "nobody wrote meanwhile");
    let sent = tap.count().sent;
    assert!(sent < LENGTH * 5 / 2, "{sent} bytes for a file of {LENGTH}: {shown}");
    assert!(!shown.contains("content "), "{shown}");
    assert_eq!(stored_uploads(&server), 0, "{shown}");
    let there = clone(&place, &server);
    assert!(there.join("note 2").exists(), "{shown}");
    point(&here, server.authority().parse().unwrap());
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn a_file_that_changes_even_while_it_is_copied_keeps_nothing_back_and_arrives_once_it_rests() {
    let (place, server, here, tap) = beside_notes();
    let file = OpenOptions::new().write(true).open(here.join("log")).unwrap();
    let writer = Writer::start(file, Duration::ZERO, |file, n| {
        file.write_all_at(&n.to_le_bytes(), n.wrapping_mul(4096) % LENGTH).unwrap();
    });
    point(&here, tap.address());
    let mut command = place.command(&here);
    let sync = command.arg("sync").env("OPSHIP_TOKEN", server.token());
    // Somebody ends the first one on its way, and a later one when it has just set the file apart.
    let mut first = sync.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the upload's beginning", || tap.count().sent > 256 << 10 || first.try_wait().unwrap().is_some());
    let _ = first.kill();
    first.wait().unwrap();
    point(&here, server.authority().parse().unwrap());
    sync.stdout(Stdio::piped()).stderr(Stdio::piped());
    sync.env("OPSHIP_FAILPOINT", "set-apart");
    until("a file that is set apart", || sync.output().unwrap().status.code().is_none());
    sync.env_remove("OPSHIP_FAILPOINT");
    let note = format!("/v1/workspaces/main/blobs/{}", Hash::of(b"note 2"));
    until("the notes, while the file is still written to, which is told", || {
        let output = sync.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        let told = shown.contains("'log' ") && shown.contains("let the program that writes it finish, then sync again");
        assert_eq!(output.status.code(), Some(i32::from(told)), "{shown}");
        told && server.request("GET", &note, b"").0 == 200
    });
    let log = place.json(&here, ["log"]);
    let open = |entry: &&serde_json::Value| entry["verdict"].is_null();
    let waiting: Vec<_> = log["entries"].as_array().unwrap().iter().filter(open).collect();
    assert!(waiting.len() <= 1, "{log}");
    writer.stop();
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &clone(&place, &server));
    // What the first sync had begun is of a state that nobody asks for again: the server drops it when it is old.
    assert!(stored_uploads(&server) <= 1);
}
