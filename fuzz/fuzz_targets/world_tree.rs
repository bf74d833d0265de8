//! See `targets::world_tree`.
#![no_main]

#[path = "../../host/world/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::targets::world_tree(data));
