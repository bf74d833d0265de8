//! Kills at fail points.
fn main() {}
