//! See `targets::module_check`.
#![no_main]

#[path = "../../host/engine/tests/support/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::module_check(data);
});
