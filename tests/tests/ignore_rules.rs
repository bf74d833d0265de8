//! Ignore rules that another has written: as many count as any folder needs, and what does not count is told.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A clone of a workspace with these files of rules.
fn pulled(place: &Place, server: &Server, files: &[(String, String)]) -> PathBuf {
    let here = place.init(server, "here", "main");
    for (folder, rules) in files {
        fs::create_dir_all(here.join(folder)).unwrap();
        fs::write(here.join(folder).join(".opshipignore"), rules).unwrap();
    }
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    place.path("there")
}

/// So many patterns; the first is `first.tmp`, the last `last.tmp`.
fn patterns(count: usize) -> String {
    let mut rules = "first.tmp\n".to_owned();
    for n in 2..count {
        writeln!(rules, "*{n}.other").unwrap();
    }
    rules + "last.tmp\n"
}

/// `status` of a working copy, by a process that may have 2 GiB of memory.
fn status(place: &Place, folder: &Path) -> Value {
    let opship = place.command(folder);
    let mut bounded = Command::new("sh");
    bounded.args(["-c", "ulimit -v 2097152; exec \"$0\" --json status"]).arg(opship.get_program()).current_dir(folder);
    for (name, value) in opship.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    let printed = Printed::from(bounded.output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed}");
    serde_json::from_slice(&printed.stdout).unwrap()
}

/// The paths that are changed here.
fn changed(status: &Value) -> Vec<&str> {
    status["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect()
}

/// What is told of a file of rules.
fn told<'a>(status: &'a Value, path: &str) -> Vec<&'a str> {
    let all = status["ignore_rules"].as_array().unwrap().iter();
    all.filter(|trouble| trouble["path"] == path).map(|trouble| trouble["detail"].as_str().unwrap()).collect()
}

#[test]
fn of_a_very_long_file_of_rules_the_beginning_counts_and_the_rest_is_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let there = pulled(&place, &server, &[(String::new(), patterns(300_000)), ("d".to_owned(), patterns(1000))]);
    let told_before = status(&place, &there);
    for name in ["first.tmp", "last.tmp", "d/last.tmp"] {
        fs::write(there.join(name), "text").unwrap();
    }
    let status = status(&place, &there);
    assert_eq!(changed(&status), ["last.tmp"]);
    let long = told(&status, ".opshipignore");
    assert!(long.len() == 1 && long[0].contains("first 1000 patterns"), "{long:?}");
    assert!(told(&status, "d/.opshipignore").is_empty());
    assert_eq!(told_before["ignore_rules"], status["ignore_rules"], "also where nothing had to be ignored yet");
    assert!(place.run(&there, ["status"]).to_string().contains("first 1000 patterns"));
}

#[test]
fn of_very_many_files_of_rules_the_first_count_and_the_rest_is_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let files: Vec<_> = (10..40).map(|n| (format!("d{n}"), patterns(1000))).collect();
    let there = pulled(&place, &server, &files);
    for n in 10..40 {
        fs::write(there.join(format!("d{n}/first.tmp")), "text").unwrap();
    }
    let status = status(&place, &there);
    let beyond: Vec<String> = (26..40).map(|n| format!("d{n}/first.tmp")).collect();
    assert_eq!(changed(&status), beyond, "16,384 patterns count");
    for n in 10..40 {
        let told = told(&status, &format!("d{n}/.opshipignore"));
        assert_eq!(told.iter().any(|detail| detail.contains("over 16384 patterns")), n >= 26, "{n}: {told:?}");
    }
}

#[test]
fn lines_that_are_no_patterns_are_told_and_the_others_count() {
    let place = Place::new();
    let server = Server::start(&place);
    let rules = format!("# a comment\n[z-a]\n\n{{a,{{b\n{}\n*.tmp\n[b-a]\n{{\n", "?".repeat(5000));
    let there = pulled(&place, &server, &[(String::new(), rules)]);
    fs::write(there.join("x.tmp"), "text").unwrap();
    let status = status(&place, &there);
    assert!(changed(&status).is_empty(), "{status:#}");
    let told = told(&status, ".opshipignore");
    for part in
        ["line 2 is no pattern", "line 4 is no pattern", "line 5 is no pattern (it is too long)", "2 more lines"]
    {
        assert!(told.iter().any(|detail| detail.contains(part)), "{part}: {told:?}");
    }
    place.ok(&there, ["sync"]);
}
