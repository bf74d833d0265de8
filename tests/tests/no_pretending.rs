//! `matched` means what it says: what did not come out the same, or was not replayed, never gets that verdict.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, first_parked, guest, snapshot, verdicts};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[test]
fn with_replay_disabled_nothing_is_matched_and_nothing_is_lost() {
    let place = Place::new();
    let server = Server::start_with(&place, "data", |command| command.arg("--no-replay"));
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "b\na\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    place.ok(&here, ["run", "gzip", "--", "-k", "sorted"]);
    let report = place.json(&here, ["sync"]);
    let entries = report["entries"].as_array().unwrap();
    let operations: Vec<_> = entries.iter().filter(|entry| entry["kind"] == "operation").collect();
    assert_eq!(operations.len(), 2);
    assert!(operations.iter().all(|entry| entry["verdict"] == "shipped" && entry["reason"] == "policy"), "{report}");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

/// A place with a server and two working copies: `there` has changed `input`, and `here` does not know it yet.
fn stale_input() -> (Place, Server, PathBuf, PathBuf) {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("input", "b\na\n")]);
    fs::write(there.join("input"), "other\n").unwrap();
    place.ok(&there, ["sync"]);
    (place, server, here, there)
}

#[test]
fn an_operation_on_a_stale_input_is_run_again_and_its_own_result_is_kept_on_the_server() {
    let (place, server, here, there) = stale_input();
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    let report = place.json(&here, ["sync"]);
    let operation = report["entries"].as_array().unwrap().iter().find(|e| e["kind"] == "operation").unwrap().clone();
    assert_eq!(
        (operation["verdict"].as_str(), operation["reason"].as_str()),
        (Some("rebased"), Some("inputs-changed"))
    );
    for file in ["input", "output"] {
        assert_eq!(fs::read_to_string(here.join(file)).unwrap(), "other\n");
    }
    let pinned = format!("/v1/workspaces/main/blobs/{}", opship_record::Hash::of(b"a\nb\n"));
    assert_eq!(server.request("GET", &pinned, b""), (200, b"a\nb\n".to_vec()));
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn two_clients_that_change_one_file_keep_both_states() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("notes.txt", "start\n")]);
    fs::write(there.join("notes.txt"), "theirs\n").unwrap();
    place.ok(&there, ["sync"]);
    fs::write(here.join("notes.txt"), "mine\n").unwrap();
    place.ok(&here, ["sync"]);
    assert_eq!(fs::read_to_string(here.join("notes.txt")).unwrap(), "theirs\n");
    assert_kept_beside(&here, "notes", "mine\n");
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn operations_that_do_not_touch_each_other_both_match() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("a", "2\n1\n"), ("b", "4\n3\n")]);
    place.ok(&here, ["run", "sort", "--", "-o", "a.sorted", "a"]);
    place.ok(&there, ["run", "sort", "--", "-o", "b.sorted", "b"]);
    place.ok(&there, ["sync"]);
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_eq!(verdicts(&place, &here).last().unwrap(), "matched");
    assert_eq!(verdicts(&place, &there).last().unwrap(), "matched");
    assert_same_tree(&here, &there);
}

#[test]
fn an_entry_that_needs_a_conflicted_one_is_parked_and_others_go_on() {
    let (place, _server, here, there) = stale_input();
    fs::write(there.join("output"), "theirs").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    place.ok(&here, ["run", "gzip", "--", "-k", "output"]);
    fs::write(here.join("unrelated"), "u").unwrap();
    place.ok(&here, ["sync"]);
    let log = place.json(&here, ["log"]);
    let of = |command: &str| {
        let entries = log["entries"].as_array().unwrap();
        entries.iter().find(|e| e["command"].as_str().unwrap().starts_with(command)).unwrap().clone()
    };
    assert_eq!(of("sort")["verdict"], "conflicted");
    assert_eq!(of("gzip")["parked"], true);
    assert!(here.join("output.gz").exists(), "a parked entry's output stays");
    place.ok(&there, ["sync"]);
    assert!(there.join("unrelated").exists());
}

/// What became of the newest operation, and is nothing to ship?
fn newest_operation(place: &Place, copy: &Path) -> (serde_json::Value, bool) {
    let log = place.json(copy, ["log"]);
    let operation = log["entries"].as_array().unwrap().iter().find(|entry| entry["kind"] == "operation").unwrap();
    (operation.clone(), place.json(copy, ["status"])["pending"] == serde_json::json!([]))
}

#[test]
fn an_operation_on_a_change_of_a_conflicted_result_waits_for_the_decision_and_no_longer() {
    let (place, _server, here, there) = stale_input();
    fs::write(there.join("output"), "theirs").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    fs::set_permissions(here.join("output"), PermissionsExt::from_mode(0o600)).unwrap();
    place.ok(&here, ["run", "gzip", "--", "-k", "output"]);
    for _ in 0..2 {
        place.ok(&here, ["sync"]);
        let (operation, _) = newest_operation(&place, &here);
        assert_eq!((&operation["command"], &operation["parked"]), (&"gzip -k output".into(), &true.into()));
        assert_ne!(operation["waits"], serde_json::json!([]), "{operation}");
    }
    let made = fs::read(here.join("output.gz")).unwrap();
    place.ok(&here, ["drop", &first_parked(&place, &here).unwrap()]);
    for copy in [&here, &there, &here] {
        place.ok(copy, ["sync"]);
    }
    assert_eq!(fs::read(there.join("output.gz")).unwrap(), made);
    assert_same_tree(&here, &there);
    assert!(newest_operation(&place, &here).1);
}

#[test]
fn what_needs_only_the_bytes_of_a_conflicted_result_goes_on() {
    let (place, _server, here, there) = stale_input();
    fs::write(there.join("output"), "theirs").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["run", "sort", "--", "-o", "output", "input"]);
    fs::rename(here.join("output"), here.join("moved")).unwrap();
    place.ok(&here, ["run", "gzip", "--", "-k", "moved"]);
    place.ok(&here, ["sync"]);
    let (operation, is_done) = newest_operation(&place, &here);
    assert_eq!((&operation["command"], &operation["verdict"]), (&"gzip -k moved".into(), &"matched".into()));
    assert!(is_done);
    for copy in [&there, &here] {
        place.ok(copy, ["sync"]);
    }
    assert_eq!(fs::read_to_string(there.join("moved")).unwrap(), "a\nb\n");
    assert_same_tree(&here, &there);
}

#[test]
fn a_run_that_traps_changes_nothing_and_is_not_recorded() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "a").unwrap();
    let before = snapshot(&here);
    let printed = place.run(&here, ["run", guest("treeprobe").to_str().unwrap(), "--", "trap"]);
    assert_eq!(printed.code, Some(125), "{printed}");
    assert_eq!(snapshot(&here), before);
    assert!(verdicts(&place, &here).is_empty());
}

fn assert_kept_beside(folder: &std::path::Path, stem: &str, content: &str) {
    let kept = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(stem) && name.contains("conflict")
    });
    let kept = kept.unwrap_or_else(|| panic!("no conflict copy of {stem} in {:?}", snapshot(folder).keys()));
    assert_eq!(fs::read_to_string(kept).unwrap(), content);
}
