//! What can go wrong with a document.

use std::io;

/// What can go wrong while a document is read or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidualError {
    /// The bytes are no document of this version.
    #[error("the document is malformed: {0}; send the content whole")]
    Malformed(&'static str),
    /// It would make more bytes than the receiver takes.
    #[error("the document makes {length} bytes and at most {limit} are taken; send less")]
    TooLong {
        /// Bytes that it says it makes.
        length: u64,
        /// Bytes that are taken.
        limit: u64,
    },
    /// A content that it copies from is not here.
    #[error("the content {0} that the document copies from is not here; send the content whole")]
    BaseMissing(opship_record::Hash),
    /// A column cannot have so many parity symbols.
    #[error("a column has an even number of parity symbols from 2 to {max}, and not {0}; choose another", max = crate::parity::MAX_SYMBOLS)]
    Symbols(u16),
    /// The parity of so long a content would be too large.
    #[error("the parity takes {bytes} bytes and may take {max}; ship the difference or the content", max = crate::parity::MAX_PARITY)]
    ParityTooLarge {
        /// Bytes that it would take.
        bytes: u64,
    },
    /// Parity repairs no change of length.
    #[error(
        "the content has {length} bytes and the recorded one {recorded}, which parity cannot repair; ship the difference or the content"
    )]
    OtherLength {
        /// Bytes of the content.
        length: u64,
        /// Bytes of the recorded one.
        recorded: u64,
    },
    /// More bytes differ than the parity can repair.
    #[error("more bytes differ than the parity can repair; ship the difference or the content")]
    Unrepairable,
    /// A residual is not in its one form, of another version or too large.
    #[error(transparent)]
    Record(#[from] opship_record::Error),
    /// Reading the document or a base, or writing the result, failed.
    #[error("applying a document failed: {0}; try again")]
    Io(#[from] io::Error),
}
