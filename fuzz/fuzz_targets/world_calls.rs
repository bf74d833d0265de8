//! See `targets::world_calls`.
#![no_main]

#[path = "../../host/world/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::targets::world_calls(data));
