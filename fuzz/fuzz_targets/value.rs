//! See `targets::value`.
#![no_main]

#[path = "../../host/record/tests/common/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::value(data));
