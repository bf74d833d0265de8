//! A layer that records file operations shows the order in which they become durable: data, directory, then the
//! transaction. `strace` is that layer.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::Place;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a program asked of the file system, in order.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// A file or folder became durable: noted when the call came back.
    Synced(String),
    /// A name changed: noted when the call was made.
    Renamed { from: String, to: String, exchange: bool },
    /// Bytes were written: noted when the call was made.
    Wrote { path: String, bytes: Vec<u8> },
}

const CALLS: &str = "trace=fsync,fdatasync,rename,renameat,renameat2,linkat,pwrite64,write";

/// The command, watched. `None` where there is no strace and nobody insists (`OPSHIP_REQUIRE_ALL`).
fn watched(command: &Command, trace: &Path) -> Option<Command> {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    assert!(there || std::env::var_os("OPSHIP_REQUIRE_ALL").is_none(), "strace is missing; install it");
    let mut watched = Command::new("strace");
    watched.args(["-f", "-y", "-s", "8192", "-e", CALLS, "-o"]).arg(trace).arg("--");
    watched.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    watched.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => watched.env(name, value),
            None => watched.env_remove(name),
        };
    }
    there.then_some(watched)
}

fn events(trace: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    let mut unfinished: BTreeMap<String, String> = BTreeMap::new();
    for line in fs::read_to_string(trace).unwrap().lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let is_sync = |call: &str| call.starts_with("fsync(") || call.starts_with("fdatasync(");
        if let Some(resumed) = call.strip_prefix("<... ") {
            // Only what was synced counts when it ends; the rest was noted when it began.
            if let Some(begun) = unfinished.remove(process).filter(|begun| is_sync(begun) && resumed.ends_with("= 0")) {
                events.push(Event::Synced(descriptors(&begun)[0].clone()));
            }
        } else if is_sync(call) {
            match call.strip_suffix(" <unfinished ...>") {
                Some(begun) => drop(unfinished.insert(process.to_owned(), begun.to_owned())),
                None => events.extend(call.ends_with("= 0").then(|| Event::Synced(descriptors(call)[0].clone()))),
            }
        } else {
            if call.ends_with("<unfinished ...>") {
                unfinished.insert(process.to_owned(), call.to_owned());
            }
            events.extend(changed(call));
        }
    }
    events
}

fn changed(call: &str) -> Option<Event> {
    let (name, _) = call.split_once('(')?;
    let strings = strings(call);
    let folders = descriptors(call);
    let text = |at: usize| String::from_utf8(strings.get(at)?.clone()).ok();
    let below = |at: usize| {
        let name = text(at)?;
        let absolute = name.starts_with('/') || folders.get(at).is_none();
        Some(if absolute { name } else { format!("{}/{name}", folders[at]) })
    };
    match name {
        "rename" => Some(Event::Renamed { from: text(0)?, to: text(1)?, exchange: false }),
        "renameat" | "renameat2" | "linkat" => {
            Some(Event::Renamed { from: below(0)?, to: below(1)?, exchange: call.contains("RENAME_EXCHANGE") })
        }
        "write" | "pwrite64" => Some(Event::Wrote { path: folders.first()?.clone(), bytes: strings.first()?.clone() }),
        _ => None,
    }
}

/// The paths that strace shows behind descriptors, outside of strings.
fn descriptors(call: &str) -> Vec<String> {
    let outside: String = call.split('"').step_by(2).collect();
    let found = outside.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    found.map(|(path, _)| path.to_owned()).filter(|path| path.starts_with('/')).collect()
}

/// The strings among the arguments.
fn strings(call: &str) -> Vec<Vec<u8>> {
    let (mut found, mut rest) = (Vec::new(), call.as_bytes());
    while let Some(start) = rest.iter().position(|byte| *byte == b'"') {
        rest = &rest[start + 1..];
        let mut string = Vec::new();
        while let Some((byte, after)) = unescaped(rest) {
            string.push(byte);
            rest = after;
        }
        rest = rest.get(1..).unwrap_or_default();
        found.push(string);
    }
    found
}

/// The next byte of a string as strace writes it, and what is behind it; `None` at the end.
fn unescaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    match first {
        b'"' => return None,
        b'\\' => {}
        _ => return Some((*first, rest)),
    }
    let digits = rest.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    if digits > 0 {
        let octal = rest[..digits].iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        return Some((u8::try_from(octal).unwrap(), &rest[digits..]));
    }
    let (letter, rest) = rest.split_first()?;
    let byte = match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'f' => 0x0c,
        other => *other,
    };
    Some((byte, rest))
}

/// Where the first event after `from` is that fits.
fn first(events: &[Event], from: usize, fits: impl Fn(&Event) -> bool) -> Option<usize> {
    (from..events.len()).find(|at| fits(&events[*at]))
}

