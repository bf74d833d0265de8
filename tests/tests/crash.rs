//! Killed at a named point, each end recovers to a consistent state, and both become equal.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, verdicts};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SORTED: &str = "a\nb\nc\n";

fn prepare(place: &Place, server: &Server) -> std::path::PathBuf {
    let here = place.init(server, "here", "main");
    fs::write(here.join("input"), "c\nb\na\n").unwrap();
    fs::write(here.join("output"), "what was there before\n").unwrap();
    here
}

/// After a kill: whatever the state, running again and syncing gives the same tree on both ends, and nothing is lost.
fn recover(place: &Place, server: &Server, here: &Path) {
    let status = place.json(here, ["status"]);
    assert!(status["unsupported"].as_array().unwrap().is_empty(), "{status}");
    let output = fs::read_to_string(here.join("output")).unwrap();
    assert!(output == SORTED || output == "what was there before\n", "a half-written output: {output:?}");
    assert_eq!(fs::read_to_string(here.join("input")).unwrap(), "c\nb\na\n");
    place.ok(here, ["run", "sort", "--", "-o", "output", "input"]);
    let report = place.json(here, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
    assert!(verdicts(place, here).iter().all(|v| v == "matched" || v == "shipped"), "{:?}", verdicts(place, here));
    assert_eq!(fs::read_to_string(here.join("output")).unwrap(), SORTED);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(here, &place.path("there"));
    let left: Vec<_> = fs::read_dir(here.join(".opship/staging")).unwrap().collect();
    assert!(left.is_empty(), "staging holds {left:?}");
}

fn client_killed_at(point: &str) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = prepare(&place, &server);
    let killed = place
        .command(&here)
        .args(["run", "sort", "--", "-o", "output", "input"])
        .env("OPSHIP_FAILPOINT", point)
        .output()
        .unwrap();
    assert_eq!(
        killed.status.code(),
        None,
        "the client was not killed at {point}: {}",
        String::from_utf8_lossy(&killed.stderr)
    );
    recover(&place, &server, &here);
}

fn server_killed_at(point: &str) {
    let place = Place::new();
    // Set up first: a server commits its own things at its first start.
    let server = Server::start(&place);
    let here = prepare(&place, &server);
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    let address = server.authority();
    assert!(server.stop().success());
    let mut server = Server::start_with(&place, "data", |command| {
        command.args(["--listen", &address]).env("OPSHIP_FAILPOINT", point)
    });
    let cut = place.run(&here, ["sync"]);
    assert_eq!(cut.code, Some(125), "{cut}");
    assert_eq!(server.wait().code(), None, "the server was not killed at {point}");
    let server = Server::start_with(&place, "data", |command| command.args(["--listen", &address]));
    recover(&place, &server, &here);
}

#[test]
fn client_after_capturing() {
    client_killed_at("captured");
}

#[test]
fn client_after_staging() {
    client_killed_at("staged");
}

#[test]
fn client_after_the_intent() {
    client_killed_at("intent");
}

#[test]
fn client_between_exchanges() {
    client_killed_at("exchange-0");
}

#[test]
fn client_after_the_exchanges() {
    client_killed_at("exchanged");
}

#[test]
fn client_after_appending() {
    client_killed_at("appended");
}

#[test]
fn server_after_receiving() {
    server_killed_at("server-received");
}

#[test]
fn server_after_the_replay() {
    server_killed_at("server-replayed");
}

#[test]
fn server_before_the_commit() {
    server_killed_at("storage-commit");
}

#[test]
fn server_after_the_commit() {
    server_killed_at("storage-committed");
}

#[test]
fn server_before_the_answer() {
    server_killed_at("server-committed");
}

/// The same key twice is the same entry: a lost answer makes no second version.
#[test]
fn a_lost_answer_repeats_nothing() {
    let place = Place::new();
    let mut server = Server::start_with(&place, "data", |command| command.env("OPSHIP_FAILPOINT", "server-committed"));
    let here = place.init(&server, "here", "main");
    fs::write(here.join("input"), "c\nb\na\n").unwrap();
    assert_eq!(place.run(&here, ["sync"]).code, Some(125));
    server.wait();
    let address = server.authority();
    let _server = Server::start_with(&place, "data", |command| command.args(["--listen", &address]));
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["pulled"]["version"], 1, "{report}");
    assert_eq!(verdicts(&place, &here), ["shipped"]);
}

