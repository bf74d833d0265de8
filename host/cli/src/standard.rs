//! The standard operations that this binary carries.

/// Names and module bytes.
pub(crate) const MODULES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/standard.rs"));
