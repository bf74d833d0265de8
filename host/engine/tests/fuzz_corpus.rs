//! The fuzz target of the module check, run on stable over what fuzzing kept and what mutation makes of it, with the
//! compiler's word for it: what the check accepts is compiled, or refused cleanly where it is not valid.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../fuzz/stable.rs"]
#[allow(dead_code, reason = "the tests of the wire format use the rest")]
mod stable;
mod support;

use opship_engine::ModuleError;
use opship_record::Hash;
use stable::{Numbers, mutate};
use support::targets::{is_valid, module_check};

#[test]
fn no_bytes_make_the_check_panic_or_call_a_valid_module_malformed() {
    stable::replay("module_check", 20_000, module_check);
}

/// What stands in a module beside its `_start`: something of each section and proposal.
const BODIES: [&str; 9] = [
    "(tag $e (param i32)) (func (result i32) (block $h (result i32) (try_table (catch $e $h) (throw $e (i32.const 1))) \
     (i32.const 0)))",
    "(func $f (return_call $f)) (start 0)",
    "(func (result v128) (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 1 1)))",
    "(data \"passive\") (func (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1)) (data.drop 0))",
    "(data (i32.const 8) \"active\") (func (memory.fill (i32.const 0) (i32.const 1) (i32.const 2)))",
    "(func (result i32 i32) (i32.const 1) (i32.extend8_s (i32.const 2)))",
    "(table 1 externref) (func (result i32) (ref.is_null (ref.null extern)))",
    "(table 9 funcref) (elem (i32.const 0) 0 0) (func (call_indirect (i32.const 0))) (global (mut i32) (i32.const 4))",
    "(func (param i32) (local i64 f32) (block (loop (br_if 1 (local.get 0)) (br 0))) (br_table 0 0 (i32.const 0)))",
];

/// Valid modules, what mutation makes of them, and what fuzzing kept.
fn modules() -> Vec<Vec<u8>> {
    let text = |body: &str| format!(r#"(module (memory (export "memory") 1) {body} (func (export "_start")))"#);
    let imports = r#"(module (import "wasi_snapshot_preview1" "clock_time_get" (func (param i32 i64 i32) (result i32)))
        (import "opship_1" "progress" (func (param i64 i64) (result i32)))
        (memory (export "memory") 1) (func (export "_start") (drop (call 1 (i64.const 1) (i64.const 2)))))"#;
    let mut valid: Vec<Vec<u8>> = BODIES.iter().map(|body| support::bytes(&text(body))).collect();
    valid.push(support::bytes(imports));
    let mut numbers = Numbers(7);
    let mutated = |index: usize| {
        let mut module = valid[index % valid.len()].clone();
        mutate(&mut numbers, &mut module, &valid[(index + 1) % valid.len()]);
        module
    };
    let mutated: Vec<Vec<u8>> = (0..2_000).map(mutated).collect();
    [valid, mutated, stable::corpus("module_check")].concat()
}

#[test]
fn what_the_check_accepts_compiles_exactly_if_it_is_valid() {
    let engine = support::engine();
    let (mut compiled, mut refused) = (0, 0);
    for bytes in modules() {
        if !module_check(&bytes) {
            continue;
        }
        match engine.load(&Hash::of(&bytes), &mut || Ok(bytes.clone())) {
            Ok(_) => {
                assert!(is_valid(&bytes), "compiled: {bytes:x?}");
                compiled += 1;
            }
            Err(ModuleError::CompileFailed { detail }) => {
                assert!(!is_valid(&bytes), "{detail}: {bytes:x?}");
                refused += 1;
            }
            Err(error) => panic!("{error}: {bytes:x?}"),
        }
    }
    assert!(compiled >= 10 && refused > 10, "{compiled} compiled and {refused} refused say little");
}
