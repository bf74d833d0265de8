//! The few system calls that have no safe wrapper.
//!
//! Each use of `unsafe` states why it is sound and has a test. Invariant: nothing here keeps state.
#![deny(unsafe_code)]

mod keepalive;
mod lease;
mod unsent;

pub use keepalive::notice_loss;
pub use lease::is_open_for_writing;
pub use unsent::limit_unsent;
