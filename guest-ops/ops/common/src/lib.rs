//! What the standard operations share: command lines in the GNU manner, messages and dates.
#![forbid(unsafe_code)]

pub mod args;
pub mod date;
mod text;

pub use text::{complain, os_str, os_string, print, reason};
