//! See `targets::bundle`.
#![no_main]

#[path = "../../host/client/tests/common/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::bundle(data));
