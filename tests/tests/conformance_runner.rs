//! The conformance runner: what it takes for a pass and what for a failure, on cases made here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use opship_tests::target_folder;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Exits with its number of arguments, itself included, after it printed `hi` and its environment's size.
const ARGUMENTS: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $arguments (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environment (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\10\00\00\00\04\00\00\00")
    (data (i32.const 16) "hi \00")
    (func (export "_start")
        (drop (call $environment (i32.const 32) (i32.const 36)))
        (i32.store8 (i32.const 19) (i32.add (i32.const 48) (i32.load (i32.const 32))))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 40)))
        (drop (call $arguments (i32.const 32) (i32.const 36)))
        (call $exit (i32.load (i32.const 32)))))"#;

/// Exits with the errno of making the file `new` exclusively in descriptor 3.
const CREATES: &str = r#"(module
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "new")
    (func (export "_start") (call $exit (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 3)
        (i32.const 5) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 8)))))"#;

const FAULTS: &str = r#"(module (func (export "_start") unreachable))"#;

fn case(folder: &Path, name: &str, text: &str, json: Option<&str>) {
    fs::write(folder.join(format!("{name}.wasm")), wat::parse_str(text).unwrap()).unwrap();
    if let Some(json) = json {
        fs::write(folder.join(format!("{name}.json")), json).unwrap();
    }
}

/// What the runner printed, by line, and whether it was content.
fn conformance(folder: &Path) -> (Vec<String>, bool) {
    let output = Command::new(target_folder().join("debug/opship-conformance")).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (text.lines().map(str::to_owned).collect(), output.status.success())
}

fn line<'a>(lines: &'a [String], name: &str) -> &'a str {
    lines.iter().find(|line| line.split([' ', ':']).nth(1) == Some(name)).unwrap()
}

#[test]
fn a_case_passes_if_all_that_it_names_is_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    case(folder, "plain", ARGUMENTS, Some(r#"{"exit_code": 1, "stdout": "hi 0"}"#));
    let given = r#"{"args": ["a", "b"], "env": {"X": "1", "Y": "2"}, "exit_code": 3, "stdout": "hi 2", "stderr": ""}"#;
    case(folder, "given", ARGUMENTS, Some(given));
    // Without a root there is no descriptor 3 (8 is EBADF). Each case has a fresh copy of its root.
    case(folder, "rootless", CREATES, Some(r#"{"exit_code": 8}"#));
    fs::create_dir(folder.join("root.dir")).unwrap();
    for name in ["first", "second"] {
        case(folder, name, CREATES, Some(r#"{"root": "root.dir"}"#));
    }
    let (lines, content) = conformance(folder);
    assert!(content, "{lines:#?}");
    assert_eq!(lines.last().unwrap(), "5 passed, 0 failed");
    assert!(fs::read_dir(folder.join("root.dir")).unwrap().next().is_none(), "the folder itself stays as it is");
}

#[test]
fn a_case_that_is_not_as_it_should_be_fails_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    case(folder, "code", ARGUMENTS, None);
    case(folder, "text", ARGUMENTS, Some(r#"{"exit_code": 1, "stdout": "ho"}"#));
    case(folder, "fault", FAULTS, None);
    case(folder, "wish", FAULTS, Some(r#"{"operations": []}"#));
    case(folder, "lost", FAULTS, Some(r#"{"root": "nowhere"}"#));
    fs::write(folder.join("noise.wasm"), "no module").unwrap();
    let (lines, content) = conformance(folder);
    assert!(!content);
    for (name, reason) in [
        ("code", "exit code 1, not 0"),
        ("text", r#"stdout is "hi 0", not "ho""#),
        ("fault", "unreachable"),
        ("wish", "unknown field `operations`"),
        ("lost", "nowhere"),
        ("noise", "no WebAssembly module that runs here"),
    ] {
        let line = line(&lines, name);
        assert!(line.starts_with("FAIL ") && line.contains(reason), "{line}");
    }
    assert_eq!(lines.last().unwrap(), "0 passed, 6 failed");
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, content) = conformance(folder.path());
    assert!(!content && lines[0].contains("holds no .wasm file"), "{lines:?}");
}
