//! See `targets::parity`.
#![no_main]

#[path = "../../host/residual/tests/common/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::parity(data));
