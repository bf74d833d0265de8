//! What can go wrong in the store.

use opship_record::tree::TreeError;
use opship_record::{Hash, TreePath};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why the store could not do what it was asked for. Nothing of a failed call is kept but, at most, blobs that no
/// version names.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is no such thing, or the principal may not see it: the two look the same.
    #[error("{what} '{name}' does not exist or is not visible to you; check the name and your access")]
    NotFound {
        /// What was looked for: `workspace`, `module` and so on.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The principal sees the workspace, but his role is too low for this.
    #[error("this needs the role '{needed}' in workspace '{workspace}'; ask its administrator for it")]
    Forbidden {
        /// The workspace.
        workspace: String,
        /// The role that is needed.
        needed: &'static str,
    },
    /// Only an administrator of the server may do this.
    #[error("only an administrator of the server may do this; use an admin token")]
    AdminOnly,
    /// Something of this name exists already.
    #[error("{what} '{name}' exists already; choose another name")]
    Exists {
        /// What exists.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A name is not of the permitted form.
    #[error("'{name}' cannot be the name of a {what}: {detail}")]
    Name {
        /// What was to be named.
        what: &'static str,
        /// The name.
        name: String,
        /// What names look like.
        detail: &'static str,
    },
    /// There is no such setting, or it does not take this value.
    #[error("'{name}' cannot be set so: {detail}")]
    Setting {
        /// The name that was given.
        name: String,
        /// Which names or values there are.
        detail: String,
    },
    /// An invite cannot be used; which of the causes it is, nobody is told.
    #[error("the invite is not valid: it is unknown, used, expired or revoked; ask whoever sent it for a new one")]
    Invite,
    /// Retention has let the version go.
    #[error("version {version} is beyond the workspace's retention and its files are gone; choose a newer version")]
    Forgotten {
        /// Its number.
        version: u64,
    },
    /// Collecting or checking is under way, and one of them at a time is enough.
    #[error("the store is being collected or checked already; try again when that has ended")]
    Busy,
    /// The bytes of an upload have another hash than announced. They were removed.
    #[error("the bytes have hash {found}, not {expected}; send them again")]
    WrongHash {
        /// The announced hash.
        expected: Hash,
        /// The hash of what came.
        found: Hash,
    },
    /// An upload is longer than permitted. It was removed.
    #[error("the upload is over the limit of {limit} bytes; ask the server's operator to raise it")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The sender's stream failed before its end. What came was removed.
    #[error("the upload broke off ({0}); send it again")]
    Upload(String),
    /// Blobs or tree nodes that something names are not here, or not visible in the workspace.
    #[error("{} blobs and {} tree nodes are missing in the workspace; upload them first", blobs.len(), nodes.len())]
    Incomplete {
        /// The missing blobs.
        blobs: Vec<Hash>,
        /// The missing tree nodes.
        nodes: Vec<Hash>,
    },
    /// A change or tree contradicts what is here.
    #[error("'{path}' does not fit: {detail}")]
    Unfit {
        /// The path, or a node's hash.
        path: String,
        /// What does not fit.
        detail: String,
    },
    /// The disk or the server's share of it is full (or no longer takes writes). The state is as before the call.
    #[error("the server cannot write, its disk or quota is full; free space in {data} and try again, nothing was lost")]
    DiskFull {
        /// The data directory.
        data: PathBuf,
    },
    /// Another server uses the data directory.
    #[error("{data} is in use by the server with process id {pid}; stop it or use another data directory")]
    Locked {
        /// The data directory.
        data: PathBuf,
        /// The other server's process id, `unknown` if it cannot be told.
        pid: String,
    },
    /// The data directory was written by a newer opship.
    #[error("the data directory has layout {found}, this build knows up to {known}; update opship")]
    Newer {
        /// The layout found.
        found: i64,
        /// The newest layout that this build knows.
        known: i64,
    },
    /// Stored bytes are not what they must be.
    #[error("stored data is damaged ({0}); restore a backup or run 'opship admin fsck'")]
    Damaged(String),
    /// The operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was done, with the path.
        what: String,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// SQLite failed.
    #[error("the metadata database failed: {0}; see the server's log")]
    Database(Arc<rusqlite::Error>),
    /// The store is shutting down.
    #[error("the server is stopping; try again in a moment")]
    Closed,
}

impl StorageError {
    pub(crate) fn not_found(what: &'static str, name: impl Into<String>) -> StorageError {
        StorageError::NotFound { what, name: name.into() }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> StorageError {
        let what = what.into();
        move |source| StorageError::Io { what, source: Arc::new(source) }
    }

    pub(crate) fn damaged(what: impl std::fmt::Display) -> StorageError {
        StorageError::Damaged(what.to_string())
    }

    /// Is it what is stored that is not as it must be, or cannot be read?
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StorageError::Damaged(_) => true,
            StorageError::Database(error) => is_unreadable(error),
            _ => false,
        }
    }

    /// Says [`StorageError::DiskFull`] where that is the cause, so that every caller sees one error for it.
    pub(crate) fn classify(self, data: &std::path::Path) -> StorageError {
        let full = match &self {
            StorageError::Io { source, .. } => is_full(source),
            StorageError::Database(error) => error.sqlite_error().is_some_and(is_database_full),
            _ => false,
        };
        if full { StorageError::DiskFull { data: data.to_owned() } } else { self }
    }
}

/// No space, quota or file size limit: to us all the same.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A file that is no database, a page or a value of another form than expected, or a disk that does not give what is on it.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => true,
        _ => matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | SystemIoFailure)),
    }
}

/// SQLite says FULL for ENOSPC only, and "error while writing" for a quota.
fn is_database_full(error: &rusqlite::ffi::Error) -> bool {
    error.code == rusqlite::ErrorCode::DiskFull || error.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> StorageError {
        StorageError::Database(Arc::new(error))
    }
}

impl From<TreeError<StorageError>> for StorageError {
    fn from(error: TreeError<StorageError>) -> StorageError {
        match error {
            TreeError::Store(error) => error,
            TreeError::Unfit { path, detail } => unfit(&path, detail),
            other => StorageError::damaged(other),
        }
    }
}

pub(crate) fn unfit(path: &TreePath, detail: impl Into<String>) -> StorageError {
    StorageError::Unfit { path: path.to_string(), detail: detail.into() }
}
