//! Many files and many entries, scaled down: imports that are killed, folders that hold what the server holds, records made
//! offline. `cargo xtask soak import` does the first at full size.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::node::Node;
use opship_record::{TreePath, codec};
use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, noise, point, requests, verdicts};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files in nested folders; gives the sum of their lengths.
fn files(folder: &Path, count: u64, length: usize) -> u64 {
    for n in 0..count {
        let below = folder.join(format!("d{}/e{}", n % 7, n % 11));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{n}")), noise(n, length)).unwrap();
    }
    count * length as u64
}

fn through(place: &Place, directory: &Path, token: &str, arguments: &[&str]) -> Command {
    let mut command = place.command(directory);
    command.args(arguments).env("OPSHIP_TOKEN", token).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Entries of the working copy that have ended.
fn ended(place: &Place, directory: &Path) -> usize {
    verdicts(place, directory).iter().filter(|verdict| *verdict != "pending").count()
}

#[test]
fn an_import_killed_twenty_times_at_both_ends_goes_on_where_it_was() {
    const FILES: u64 = 3000;
    const LENGTH: usize = 1500;
    /// Paths of an entry here.
    const PATHS: u64 = 100;
    /// What is in a request, and so sent again, at most: as much as one request may take first, doubled twice, and the entry
    /// that crosses the mark, with lists and headers.
    const AGAIN: u64 = (512 << 10) + PATHS * (LENGTH as u64 + 300);
    let place = Place::new();
    let mut server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let sum = files(&here, FILES, LENGTH);
    // Slow enough to be met on the way each time.
    let tap = Tap::start_paced(server.authority().parse().unwrap(), 2 << 20).unwrap();
    point(&here, tap.address());
    let token = server.token();
    let sync = || {
        let mut command = through(&place, &here, &token, &["sync"]);
        command.env("OPSHIP_TEST_ENTRY_PATHS", PATHS.to_string());
        command
    };
    let (mut kills, mut done) = (0, 0);
    for round in 0..20u64 {
        let mut child = sync().spawn().unwrap();
        // Killed after so many bytes; the first before there are entries.
        let limit = tap.count().sent + if round == 0 { 0 } else { u64::from(noise(round, 1)[0]) * 1000 };
        let deadline = Instant::now() + Duration::from_secs(120);
        while tap.count().sent < limit && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the sync neither sends nor ends");
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        kills += 1;
        if round % 2 == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            drop(server);
            child.wait().unwrap();
            server = Server::start(&place);
            tap.move_to(server.authority().parse().unwrap());
        }
        let now = ended(&place, &here);
        assert!(now >= done, "{now} entries have ended, and {done} had before");
        done = now;
    }
    println!("{kills} kills, {} bytes sent for {sum}", tap.count().sent);
    assert_eq!(kills, 20, "kills that hit an import at work");
    assert!(sync().status().unwrap().success());

    // 3,000 files in 7 and 77 folders.
    let paths = FILES + 7 + 77;
    let all = verdicts(&place, &here);
    assert!(all.iter().all(|verdict| verdict == "shipped"), "{all:?}");
    assert!(all.len() as u64 >= paths.div_ceil(PATHS), "{} entries", all.len());
    let (status, body) = server.request("GET", "/v1/workspaces/main/versions/head", b"");
    assert_eq!(status, 200);
    let head: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(head["number"], all.len(), "each entry made one version");
    let sent = tap.count().sent;
    assert!(sent < sum * 11 / 10 + kills * AGAIN, "{sent} bytes sent for {sum}, with {kills} kills");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

/// Files that a version holds and the head does not, and the other way round.
fn files_on_the_move(server: &Server, version: usize) -> (usize, usize) {
    let (status, body) = server.request("GET", &format!("/v1/workspaces/main/changes?from={version}"), b"");
    assert_eq!(status, 200);
    let mut rest = &body[codec::item_length(&body).unwrap().unwrap()..];
    let (mut going, mut coming) = (0, 0);
    while let Some(length) = codec::item_length(rest).unwrap() {
        let (path, node): (TreePath, Option<Node>) = codec::decode(&rest[..length], "change").unwrap();
        rest = &rest[length..];
        let is_file = path.name().unwrap().bytes().all(|byte| byte.is_ascii_digit()) && path.components().count() > 2;
        match node {
            None if is_file => going += 1,
            Some(Node::File { .. }) => coming += 1,
            _ => {}
        }
    }
    (going, coming)
}

#[test]
fn a_rename_across_a_cut_sends_no_content_and_is_never_nowhere() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let sum = files(&here, 300, 3000);
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    fs::create_dir(here.join("new")).unwrap();
    for n in 0..7 {
        fs::rename(here.join(format!("d{n}")), here.join(format!("new/{n}"))).unwrap();
    }
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    point(&here, tap.address());
    let mut sync = through(&place, &here, &server.token(), &["sync"]);
    assert!(sync.env("OPSHIP_TEST_ENTRY_PATHS", "100").status().unwrap().success());
    assert!(tap.count().total() < sum / 5, "{:?} for {sum} bytes that were renamed", tap.count());
    let all = verdicts(&place, &here);
    assert!(all.len() >= 7 && all.iter().all(|verdict| verdict == "shipped"), "{all:?}");
    // Between the first version and the last: as many files as are still to come are where they were.
    for version in 1..=all.len() {
        let (going, coming) = files_on_the_move(&server, version);
        assert!(going >= coming, "version {version}: {going} where they were, {coming} to come");
    }
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    let there = place.path("there");
    point(&there, tap.address());
    assert!(through(&place, &there, &server.token(), &["sync"]).status().unwrap().success());
    assert!(tap.count().total() < sum / 5, "{:?} for {sum} bytes that are there", tap.count());
    assert_same_tree(&here, &there);
}

