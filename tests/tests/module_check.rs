//! `opship module check`: what a module's output depends on, what it costs, and what is refused.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, guest, snapshot};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Prints 8 random bytes.
const SEED_ONLY: &str = r#"(module
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\08\00\00\00")
    (func (export "_start")
        (drop (call $random (i32.const 16) (i32.const 8)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// Asks for the time and prints nothing of it.
const READS_CLOCK: &str = r#"(module
    (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start") (drop (call $time (i32.const 0) (i64.const 0) (i32.const 16)))))"#;

/// Its exit code is the last byte of its first two variables beyond the fixed ones.
const ENVIRONMENT: &str = r#"(module
    (import "wasi_snapshot_preview1" "environ_get" (func $get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func (export "_start")
        (drop (call $get (i32.const 0) (i32.const 1024)))
        (call $exit (i32.load8_u (i32.add (i32.const 2) (i32.load (i32.const 8)))))))"#;

const UNKNOWN_IMPORTS: &str = r#"(module (import "env" "launch" (func)) (import "wasi_snapshot_preview1" "no_such" (func))
    (func (export "_start")))"#;
const REACTOR: &str = r#"(module (func (export "_initialize")))"#;
const ENDLESS: &str = r#"(module (func (export "_start") (loop $again (br $again))))"#;

/// Writes a module in text form into a folder.
fn module(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// How a world compares with the first.
fn world<'a>(report: &'a Value, name: &str) -> &'a Value {
    let worlds = report["worlds"].as_array().unwrap();
    worlds.iter().find(|world| world["world"] == name).unwrap_or_else(|| panic!("no world {name}: {report:#}"))
}

/// All worlds that are equal for a module gave the same.
fn assert_equal_worlds_agree(report: &Value) {
    assert_eq!(report["deterministic"], true, "{report:#}");
    for name in ["repeat", "listing-order", "cached", "load", "baseline", "interpreter"] {
        assert_eq!(world(report, name)["result"], "same", "{name}: {report:#}");
    }
}

#[test]
fn gzip_on_a_plain_folder_depends_on_its_input_alone_and_the_folder_stays_as_it_is() {
    let place = Place::new();
    let folder = place.folder("folder");
    fs::write(folder.join("a.txt"), "a line\n".repeat(2000)).unwrap();
    let before = snapshot(&folder);
    let report = place.json(&place.path(""), ["module", "check", "gzip", "--tree", "folder", "--", "a.txt"]);
    assert_equal_worlds_agree(&report);
    assert_eq!((&report["depends_on"], &report["exit"]), (&serde_json::json!([]), &serde_json::json!(0)));
    assert_eq!(report["changed"], 2, "the archive that came and the file that went: {report:#}");
    assert!(report["imports"].as_array().unwrap().contains(&"wasi_snapshot_preview1.path_open".into()), "{report:#}");
    let targets: Vec<_> = report["compiled"].as_array().unwrap().iter().map(|made| made["target"].clone()).collect();
    assert_eq!(targets, ["host", "baseline", "interpreter"]);
    for cost in ["length", "functions", "memory_pages", "produced_bytes", "record_bytes"] {
        assert!(report[cost].as_u64().unwrap() > 0, "{cost}: {report:#}");
    }
    assert_eq!(snapshot(&folder), before);
}

#[test]
fn in_a_working_copy_it_runs_on_that_tree_and_records_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::create_dir(here.join("below")).unwrap();
    fs::write(here.join("below/input"), "b\na\n").unwrap();
    let before = snapshot(&here);
    let report =
        place.json(&here.join("below"), ["module", "check", "sort", "--stdin", "input", "--", "-", "-o", "sorted"]);
    assert_equal_worlds_agree(&report);
    assert_eq!((&report["exit"], &report["changed"]), (&0.into(), &1.into()), "{report:#}");
    assert_eq!(snapshot(&here), before);
    assert_eq!(place.json(&here, ["log"])["entries"], serde_json::json!([]));
    assert_eq!(fs::read_dir(here.join(".opship/staging")).unwrap().count(), 0);
}

#[test]
fn what_differs_is_told_by_place_and_offset() {
    let place = Place::new();
    let probe = guest("clock-random");
    let check = ["module", "check", probe.to_str().unwrap(), "--env", "A=1", "--env", "B=2"];
    let report = place.json(&place.path(""), check);
    assert_equal_worlds_agree(&report);
    assert_eq!(report["depends_on"], serde_json::json!(["clock", "seed", "environment-order"]));
    // "time " comes first, then the seconds.
    let clock = &world(&report, "clock")["differences"][0];
    assert_eq!((&clock["what"], &clock["offset"]), (&"stdout".into(), &6.into()), "{clock}");
    assert_eq!(clock["lengths"][0], clock["lengths"][1]);
    for asked in ["clock", "random", "poll"] {
        assert!(report["asked_for"][asked].as_u64().unwrap() > 0, "{asked}: {report:#}");
    }
    let text = place.run(&place.path(""), check);
    assert_eq!(text.code, Some(0), "{text}");
    let (out, err) = (String::from_utf8(text.stdout).unwrap(), String::from_utf8(text.stderr).unwrap());
    assert!(out.starts_with("clock-random: deterministic; what it does depends on clock, random seed and"), "{out}");
    assert!(out.contains("DIFFERS in standard output from byte 6 on"), "{out}");
    assert!(err.contains("can compute keys"), "{err}");
}

#[test]
fn files_that_differ_are_named() {
    let place = Place::new();
    let folder = place.folder("folder");
    fs::create_dir(folder.join("a")).unwrap();
    let probe = guest("treeprobe");
    let command = ["--", "sleep", "3", "+", "write", "a/b", "always the same"];
    let check = ["module", "check", probe.to_str().unwrap(), "--tree", "folder"];
    let report = place.json(&place.path(""), check.iter().chain(&command));
    assert_eq!(report["depends_on"], serde_json::json!([]), "times of written files follow the clock: {report:#}");
    let command = ["--", "stat", "a", "+", "write", "a/b", "x", "+", "stat", "a/b"];
    let report = place.json(&place.path(""), check.iter().chain(&command));
    assert_eq!(report["depends_on"], serde_json::json!(["clock"]), "{report:#}");
}

#[test]
fn dependence_on_the_seed_alone_comes_with_a_warning_and_reading_the_clock_is_no_dependence() {
    let place = Place::new();
    let file = module(&place.path(""), "seed.wasm", SEED_ONLY);
    let report = place.json(&place.path(""), ["module", "check", &file]);
    assert_equal_worlds_agree(&report);
    assert_eq!(report["depends_on"], serde_json::json!(["seed"]));
    assert_eq!(report["secrets_can_be_computed"], true);
    let file = module(&place.path(""), "clock.wasm", READS_CLOCK);
    let report = place.json(&place.path(""), ["module", "check", &file]);
    assert_eq!((&report["depends_on"], &report["asked_for"]["clock"]), (&serde_json::json!([]), &1.into()));
    assert_eq!(report["secrets_can_be_computed"], false);
}

#[test]
fn order_of_the_environment_is_a_dependence_and_no_error() {
    let place = Place::new();
    let file = module(&place.path(""), "environment.wasm", ENVIRONMENT);
    let report = place.json(&place.path(""), ["module", "check", &file, "--env", "A=1", "--env", "B=2"]);
    assert_equal_worlds_agree(&report);
    assert_eq!(report["depends_on"], serde_json::json!(["environment-order"]));
    let differences = &world(&report, "environment-order")["differences"];
    assert_eq!(*differences, serde_json::json!([{ "what": "exit", "values": [49, 50] }]));
    let report = place.json(&place.path(""), ["module", "check", &file, "--env", "A=1"]);
    assert_eq!(world(&report, "environment-order")["result"], "skipped");
}

#[test]
fn refused_modules_are_told_with_what_they_wanted_and_what_to_do() {
    let place = Place::new();
    let error = |name: &str, text: &str| {
        let file = module(&place.path(""), name, text);
        let printed = place.run(&place.path(""), ["module", "check", &file]);
        assert_eq!(printed.code, Some(126), "{name}: {printed}");
        String::from_utf8(printed.stderr).unwrap()
    };
    let imports = error("imports.wasm", UNKNOWN_IMPORTS);
    for part in ["'env.launch'", "'wasi_snapshot_preview1.no_such'", "wasm32-wasip1"] {
        assert!(imports.contains(part), "{imports}");
    }
    let reactor = error("reactor.wasm", REACTOR);
    assert!(reactor.contains("'_start'") && reactor.contains("build it as a command"), "{reactor}");
    let component = error("component.wasm", "(component)");
    assert!(component.contains("component") && component.contains("wasm32-wasip1"), "{component}");
}

#[test]
fn a_run_without_an_end_is_told_with_its_step_and_ends_125() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let printed = place.run(&place.path(""), arguments);
        assert_eq!(printed.code, Some(125), "{printed}");
        (String::from_utf8(printed.stdout).unwrap(), String::from_utf8(printed.stderr).unwrap())
    };
    let probe = guest("treeprobe");
    let (out, err) = run(&["module", "check", probe.to_str().unwrap(), "--", "trap"]);
    assert!(out.contains("came to no end") && err.contains("step 0") && err.contains("unreachable"), "{out}{err}");
    let (out, _) = run(&["--json", "module", "check", probe.to_str().unwrap(), "--", "trap"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report["error"].as_str().unwrap().contains("step 0") && report["worlds"].is_null(), "{report:#}");
    let endless = module(&place.path(""), "endless.wasm", ENDLESS);
    let (_, err) = run(&["module", "check", &endless, "--time-limit", "1"]);
    assert!(err.contains("took longer"), "{err}");
}

#[test]
fn names_that_mean_nothing_end_127_with_and_without_a_working_copy() {
    let place = Place::new();
    assert_eq!(place.run(&place.path(""), ["module", "check", "no-such"]).code, Some(127));
    assert_eq!(place.run(&place.path(""), ["module", "check", "./no-such.wasm"]).code, Some(127));
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    assert_eq!(place.run(&here, ["module", "check", "no-such"]).code, Some(127));
}
