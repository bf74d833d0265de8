//! What an entry had recorded and a later one replaced is still somebody's, also when the entry is taken out of the log.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, first_parked, snapshot};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Two working copies of one workspace that holds `f`, its text and version 1.
struct Two {
    place: Place,
    server: Server,
    here: PathBuf,
    there: PathBuf,
}

fn two() -> Two {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("f", "pear\napple\n")]);
    Two { place, server, here, there }
}

impl Two {
    fn write(&self, text: &str) {
        fs::write(self.here.join("f"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) {
        self.place.ok(&self.here, ["run"].iter().chain(arguments));
    }

    fn sort(&self) {
        self.run(&["sort", "--", "-u", "-k1,1", "-o", "f", "f"]);
    }

    /// Another changes `f`, and all come together; `drop`: the entries to take out of the log at the end.
    fn another_changes_it(&self) {
        fs::write(self.there.join("f"), "by another\n").unwrap();
        self.place.ok(&self.there, ["sync"]);
        self.place.ok(&self.here, ["sync"]);
    }

    fn come_together(&self) {
        while let Some(parked) = first_parked(&self.place, &self.here) {
            self.place.ok(&self.here, ["drop", &parked]);
        }
        for copy in [&self.here, &self.there, &self.here, &self.there] {
            self.place.ok(copy, ["sync"]);
        }
        assert_same_tree(&self.here, &self.there);
        assert_eq!(self.place.json(&self.here, ["status"])["pending"], serde_json::json!([]));
    }

    /// Is a text in the tree or the history?
    fn is_kept(&self, text: &str) -> bool {
        let path = format!("/v1/workspaces/main/blobs/{}", opship_record::Hash::of(text.as_bytes()));
        let is_text = |name: String| fs::read(self.here.join(name)).is_ok_and(|found| found == text.as_bytes());
        self.server.request("GET", &path, b"").0 == 200 || snapshot(&self.here).into_keys().any(is_text)
    }

    /// The texts are in the tree, whatever the names.
    fn all_are_there(&self, texts: &[&str]) {
        let there: BTreeSet<String> = snapshot(&self.there)
            .into_keys()
            .filter_map(|name| fs::read_to_string(self.there.join(name)).ok())
            .collect();
        for text in texts {
            assert!(there.contains(*text), "{text:?} is lost; there are {there:?}");
        }
    }
}

#[test]
fn an_edit_between_two_operations_on_a_file_that_another_changes() {
    let two = two();
    two.write("pear\napple\nbeetroot\n");
    two.sort();
    two.write("axolotl\napple\naxolotl again\n");
    two.sort();
    two.write("last\n");
    two.another_changes_it();
    two.come_together();
    two.all_are_there(&["pear\napple\nbeetroot\n", "axolotl\napple\naxolotl again\n", "last\n", "by another\n"]);
}

#[test]
fn the_same_where_the_entries_are_dropped_before_a_sync() {
    let two = two();
    for text in ["c\na\n", "d\nb\n", "e\nc\n"] {
        two.write(text);
        two.sort();
    }
    let first = two.place.json(&two.here, ["log"])["entries"].as_array().unwrap().last().unwrap()["number"].to_string();
    // All wait for the first change of the file, which has been shipped; the next is what can be dropped.
    let next = (first.parse::<u64>().unwrap() + 1).to_string();
    two.place.ok(&two.here, ["drop", &next]);
    two.come_together();
    two.all_are_there(&["c\na\n", "d\nb\n", "e\nc\n"]);
}

#[test]
fn an_edit_that_a_restore_replaced() {
    let two = two();
    two.write("mine\n");
    two.place.ok(&two.here, ["restore", "f", "--version", "1"]);
    two.write("mine, later\n");
    two.another_changes_it();
    two.come_together();
    two.all_are_there(&["mine\n", "mine, later\n", "by another\n"]);
}

#[test]
fn an_edit_of_what_was_compressed_again() {
    let two = two();
    for text in ["first\n", "second\n", "third\n"] {
        two.write(text);
        two.run(&["gzip", "--", "-kf", "f"]);
    }
    two.another_changes_it();
    two.come_together();
    two.all_are_there(&["first\n", "second\n", "third\n", "by another\n"]);
}

#[test]
fn a_file_that_was_moved_with_its_folder_after_it_was_edited() {
    let two = two();
    fs::create_dir(two.here.join("d")).unwrap();
    fs::write(two.here.join("d/g"), "start\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.here.join("d/g"), "edited\n").unwrap();
    two.run(&["gzip", "--", "-kf", "d/g"]);
    two.run(&[opship_tests::guest("treeprobe").to_str().unwrap(), "--", "mv", "d", "e"]);
    fs::write(two.there.join("d/g"), "by another\n").unwrap();
    two.place.ok(&two.there, ["sync"]);
    two.place.ok(&two.here, ["sync"]);
    two.come_together();
    two.all_are_there(&["edited\n", "by another\n"]);
}

#[test]
fn what_is_in_the_way_of_a_restore_is_what_stands_there_now() {
    let two = two();
    fs::remove_file(two.here.join("f")).unwrap();
    let told = two.place.json(&two.here, ["restore", "f", "--version", "1", "--dry-run"]);
    assert_eq!(told["paths"], serde_json::json!(["f"]));
    two.place.ok(&two.here, ["restore", "f", "--version", "1"]);
    assert_eq!(fs::read_to_string(two.here.join("f")).unwrap(), "pear\napple\n");
    two.write("an edit\n");
    two.place.ok(&two.here, ["restore", "f", "--version", "1"]);
    assert_eq!(fs::read_to_string(two.here.join("f")).unwrap(), "pear\napple\n");
    two.come_together();
    let edit = opship_record::Hash::of(b"an edit\n");
    let (status, _) = two.server.request("GET", &format!("/v1/workspaces/main/blobs/{edit}"), b"");
    assert_eq!(status, 200, "the edit is in the history");
}

#[test]
fn what_cannot_be_shipped_is_told_by_the_exit_code_and_keeps_nothing_else_back() {
    let two = two();
    two.write("captured\n");
    two.run(&["gzip", "--", "-kf", "f"]);
    two.write("later\n");
    for kept in fs::read_dir(two.here.join(".opship/kept")).unwrap() {
        fs::remove_file(kept.unwrap().path()).unwrap();
    }
    let printed = two.place.run(&two.here, ["sync", "--json"]);
    assert_eq!(printed.code, Some(1), "{printed}");
    let report: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let failed = |entry: &&serde_json::Value| entry["failed"] == true;
    let failed: Vec<_> = report["entries"].as_array().unwrap().iter().filter(failed).collect();
    assert!(failed[0]["detail"].as_str().unwrap().contains("'f'"), "{report}");

    // What comes later does not wait with it, also where both are found at once.
    two.write("later still\n");
    for unrelated in ["one", "two"] {
        fs::write(two.here.join(unrelated), "goes on\n").unwrap();
        assert_eq!(two.place.run(&two.here, ["sync"]).code, Some(1));
        two.place.ok(&two.there, ["sync"]);
        assert!(two.there.join(unrelated).exists(), "{unrelated}");
    }

    two.write("captured\n");
    two.place.ok(&two.here, ["sync"]);
    two.write("later\n");
    two.come_together();
    two.all_are_there(&["later\n"]);
}

/// Operation 3 is parked: another has changed what the value before it changed.
fn parked(program: &[&str]) -> Two {
    let two = two();
    let config = two.place.folder("home/config/opship").join("config.toml");
    fs::write(config, "[native]\nsort = { program = \"sort\", module = \"sort\" }\n").unwrap();
    for (name, text) in [("g", "x\n"), ("p", "1\n"), ("q", "b\n")] {
        fs::write(two.here.join(name), text).unwrap();
    }
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.there.join("p"), "theirs\n").unwrap();
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.here.join("p"), "mine\n").unwrap();
    two.run(program);
    two
}

const MERGED: &str = "b\nmine\n";

#[test]
fn what_a_native_run_replaced_of_an_operation_that_is_dropped() {
    let two = parked(&["sort", "--", "-o", "out", "p", "q"]);
    two.run(&["--native", "sort", "--", "-o", "out", "g"]);
    two.place.ok(&two.here, ["sync"]);
    two.come_together();
    two.all_are_there(&[MERGED, "mine\n", "theirs\n"]);
}

#[test]
fn what_a_restore_replaced_of_an_operation_that_is_dropped_later() {
    let two = parked(&["sort", "--", "-o", "g", "p", "q"]);
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.here, ["restore", "g", "--version", "2"]);
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.here, ["sync"]);
    two.come_together();
    two.all_are_there(&[MERGED, "x\n", "mine\n", "theirs\n"]);
}