#[test]
fn a_folder_that_holds_what_the_server_holds_costs_hashes_only() {
    const FILES: u64 = 1000;
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let sum = files(&here, FILES, 3000);
    std::os::unix::fs::symlink("d0", here.join("link")).unwrap();
    place.ok(&here, ["sync"]);

    // Most of it, with other times, one file that differs, one of its own.
    let there = place.folder("there");
    files(&there, FILES - 1, 3000);
    std::os::unix::fs::symlink("d0", there.join("link")).unwrap();
    fs::write(there.join("d0/e0/0"), "of this folder").unwrap();
    fs::write(there.join("own"), "only here").unwrap();
    place.ok(&there, ["init", "--server", &server.url(), "--workspace", "main"]);
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    point(&there, tap.address());
    assert!(through(&place, &there, &server.token(), &["sync"]).status().unwrap().success());
    assert!(tap.count().total() < sum / 20, "{:?} for {sum} bytes on both sides", tap.count());

    // Nothing was written over: what differed stands beside, and the workspace's own stays.
    assert_eq!(fs::read(there.join("d0/e0/0")).unwrap(), noise(0, 3000));
    let beside: Vec<_> = fs::read_dir(there.join("d0/e0")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let own = beside.iter().find(|path| path.to_string_lossy().contains("(conflict")).expect("a conflict copy");
    assert_eq!(fs::read(own).unwrap(), b"of this folder");
    assert_eq!(fs::read(there.join("own")).unwrap(), b"only here");
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn records_made_offline_travel_in_a_few_requests() {
    const RECORDS: usize = 60;
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("data"), "b\na\n").unwrap();
    place.ok(&here, ["sync"]);
    for n in 0..RECORDS {
        // Every third depends on the one before it.
        let from = if n % 3 == 0 { "data".to_owned() } else { format!("out{}", n - 1) };
        place.ok(&here, ["run", "sort", "-o", &format!("out{n}"), "--", &from]);
    }
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    point(&here, tap.address());
    assert!(through(&place, &here, &server.token(), &["sync"]).status().unwrap().success());
    let requests = requests(&tap);
    assert!(requests.len() <= 2, "{requests:?}");
    let all = verdicts(&place, &here);
    assert_eq!(all.iter().filter(|verdict| *verdict == "matched").count(), RECORDS, "{all:?}");
}
