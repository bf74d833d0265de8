//! Contents on the wire: block signatures, the delta that they make, and the document that carries one; and what makes a
//! recorded content of a replayed one.
//!
//! A [`Signature`] says enough of a content to find its blocks in another one. [`delta::make`] writes a content as a
//! document: bytes, and copies of ranges of contents that the receiver has. [`apply`] makes the content of it again.
//! [`packed`] compresses documents, always to the same bytes, so that a transfer can go on where it was cut.
//! [`chunks`] cuts contents by what they hold.
//!
//! A [`Residual`] repairs the outputs of a replay: by an exact difference ([`exact`]) where the other side replayed too and
//! so has both contents, or by [`parity`] where it did not. A [`Hint`] says which of them an operation wants.
//!
//! Invariant: nothing here does I/O by itself or keeps state beyond one content. Whoever applies a document compares the hash of what comes out: nothing here is trusted for that.
#![forbid(unsafe_code)]

pub mod apply;
pub mod chunks;
pub mod delta;
pub mod document;
mod error;
pub mod exact;
mod hint;
pub mod packed;
pub mod parity;
pub mod residual;
mod rolling;
mod signature;
mod table;
mod varint;

pub use error::ResidualError;
pub use hint::{Hint, HintError};
pub use residual::Residual;
pub use signature::{BLOCK, Signature, Signer};