#[test]
fn what_was_moved_from_an_operation_that_is_dropped_and_then_replaced() {
    for sync_between in [false, true] {
        let two = parked(&["sort", "--", "-o", "out", "p", "q"]);
        if sync_between {
            two.place.ok(&two.here, ["sync"]);
        }
        fs::rename(two.here.join("out"), two.here.join("f")).unwrap();
        two.run(&["sort", "--", "-o", "f", "g"]);
        two.place.ok(&two.here, ["sync"]);
        two.come_together();
        two.all_are_there(&["mine\n", "theirs\n"]);
        assert!(two.is_kept(MERGED), "{MERGED:?} is lost");
    }
}

#[test]
fn what_was_written_over_the_result_of_a_parked_operation_goes_on() {
    let two = parked(&["sort", "--", "-o", "out", "p", "q"]);
    two.place.ok(&two.here, ["sync"]);
    fs::write(two.here.join("out"), "by hand\n").unwrap();
    fs::write(two.here.join("q"), "another q\n").unwrap();
    fs::copy(two.here.join("p"), two.here.join("copy of p")).unwrap();
    fs::write(two.here.join("new"), "unrelated\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    for (name, text) in [("out", "by hand\n"), ("q", "another q\n"), ("new", "unrelated\n")] {
        assert_eq!(fs::read_to_string(two.there.join(name)).unwrap_or_default(), text, "{name}");
    }
    // Syncs with nothing new make nothing new.
    let entries = || two.place.json(&two.here, ["log", "-n", "1000"])["entries"].as_array().unwrap().len();
    let before = entries();
    two.place.ok(&two.here, ["sync"]);
    assert_eq!(entries(), before);
    assert!(first_parked(&two.place, &two.here).is_some());
    two.come_together();
    two.all_are_there(&["by hand\n", "mine\n", "theirs\n"]);
}

