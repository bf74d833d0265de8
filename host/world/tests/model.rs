//! A world follows a simple model (`common/model`) through any sequence of calls on paths and descriptors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::model::Op;
use common::targets::follow_model;
use proptest::prelude::*;

fn calls(most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any::<[u8; Op::BYTES]>().prop_map(Op::from_bytes), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_world_does_what_the_model_does(before in calls(60), run in calls(120)) {
        follow_model(&before, &run);
    }
}
