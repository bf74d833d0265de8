//! See `targets::lists`.
#![no_main]

#[path = "../../host/record/tests/common/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::lists(data));