fn syncs_of<'a>(path: &'a str) -> impl Fn(&Event) -> bool + 'a {
    move |event| matches!(event, Event::Synced(synced) if synced == path)
}

/// Writes to the write-ahead log that name this content.
fn names(event: &Event, log: &str, hash: &blake3::Hash) -> bool {
    matches!(event, Event::Wrote { path, bytes } if path == log && bytes.windows(32).any(|w| w == hash.as_bytes()))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

fn noise(lines: u64) -> String {
    (0..lines).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

#[test]
fn at_the_server_a_blob_is_durable_before_the_transaction_that_names_it() {
    let place = Place::new();
    let trace = place.path("trace");
    let mut serve = place.command(&place.path(""));
    serve.args(["serve", "--data"]).arg(place.path("data")).env("OPSHIP_LISTEN", "127.0.0.1:0");
    let Some(mut watched) = watched(&serve, &trace) else { return };
    let mut child = watched.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first_line = lines.next().unwrap().unwrap();
    let url = first_line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{first_line}")).to_owned();
    std::thread::spawn(move || lines.for_each(drop));

    let here = place.folder("here");
    place.ok(&here, ["init", "--server", &url, "--workspace", "main"]);
    let text = noise(5000);
    fs::write(here.join("large"), &text).unwrap();
    place.ok(&here, ["sync"]);
    // strace ends with what it watches.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let server: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(server).unwrap(), Signal::TERM).unwrap();
    child.wait().unwrap();

    let (events, hash) = (events(&trace), blake3::hash(text.as_bytes()));
    let data = fs::canonicalize(place.path("data")).unwrap().to_str().unwrap().to_owned();
    let log = format!("{data}/metadata.db-wal");
    let named = first(&events, 0, |event| names(event, &log, &hash)).expect("a transaction names it");
    let packs = format!("{data}/packs/");
    let in_pack = |event: &Event| match event {
        Event::Wrote { path, .. } if path.starts_with(&packs) => Some(path.clone()),
        _ => None,
    };
    let written = (0..named).rev().find(|at| in_pack(&events[*at]).is_some()).expect("its chunks went to a pack");
    let pack = in_pack(&events[written]).unwrap();
    let bytes = first(&events, written, syncs_of(&pack)).expect("the pack was synced");
    for folder in [parent(&pack), packs.trim_end_matches('/'), &data] {
        let folder = first(&events, 0, syncs_of(folder)).unwrap_or_else(|| panic!("{folder} was synced"));
        assert!(folder < named, "{folder} {named}");
    }
    first(&events, named, syncs_of(&log)).expect("the transaction was synced");
    assert!(written < bytes && bytes < named, "{written} {bytes} {named}");
}

#[test]
fn at_the_client_outputs_are_durable_before_the_intent_and_exchanged_before_the_entry() {
    let place = Place::new();
    let server = opship_tests::Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("input"), noise(500)).unwrap();
    fs::write(here.join("output"), "what was there before\n").unwrap();
    // The module is compiled and its name pinned.
    place.ok(&here, ["run", "sort", "--", "-o", "other", "input"]);
    let trace = place.path("trace");
    let mut run = place.command(&here);
    run.args(["run", "sort", "--", "-o", "output", "input"]);
    let Some(mut watched) = watched(&run, &trace) else { return };
    assert!(watched.status().unwrap().success());

    let events = events(&trace);
    let root = fs::canonicalize(&here).unwrap().to_str().unwrap().to_owned();
    let log = format!("{root}/.opship/state.db-wal");
    let is_exchange = |event: &Event| matches!(event, Event::Renamed { exchange: true, .. });
    let exchanged = first(&events, 0, is_exchange).expect("the output was exchanged");
    let Event::Renamed { from, to, .. } = &events[exchanged] else { unreachable!() };
    assert_eq!(*to, format!("{root}/output"));
    let hash = blake3::hash(&fs::read(here.join("output")).unwrap());
    let bytes = first(&events, 0, syncs_of(from)).expect("the staged bytes were synced");
    let slot = first(&events, bytes, syncs_of(parent(from))).expect("their folder was synced");
    let named = first(&events, 0, |event| names(event, &log, &hash)).expect("the intent names the output");
    let intent = first(&events, named, syncs_of(&log)).expect("the intent was synced");
    assert!(slot < named && intent < exchanged, "{bytes} {slot} {named} {intent} {exchanged}");
    let folder = first(&events, exchanged, syncs_of(&root)).expect("the folder of the output was synced");
    let appended = |event: &Event| matches!(event, Event::Wrote { path, .. } if *path == log);
    let appended = first(&events, exchanged, appended).expect("the entry was appended");
    first(&events, appended, syncs_of(&log)).expect("the entry was synced");
    assert!(folder < appended, "{folder} {appended}");
}
