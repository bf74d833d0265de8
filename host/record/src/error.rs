//! What can be wrong with bytes or values from outside.

/// Why bytes or values were refused. Nothing of a refused value is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what the type's CBOR looks like.
    #[error("malformed {what}: {detail}; the sender must use format version {}", crate::FORMAT_VERSION)]
    Malformed {
        /// Name of the type that was expected.
        what: &'static str,
        /// What the decoder met.
        detail: String,
    },
    /// The bytes decode, but encoding the value again gives other bytes (RFC 8949 §4.2.1), or a key is unknown.
    #[error("{what} is not in canonical form or holds unknown keys; encode it by RFC 8949 section 4.2.1")]
    NotCanonical {
        /// Name of the type that was expected.
        what: &'static str,
    },
    /// A size or count is over its limit.
    #[error("{what} is {actual}, over the limit of {limit}; split it or ship its result by value")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The size met, in the limit's unit.
        actual: u64,
        /// The limit.
        limit: u64,
    },
    /// The format version is another.
    #[error(
        "format version {found} is not supported (this build speaks {}); update the older side",
        crate::FORMAT_VERSION
    )]
    FormatVersion {
        /// The version found.
        found: u8,
    },
    /// A path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Fields contradict each other.
    #[error("inconsistent {what}: {detail}")]
    Inconsistent {
        /// Name of the type.
        what: &'static str,
        /// What contradicts what.
        detail: &'static str,
    },
    /// A hash in text form is not 64 hexadecimal digits.
    #[error("'{text}' is not a hash: 64 hexadecimal digits are expected")]
    HashText {
        /// The text met.
        text: String,
    },
}

/// Why a path was refused. Paths are validated here once, and enforced again at the file system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path starts with `/`.
    #[error("path '{0}' is absolute; paths are relative to the workspace's root")]
    Absolute(String),
    /// A component is `.`, `..` or empty.
    #[error("path '{0}' holds an empty component, '.' or '..'; write it without them")]
    Component(String),
    /// The path holds a NUL byte.
    #[error("path '{0}' holds a NUL byte; rename the file")]
    Nul(String),
    /// The path is not UTF-8.
    #[error("path '{0}' is not UTF-8; rename the file")]
    NotUtf8(String),
    /// A component is `.opship` in some case or normalisation: opship's own folder.
    #[error("path '{0}' names opship's own folder '.opship'; use another name")]
    Reserved(String),
    /// The path or a component is too long.
    #[error("path '{path}' is too long ({what} over {limit} bytes); use a shorter name")]
    TooLong {
        /// The path, cut short.
        path: String,
        /// `path` or `component`.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}
