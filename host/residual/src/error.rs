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
    /// Reading the document or a base, or writing the result, failed.
    #[error("applying a document failed: {0}; try again")]
    Io(#[from] io::Error),
}
