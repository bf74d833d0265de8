//! The fuzz targets, run on stable over what is kept for them and what mutation makes of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../fuzz/stable.rs"]
#[allow(dead_code, reason = "shared with the tests of other crates")]
mod stable;
#[path = "common/targets.rs"]
mod targets;

#[test]
fn targets_hold_on_what_is_kept_and_near_it() {
    stable::replay("bundle", 3_000, targets::bundle);
}
