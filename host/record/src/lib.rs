//! Records, entries, trees, paths, digests and their canonical encoding.
//!
//! Everything that two ends of opship must agree on to the byte lives here, as plain data. Invariant: this crate
//! does no I/O, reads no clock and makes no random numbers. `docs/wire-format.md` is its prose form, and the test
//! vectors there are checked by this crate's tests.
#![forbid(unsafe_code)]

pub mod answer;
pub mod codec;
pub mod effect;
pub mod entry;
mod error;
mod hash;
pub mod limits;
pub mod node;
pub mod observation;
mod path;
pub mod plan;
pub mod record;
pub mod token;
pub mod tree;
pub mod version;

pub use error::{Error, PathError};
pub use hash::{Hash, Hasher};
pub use path::TreePath;

/// Version of the wire format that this build writes. It reads this one and no other.
pub const FORMAT_VERSION: u8 = 1;
