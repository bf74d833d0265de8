//! A module as large as a toolchain is added, run, and replayed on the server, within the limits that an administrator has.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::Hash;
use opship_tests::{Place, Server, assert_same_tree, verdicts};
use std::fmt::Write;
use std::fs;

const DATA: usize = 73 << 20;
const FUNCTIONS: u64 = 20_000;
/// Bytes at the end of the data that the module prints.
const SHOWN: usize = 64 << 10;

/// Bytes that do not compress.
fn data() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(DATA);
    while bytes.len() < DATA {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

/// Calls each of its functions once, exits with 1 if they do not add up, and prints the end of its data.
fn module(data: &[u8]) -> Vec<u8> {
    let (pages, vector) = (data.len() / 65536 + 1, data.len());
    let mut text = format!(
        r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") {pages})
        (func $f0 (param i64) (result i64) (local.get 0))"#
    );
    for number in 1..=FUNCTIONS {
        let below = number - 1;
        write!(
            text,
            "(func $f{number} (param i64) (result i64)
                (if (result i64) (i64.eqz (local.get 0))
                    (then (i64.const {number}))
                    (else (i64.add (i64.const {number}) (i64.rem_u (local.get 0) (i64.const 2)))))
                (i64.add (call $f{below} (i64.xor (local.get 0) (i64.const 1)))))"
        )
        .unwrap();
    }
    let sum = FUNCTIONS * (FUNCTIONS + 1) / 2 + FUNCTIONS / 2;
    write!(
        text,
        r#"(func (export "_start")
            (if (i64.ne (call $f{FUNCTIONS} (i64.const 0)) (i64.const {sum})) (then (call $exit (i32.const 1))))
            (i32.store (i32.const {vector}) (i32.const {start}))
            (i32.store (i32.const {length_at}) (i32.const {SHOWN}))
            (drop (call $write (i32.const 1) (i32.const {vector}) (i32.const 1) (i32.const {vector})))))"#,
        start = data.len() - SHOWN,
        length_at = vector + 4,
    )
    .unwrap();
    let mut bytes = wat::parse_str(&text).unwrap();
    // Written as text, the data would be three times as long. Its section comes last.
    let mut section = vec![1, 0, 0x41, 0, 0x0b];
    number(data.len(), &mut section);
    bytes.push(11);
    number(section.len() + data.len(), &mut bytes);
    bytes.extend(section);
    bytes.extend(data);
    bytes
}

/// An unsigned number as WebAssembly writes it.
fn number(mut value: usize, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[test]
fn a_module_of_75_megabytes_is_added_run_and_replayed() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let data = data();
    let bytes = module(&data);
    assert!(bytes.len() > 75_000_000);
    let file = place.path("large.wasm");
    fs::write(&file, &bytes).unwrap();
    place.ok(&here, ["module", "add", file.to_str().unwrap(), "--name", "large"]);
    place.ok(&here, ["run", "-o", "printed", "large"]);
    let printed = fs::read(here.join("printed")).unwrap();
    assert_eq!(Hash::of(&printed), Hash::of(&data[data.len() - SHOWN..]));
    place.ok(&here, ["sync", "--ship", "operation"]);
    assert_eq!(verdicts(&place, &here).last().map(String::as_str), Some("matched"));
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}
