//! A first import that is cut off again and again goes on where it was: what has arrived is not sent again.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::soak::{Import, import};

#[test]
fn an_import_that_is_killed_ten_times_sends_little_more_than_one_that_is_not() {
    let small = Import { longest: 2048, piece: 50, rate: Some(4 << 20), ..Import::new(3000, 10, 7) };
    let counts = import(small).unwrap();
    assert!(counts["kills"] >= 5, "{counts:?}");
}
