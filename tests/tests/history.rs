//! What was stays within reach: entries are undone, files and folders of any version come back, versions are compared.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, snapshot};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

struct One {
    place: Place,
    server: Server,
    here: PathBuf,
}

fn one() -> One {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    One { place, server, here }
}

impl One {
    fn write(&self, path: &str, text: &str) {
        let path = self.here.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.here.join(path)).unwrap()
    }

    fn sync(&self) -> u64 {
        self.place.json(&self.here, ["sync"])["pulled"]["version"].as_u64().unwrap()
    }

    fn newest_entry(&self) -> String {
        self.place.json(&self.here, ["log", "-n", "1"])["entries"][0]["number"].to_string()
    }
}

fn paths(report: &Value) -> Vec<&str> {
    report["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect()
}

#[test]
fn any_entry_is_undone_whatever_it_did_and_undone_again() {
    let one = one();
    one.write("edited", "1");
    one.write("removed", "1");
    one.write("old/deep/file", "1");
    one.write("mode", "1");
    symlink("edited", one.here.join("link")).unwrap();
    one.sync();
    let before = snapshot(&one.here);

    one.write("edited", "2");
    fs::remove_file(one.here.join("removed")).unwrap();
    fs::rename(one.here.join("old"), one.here.join("new")).unwrap();
    fs::set_permissions(one.here.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(one.here.join("link")).unwrap();
    fs::create_dir(one.here.join("link")).unwrap();
    one.write("link/below", "2");
    one.sync();
    let after = snapshot(&one.here);

    let number = one.newest_entry();
    one.place.ok(&one.here, ["undo", &number]);
    assert_eq!(snapshot(&one.here), before);
    one.sync();
    assert_eq!(snapshot(&one.here), before);
    let undone = one.newest_entry();
    one.place.ok(&one.here, ["undo", &undone]);
    assert_eq!(snapshot(&one.here), after);
    one.sync();
    let url = format!("{}/main", one.server.url());
    one.place.ok(&one.place.path(""), ["clone", &url, "there"]);
    assert_same_tree(&one.here, &one.place.path("there"));
}

#[test]
fn an_operation_is_undone_and_what_is_no_result_of_the_workspace_cannot_be() {
    let one = one();
    one.write("a", "2\n1\n");
    one.sync();
    one.place.ok(&one.here, ["run", "sort", "--", "-o", "a", "a"]);
    let number = one.newest_entry();
    let pending = one.place.run(&one.here, ["undo", &number]);
    assert_eq!(pending.code, Some(126), "{pending}");
    one.sync();
    one.place.ok(&one.here, ["undo", &number]);
    assert_eq!(one.read("a"), "2\n1\n");
    assert_ne!(one.place.run(&one.here, ["undo", "99"]).code, Some(0));
}

#[test]
fn a_folder_that_others_have_filled_since_is_not_undone_with_them() {
    let one = one();
    one.write("d/a", "1");
    one.sync();
    let number = one.newest_entry();
    one.write("d/b", "2");
    let refused = one.place.run(&one.here, ["undo", &number]);
    assert_eq!(refused.code, Some(126), "{refused}");
    one.place.ok(&one.here, ["undo", "--force", &number]);
    assert!(!one.here.join("d/a").exists());
    assert_eq!(one.read("d/b"), "2");
}

#[test]
fn files_and_folders_come_back_from_any_version_and_edits_are_recorded_first() {
    let one = one();
    let mut versions = Vec::new();
    for round in 0..4 {
        one.write("d/file", &format!("text {round}\n"));
        one.write(&format!("d/only {round}"), "x");
        fs::create_dir_all(one.here.join(format!("d/empty {round}"))).unwrap();
        versions.push((one.sync(), snapshot(&one.here)));
    }
    for (version, tree) in &versions {
        one.place.ok(&one.here, ["restore", "d", "--version", &version.to_string()]);
        let now = snapshot(&one.here);
        assert!(tree.iter().all(|(path, state)| now.get(path) == Some(state)), "{version}");
    }
    one.write("d/file", "an edit that nobody has seen\n");
    one.place.ok(&one.here, ["restore", "d/file", "--version", &versions[0].0.to_string()]);
    assert_eq!(one.read("d/file"), "text 0\n");
    one.sync();
    let undone = one.newest_entry();
    one.place.ok(&one.here, ["undo", &undone]);
    assert_eq!(one.read("d/file"), "an edit that nobody has seen\n");

    let oldest = versions[0].0.to_string();
    one.place.ok(&one.here, ["restore", "d", "--version", &oldest, "--to", "old/place"]);
    assert_eq!(one.read("old/place/d/file"), "text 0\n");
    let outside = one.place.path("outside");
    let outside = outside.to_str().unwrap();
    one.place.ok(&one.here, ["restore", "d", "--version", &oldest, "--to", outside]);
    assert_eq!(fs::read_to_string(Path::new(outside).join("d/file")).unwrap(), "text 0\n");
    assert!(Path::new(outside).join("d/empty 0").is_dir());
    let again = one.place.run(&one.here, ["restore", "d", "--version", &oldest, "--to", outside]);
    assert_eq!(again.code, Some(126), "{again}");
    let missing = one.place.run(&one.here, ["restore", "nothing", "--version", &oldest]);
    assert_eq!(missing.code, Some(126), "{missing}");
    let dry = one.place.json(&one.here, ["restore", "d/file", "--version", &oldest, "--dry-run"]);
    assert_eq!((paths(&dry), &dry["done"]), (vec!["d/file"], &json!(false)));
}

#[test]
fn versions_are_listed_and_compared() {
    let one = one();
    one.write("same", "1\n");
    one.write("edited", "first\nsecond\nthird\n");
    one.write("removed", "1\n");
    fs::write(one.here.join("binary"), [0, 1, 2]).unwrap();
    let first = one.sync();
    one.write("edited", "first\n2nd\nthird\n");
    fs::remove_file(one.here.join("removed")).unwrap();
    one.write("added", "new\n");
    fs::write(one.here.join("binary"), [0, 3]).unwrap();
    fs::set_permissions(one.here.join("same"), fs::Permissions::from_mode(0o600)).unwrap();
    let local = one.place.json(&one.here, ["diff"]);
    let second = one.sync();

    let listed = one.place.json(&one.here, ["log", "--versions"]);
    let numbers: Vec<u64> =
        listed["versions"].as_array().unwrap().iter().map(|v| v["number"].as_u64().unwrap()).collect();
    assert_eq!((numbers[0], numbers.last()), (second, Some(&0)), "{listed}");
    assert!(listed["versions"][0]["author"].is_string());

    let (first, second) = (first.to_string(), second.to_string());
    let between = one.place.json(&one.here, ["diff", "--version", &first, "--to", &second]);
    assert_eq!(local, between);
    assert_eq!(one.place.json(&one.here, ["diff", "--version", &first]), between);
    let found: Vec<(&str, &str)> = between["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (d["path"].as_str().unwrap(), d["change"].as_str().unwrap()))
        .collect();
    let expected = [
        ("added", "added"),
        ("binary", "changed"),
        ("edited", "changed"),
        ("removed", "removed"),
        ("same", "metadata"),
    ];
    assert_eq!(found, expected);
    let edited = &between["differences"][2];
    let text = edited["text"].as_str().unwrap();
    assert!(text.contains("-second\n") && text.contains("+2nd\n") && !text.contains("-first"), "{text}");
    assert_eq!(between["differences"][1]["text"], Value::Null);
    let back = one.place.json(&one.here, ["diff", "--version", &second, "--to", &first, "added"]);
    assert_eq!(back["differences"][0]["change"], "removed", "{back}");
    assert_eq!(back["differences"].as_array().unwrap().len(), 1);
    assert!(one.place.ok(&one.here, ["diff"]).contains("no differences"));
}

#[test]
fn conflicts_are_listed_and_decided_one_by_one_by_pattern_and_all() {
    let one = one();
    let names = ["docs/a.txt", "docs/b.txt", "c.txt", "d.txt"];
    names.iter().for_each(|name| one.write(name, "start\n"));
    one.sync();
    let url = format!("{}/main", one.server.url());
    one.place.ok(&one.place.path(""), ["clone", &url, "there"]);
    let there = one.place.path("there");
    names.iter().for_each(|name| fs::write(there.join(name), "theirs\n").unwrap());
    one.place.ok(&there, ["sync"]);
    names.iter().for_each(|name| one.write(name, "mine\n"));
    one.sync();

    let listed = one.place.json(&one.here, ["conflicts"]);
    let paths: Vec<&str> =
        listed["conflicts"].as_array().unwrap().iter().map(|c| c["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["c.txt", "d.txt", "docs/a.txt", "docs/b.txt"]);
    assert!(listed["conflicts"][0]["copies"][0]["entry"].is_u64(), "{listed}");
    // Others see them too, by their names.
    one.place.ok(&there, ["sync"]);
    let seen = one.place.json(&there, ["conflicts"]);
    assert_eq!(seen["conflicts"].as_array().unwrap().len(), 4, "{seen}");
    assert!(seen["conflicts"][0]["copies"][0]["whose"].is_string(), "{seen}");

    one.place.ok(&one.here, ["resolve", "docs/**", "--keep", "mine"]);
    one.place.ok(&one.here, ["resolve", "c.txt", "--keep", "theirs"]);
    assert_ne!(one.place.run(&one.here, ["resolve", "c.txt", "--keep", "mine"]).code, Some(0));
    one.sync();
    one.place.ok(&there, ["sync"]);
    one.place.ok(&there, ["resolve", "--all", "--keep", "both"]);
    one.place.ok(&there, ["sync"]);
    one.sync();
    assert_same_tree(&one.here, &there);
    assert_eq!(one.place.json(&one.here, ["conflicts"])["conflicts"], json!([]));
    let all = snapshot(&one.here);
    assert_eq!(all.len(), names.len() + 2, "{:?}", all.keys());
    assert_eq!((one.read("docs/a.txt"), one.read("docs/b.txt")), ("mine\n".to_owned(), "mine\n".to_owned()));
    assert_eq!((one.read("c.txt"), one.read("d.txt")), ("theirs\n".to_owned(), "theirs\n".to_owned()));
    let entry = listed["conflicts"][0]["copies"][0]["entry"].to_string();
    let shown = one.place.json(&one.here, ["show", &entry]);
    let (client, sequence) = (shown["client"].as_str().unwrap(), &shown["sequence"]);
    let (_, held) = one.server.request("GET", &format!("/v1/workspaces/main/entries/{client}/{sequence}"), b"");
    let held: Value = serde_json::from_slice(&held).unwrap();
    assert!(held["resolved"].is_null() || held["resolved"].is_u64());
    one.sync();
    let (_, held) = one.server.request("GET", &format!("/v1/workspaces/main/entries/{client}/{sequence}"), b"");
    let held: Value = serde_json::from_slice(&held).unwrap();
    assert!(held["resolved"].is_u64(), "{held}");
}
