//! The few system calls that have no safe wrapper.
//!
//! Each use of `unsafe` states why it is sound and has a test. Invariant: nothing here keeps state, but for the id of the
//! program that signals are passed on to, which a signal handler can find nowhere else.
#![deny(unsafe_code)]

mod inherit;
mod keepalive;
mod lease;
mod signals;
mod unsent;

pub use inherit::keep_from_programs;
pub use keepalive::notice_loss;
pub use lease::is_open_for_writing;
pub use signals::{end_by, stand_alone, stand_aside, stand_beside};
pub use unsent::limit_unsent;
