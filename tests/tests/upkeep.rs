//! An administrator keeps the server in order from the command line, and people go on working.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server, assert_same_tree, noise};
use std::fs;
use std::path::{Path, PathBuf};

/// All that a command said.
fn said(printed: &Printed) -> String {
    printed.to_string()
}

fn packs(data: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(data.join("packs")).unwrap();
    folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap()).map(|file| file.unwrap().path()).collect()
}

#[test]
fn versions_go_by_the_workspaces_setting_and_whoever_stood_on_one_comes_along() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    for (name, bytes) in [("large", noise(1, 300_000)), ("stays", b"same".to_vec()), ("goes", b"soon".to_vec())] {
        fs::write(here.join(name), bytes).unwrap();
    }
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    fs::remove_file(here.join("goes")).unwrap();
    for edit in 0..4 {
        fs::write(here.join("small"), format!("edit {edit}")).unwrap();
        place.ok(&here, ["sync"]);
    }
    assert_eq!(place.json(&here, ["admin", "gc"])["versions"], 0, "all is young");

    let shown = place.json(&here, ["admin", "workspace", "show", "main"]);
    assert_eq!(shown["settings"]["retention.all-days"], "30");
    let set = ["admin", "workspace", "set", "main", "retention.all-days=0", "retention.daily-days=0"];
    place.json(&here, set.iter().copied().chain(["--dry-run"]));
    assert_eq!(place.json(&here, ["admin", "workspace", "show", "main"]), shown, "a dry run changes nothing");
    place.ok(&here, set);
    let wrong = place.run(&here, ["admin", "workspace", "set", "main", "retention.all-days=soon"]);
    assert!(wrong.code == Some(125) && said(&wrong).contains("number of days"), "{wrong}");

    let dry = place.json(&here, ["admin", "gc", "--dry-run"]);
    assert_eq!((&dry["versions"], &dry["dry_run"]), (&4.into(), &true.into()));
    assert_eq!(place.json(&here, ["admin", "gc"])["versions"], 4);
    assert_eq!(place.json(&here, ["admin", "gc"])["versions"], 0);
    let main = &place.json(&here, ["admin", "du"])["workspaces"][0];
    assert_eq!((&main["forgotten"], &main["files"]), (&4.into(), &3.into()));

    // The clone stands on a version that is gone. An edit of its own waits besides.
    fs::write(there.join("own"), "mine").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
    assert!(!there.join("goes").exists() && there.join("own").exists());
    let (status, body) = server.request("GET", "/v1/workspaces/main/versions/2/tree", b"");
    assert_eq!(status, 410, "{}", String::from_utf8_lossy(&body));
    let gone = place.run(&here, ["restore", "goes", "--version", "1"]);
    assert!(gone.code != Some(0) && said(&gone).contains("(410)") && said(&gone).contains("version 1"), "{gone}");
    let listed = place.json(&here, ["log", "--versions"])["versions"].clone();
    for version in listed.as_array().unwrap() {
        let is_gone = (1..=4).contains(&version["number"].as_u64().unwrap());
        assert_eq!(version["forgotten"], is_gone, "{version}");
    }
    let shown = place.ok(&here, ["log", "--versions"]);
    assert_eq!(shown.matches("(forgotten)").count(), 4, "{shown}");
    assert!(place.ok(&here, ["admin", "fsck"]).contains("all is well"));
    let nobodys = place.run(&place.path(""), ["admin", "gc", "--server", "http://127.0.0.1:1"]);
    assert_eq!(nobodys.code, Some(125));
}

#[test]
fn damage_is_told_with_its_places_while_the_server_runs_and_after() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::create_dir(here.join("folder")).unwrap();
    fs::write(here.join("folder/large"), noise(2, 300_000)).unwrap();
    place.ok(&here, ["sync"]);
    let data = server.data().clone();
    let running = place.run(&here, ["admin", "fsck", "--data", data.to_str().unwrap()]);
    assert!(running.code == Some(126) && said(&running).contains("in use"), "{running}");

    let large = packs(&data).into_iter().max_by_key(|pack| pack.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&large).unwrap();
    let good = bytes.clone();
    let last = bytes.len() - 20_000;
    bytes[last] ^= 1;
    fs::write(&large, &bytes).unwrap();
    fs::write(large.with_file_name("77777"), "left behind").unwrap();
    let found = place.run(&here, ["admin", "fsck"]);
    assert_eq!(found.code, Some(1), "{found}");
    for part in ["chunk-damaged", "workspace 'main': folder/large in version 1", "backup", "orphan-file", "--repair"] {
        assert!(said(&found).contains(part), "{part}: {found}");
    }
    server.stop();

    let offline = ["--json", "admin", "fsck", "--repair", "--data", data.to_str().unwrap()];
    let found = place.run(&here, offline);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((found.code, report["findings"].as_array().unwrap().len()), (Some(1), 2), "{found}");
    fs::write(&large, good).unwrap();
    let found = place.run(&here, offline);
    assert_eq!(found.code, Some(0), "restored from a backup, and the file that nothing named is gone: {found}");
    let nowhere = place.run(&here, ["admin", "fsck", "--data", "."]);
    assert_eq!(nowhere.code, Some(126), "{nowhere}");
}

#[test]
fn a_working_copy_tells_what_its_own_folder_takes() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("numbers"), (0..200_000).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&here, ["run", "sort", "-o", "numbers", "--", "-r", "numbers"]);
    let usage = place.json(&here, ["du"]);
    let bytes = |key: &str| usage[key].as_u64().unwrap_or(0);
    assert!(bytes("database") > 0 && bytes("displaced") >= 1_000_000, "{usage}");
    let parts: u64 =
        usage.as_object().unwrap().iter().filter(|(key, _)| *key != "total").map(|(_, v)| v.as_u64().unwrap()).sum();
    assert_eq!(parts, bytes("total"));
    assert!(place.ok(&here, ["du"]).contains("displaced"));
}
