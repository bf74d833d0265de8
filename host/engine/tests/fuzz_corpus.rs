//! The fuzz target of the module check, run on stable over what fuzzing kept and what mutation makes of it, with the
//! compiler's word for it: what the check accepts is compiled, or refused cleanly where it is not valid.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../fuzz/stable.rs"]
#[allow(dead_code, reason = "the tests of the wire format use the rest")]
mod stable;
mod support;

use opship_engine::ModuleError;
use opship_record::Hash;
use support::targets::{is_valid, module_check};

#[test]
fn no_bytes_make_the_check_panic_or_call_a_valid_module_malformed() {
    stable::replay("module_check", 20_000, module_check);
}

#[test]
fn what_the_check_accepts_compiles_exactly_if_it_is_valid() {
    let engine = support::engine();
    let mut compiled = 0;
    stable::replay("module_check", 300, |bytes: &[u8]| {
        if bytes.len() > 4096 || !module_check(bytes) {
            return;
        }
        match engine.load(&Hash::of(bytes), &mut || Ok(bytes.to_vec())) {
            Ok(_) => assert!(is_valid(bytes)),
            Err(ModuleError::CompileFailed { detail }) => assert!(!is_valid(bytes), "{detail}"),
            Err(error) => panic!("{error}"),
        }
        compiled += u32::from(is_valid(bytes));
    });
    assert!(compiled > 10, "only {compiled} were compiled: the corpus says little");
}