/// What was pulled before the kill may be undone by another before the next sync.
#[test]
fn a_pull_that_was_cut_off_misses_nothing_that_came_later() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("a", "a")]);
    fs::create_dir(here.join("d")).unwrap();
    fs::write(here.join("d/f"), "f").unwrap();
    fs::write(here.join("a"), "b").unwrap();
    place.ok(&here, ["sync"]);
    let killed = place.command(&there).arg("sync").env("OPSHIP_FAILPOINT", "appended").output().unwrap();
    assert_eq!(killed.status.code(), None, "{}", String::from_utf8_lossy(&killed.stderr));
    fs::remove_dir_all(here.join("d")).unwrap();
    fs::write(here.join("a"), "a").unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_eq!(fs::read_to_string(there.join("a")).unwrap(), "a");
    assert!(!there.join("d").exists());
    assert!(verdicts(&place, &there).is_empty(), "a client that only pulls ships nothing");
    place.ok(&here, ["sync"]);
    let same = |folder: &Path| opship_tests::snapshot(folder).into_keys().collect::<Vec<_>>();
    assert_eq!(same(&here), same(&there));
}

/// A value behind a conflicted operation changes a file that another changed too, and then removes.
fn settling_killed_at(point: &str) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = prepare(&place, &server);
    fs::remove_file(here.join("output")).unwrap();
    fs::write(here.join("other"), "other\n").unwrap();
    place.ok(&here, ["sync"]);
    let there = place.there(&server);
    fs::write(there.join("input"), "theirs\n").unwrap();
    fs::write(there.join("output"), "theirs\n").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    fs::set_permissions(here.join("output"), PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(here.join("input"), "mine\n").unwrap();
    let killed = place.command(&here).arg("sync").env("OPSHIP_FAILPOINT", point).output().unwrap();
    assert_eq!(killed.status.code(), None, "not killed at {point}: {}", String::from_utf8_lossy(&killed.stderr));
    fs::remove_file(there.join("input")).unwrap();
    fs::write(there.join("other"), "theirs, too\n").unwrap();
    place.ok(&there, ["sync"]);
    fs::write(here.join("other"), "mine, too\n").unwrap();
    for copy in [&here, &there, &here] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    let texts: Vec<String> =
        fs::read_dir(&there).unwrap().filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).collect();
    assert!(["mine\n", "mine, too\n"].iter().all(|mine| texts.iter().any(|text| text == mine)), "{texts:?}");
}

#[test]
fn client_settling_after_the_copies() {
    settling_killed_at("settle-copied");
}

#[test]
fn client_settling_after_what_stays() {
    settling_killed_at("settle-assumed");
}

#[test]
fn client_settling_before_what_comes() {
    settling_killed_at("settle-noted");
}

/// Something is made where an exchange that was cut short is about to make a folder, and finishing that is cut short too.
#[test]
fn client_between_setting_something_aside_and_putting_it_beside() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[]);
    fs::create_dir(there.join("folder")).unwrap();
    fs::write(there.join("folder/file"), "theirs\n").unwrap();
    place.ok(&there, ["sync"]);
    let killed_at = |point: &str| {
        let killed = place.command(&here).arg("sync").env("OPSHIP_FAILPOINT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "not killed at {point}: {}", String::from_utf8_lossy(&killed.stderr));
    };
    killed_at("intent");
    fs::write(here.join("folder"), "made here\n").unwrap();
    killed_at("exchange-aside");
    for copy in [&here, &there] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    assert_eq!(fs::read_to_string(there.join("folder/file")).unwrap(), "theirs\n");
    let beside = fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<String> = beside.filter_map(|path| fs::read_to_string(path).ok()).collect();
    assert_eq!(texts, ["made here\n"], "what stood in the place of the folder");
}
