//! What is shared by both ends about parts of contents.
//!
//! Invariant: nothing here does I/O by itself or keeps state beyond one content.
#![forbid(unsafe_code)]

pub mod chunks;
