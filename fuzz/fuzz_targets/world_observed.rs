//! See `targets::world_observed`.
#![no_main]

#[path = "../../host/world/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::targets::world_observed(data));