#[test]
fn a_conflict_copy_that_an_operation_replaces() {
    let two = parked(&["sort", "--", "-o", "k", "p", "q"]);
    two.place.ok(&two.here, ["sync"]);
    fs::write(two.here.join("k"), "by hand\n").unwrap();
    fs::write(two.there.join("k"), "made there\n").unwrap();
    two.place.ok(&two.there, ["sync"]);
    two.place.ok(&two.here, ["sync"]);
    let copies: Vec<String> = snapshot(&two.here).into_keys().filter(|name| name.contains("(conflict ")).collect();
    for copy in &copies {
        two.run(&["sort", "--", "-o", copy, "g"]);
        two.place.ok(&two.here, ["sync"]);
    }
    two.come_together();
    assert!(two.is_kept("by hand\n"), "what was written by hand is lost");
}

#[test]
fn an_entry_that_was_dropped_is_not_dropped_twice() {
    let two = two();
    two.write("c\na\n");
    two.sort();
    let number = two.place.json(&two.here, ["log", "-n", "1"])["entries"][0]["number"].to_string();
    two.place.ok(&two.here, ["drop", &number]);
    let again = two.place.run(&two.here, ["drop", &number]);
    assert_eq!(again.code, Some(126), "{again}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("opship sync"), "{again}");
    two.come_together();
}
