//! See `targets::residual`.
#![no_main]

#[path = "../../host/residual/tests/common/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::residual(data));
