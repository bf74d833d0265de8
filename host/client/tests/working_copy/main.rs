//! The local half of the client on real folders, with real modules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod apply;
mod folders;
#[cfg(feature = "failpoints")]
mod recover;
mod remote;
mod run;
mod support;
mod values;
mod writers;
