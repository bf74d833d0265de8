//! The conformance guests in the world: four languages print what is true, twice the same, and match on the server.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::languages::{ASSEMBLYSCRIPT, C, GO, Language, RUST, Scenario, input};
use opship_tests::{Guest, Place, Server, assert_same_tree, verdicts};
use opship_world::MemoryTree;
use std::fs;

/// What a scenario printed, if it is not what is true.
fn difference(guest: &Guest, scenario: &Scenario) -> Option<String> {
    let (seen, _) = guest.run(scenario, &input());
    let (stdout, stderr, exit) = scenario.truth();
    let printed = String::from_utf8_lossy(&seen.stdout);
    if printed == stdout && String::from_utf8_lossy(&seen.stderr) == stderr && seen.exit == Ok(exit) {
        return None;
    }
    let lines = printed.lines().zip(stdout.lines()).filter(|(is, wanted)| is != wanted);
    let lines: Vec<String> = lines.take(20).map(|(is, wanted)| format!("  is     {is}\n  wanted {wanted}")).collect();
    let (code, words) = (seen.exit, String::from_utf8_lossy(&seen.stderr).into_owned());
    let words: String = words.chars().take(500).collect();
    Some(format!("{}: exit {code:?}, standard error {words:?}\n{}", scenario.name(), lines.join("\n")))
}

fn check(language: &Language) {
    let Some(module) = language.find() else { return };
    let guest = Guest::load(&module);
    let scenarios = language.scenarios();
    let wrong: Vec<String> = scenarios.iter().filter_map(|scenario| difference(&guest, scenario)).collect();
    assert!(wrong.is_empty(), "the guest in {}:\n{}", language.name, wrong.join("\n"));
}

#[test]
fn rust_prints_what_is_true() {
    check(&RUST);
}

#[test]
fn c_prints_what_is_true() {
    check(&C);
}

#[test]
fn go_prints_what_is_true() {
    check(&GO);
}

#[test]
fn assemblyscript_prints_what_is_true() {
    check(&ASSEMBLYSCRIPT);
}

/// Any exit code is a result; the second host knows those below 126 only.
#[test]
fn every_exit_code_is_a_result() {
    for language in [RUST, C, GO, ASSEMBLYSCRIPT] {
        let Some(module) = language.find() else { continue };
        let (seen, _) = Guest::load(&module).run(&Scenario::new(["exit", "255"]), &MemoryTree::new());
        assert_eq!(seen.exit, Ok(255), "{}", language.name);
        assert_eq!(seen.stdout, b"leaving with: 255\n");
    }
}

/// Observations, changes with times and modes, streams and exit codes: all that a record is made of.
#[test]
fn the_same_world_gives_the_same_lists_in_every_language() {
    for language in [RUST, C, GO, ASSEMBLYSCRIPT] {
        let Some(module) = language.find() else { continue };
        // Each from its own engine, as client and server have theirs.
        let (one, two) = (Guest::load(&module), Guest::load(&module));
        for scenario in language.scenarios() {
            let (first, second) = (one.run(&scenario, &input()), two.run(&scenario, &input()));
            assert!(first == second, "{}, {}: two runs differ", language.name, scenario.name());
        }
    }
}

#[test]
fn names_numbers_and_cookies_are_the_worlds_own() {
    let (seen, _) = Guest::load(&RUST.find().unwrap()).run(&Scenario::new(["world"]), &input());
    let (stdout, _, _) = Scenario::new(["world"]).truth();
    assert_eq!(String::from_utf8(seen.stdout).unwrap(), stdout);
}

#[test]
fn a_hundred_thousand_files_are_made_listed_read_and_removed() {
    for language in [RUST, C, GO, ASSEMBLYSCRIPT] {
        let Some(module) = language.find() else { continue };
        assert_eq!(difference(&Guest::load(&module), &Scenario::new(["many", "100000"])), None, "{}", language.name);
    }
}

#[test]
fn a_large_file_is_read_as_it_was_written() {
    for language in [RUST, C, GO, ASSEMBLYSCRIPT] {
        let Some(module) = language.find() else { continue };
        assert_eq!(difference(&Guest::load(&module), &Scenario::new(["large", "256"])), None, "{}", language.name);
    }
}

/// Runs scenarios of a guest in a working copy; all must match on the server, and another copy gets the same tree.
fn match_on_the_server(language: &Language) {
    let Some(module) = language.find() else { return };
    let module = module.to_str().unwrap().to_owned();
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    for (path, node, content) in input().nodes() {
        let to = here.join(path.as_str());
        match node.kind() {
            opship_record::node::Kind::Directory => fs::create_dir_all(to).unwrap(),
            _ => fs::write(to, content).unwrap(),
        }
    }
    place.ok(&here, ["sync"]);
    for scenario in ["files", "directories", "links", "clocks", "random", "deep 30", "many 2000"] {
        let words: Vec<&str> = scenario.split(' ').collect();
        let printed = place.ok(&here, ["run", module.as_str(), "--"].iter().chain(&words));
        assert_eq!(printed, Scenario::new(words).truth().0, "{scenario}");
    }
    place.ok(&here, ["sync"]);
    let ended = verdicts(&place, &here);
    let (values, operations) = ended.split_at(1);
    assert_eq!(values, ["shipped"]);
    assert!(operations.len() == 7 && operations.iter().all(|verdict| verdict == "matched"), "{ended:?}");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn what_rust_does_matches_on_the_server() {
    match_on_the_server(&RUST);
}

#[test]
fn what_c_does_matches_on_the_server() {
    match_on_the_server(&C);
}

#[test]
fn what_go_does_matches_on_the_server() {
    match_on_the_server(&GO);
}

#[test]
fn what_assemblyscript_does_matches_on_the_server() {
    match_on_the_server(&ASSEMBLYSCRIPT);
}
