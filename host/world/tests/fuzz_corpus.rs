//! The fuzz targets, run on stable over what fuzzing kept and what mutation makes of it. Deterministic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "../../../fuzz/stable.rs"]
#[allow(dead_code, reason = "the tests of the wire format use the rest")]
mod stable;

use common::targets;

#[test]
fn no_calls_make_a_world_panic_write_elsewhere_or_differ() {
    stable::replay("world_calls", 3_000, targets::world_calls);
}

#[test]
fn a_world_follows_the_model_through_what_fuzzing_kept() {
    stable::replay("world_tree", 3_000, targets::world_tree);
}

#[test]
fn a_run_that_sees_the_same_goes_the_same_way_through_what_fuzzing_kept() {
    stable::replay("world_observed", 3_000, targets::world_observed);
}
