//! What can go wrong in a working copy.

use opship_engine::RunError;
use opship_record::TreePath;
use opship_world::SourceError;
use std::io;
use std::path::PathBuf;

/// What can go wrong in a working copy. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No `.opship` folder here or above.
    #[error("'{0}' is not in a working copy; run 'opship init' or 'opship clone' first")]
    NoWorkingCopy(PathBuf),
    /// There is a `.opship` folder already.
    #[error("'{0}' is a working copy already; go on with 'opship sync' there, or run 'opship leave' there first")]
    AlreadyWorkingCopy(PathBuf),
    /// A file of opship's own folder cannot be understood.
    #[error("'{file}' cannot be read: {detail}; restore it from a backup, or clone the workspace anew")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The state was written by a newer opship.
    #[error("the working copy was used by a newer opship (state version {0}); update this one")]
    Newer(u32),
    /// A call of the operating system failed.
    #[error("{what} failed: {error}{}", advice(error))]
    Io {
        /// What was to be done.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// The state database failed.
    #[error("the working copy's state (.opship/state.db) failed: {0}; free disk space if it is full, then try again")]
    Database(#[from] rusqlite::Error),
    /// A file was changed by another program each time while the operation ran.
    #[error("'{path}' kept changing while the operation ran, so nothing was changed; run it again when it is quiet")]
    Changed {
        /// The file.
        path: String,
    },
    /// Something that the module could not see stands where it wrote.
    #[error("'{path}' is in the way and not synced ({reason}), so nothing was changed; move it away and run again")]
    InTheWay {
        /// The path.
        path: TreePath,
        /// Why it is not synced.
        reason: String,
    },
    /// A folder that would have to change may not be written.
    #[error("the folder of '{path}' cannot be written ({error}), so nothing was changed; allow it with 'chmod u+w'")]
    ReadOnly {
        /// The path that was to be written.
        path: TreePath,
        /// The operating system's answer.
        error: io::Error,
    },
    /// The module did not run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file could not be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A record or list is beyond what the format allows.
    #[error(transparent)]
    Record(#[from] opship_record::Error),
    /// There is no such entry.
    #[error("there is no entry {0}; 'opship log' lists them")]
    NoEntry(u64),
    /// A module, a resource folder or a content cannot be read.
    #[error("cannot read '{path}': {detail}")]
    Read {
        /// The file, or the hash of the content.
        path: String,
        /// Why, and what to do next.
        detail: String,
    },
    /// A module, a resource folder or a content cannot be written.
    #[error("cannot write '{path}': {detail}; check space and permissions, then try again")]
    Write {
        /// The file, or the hash of the content.
        path: String,
        /// Why.
        detail: String,
    },
    /// No connection could be made.
    #[error(
        "cannot reach {server}: {detail}; nothing that was recorded here is lost, try again when the server is there"
    )]
    Unreachable {
        /// The server's address.
        server: String,
        /// Why.
        detail: String,
    },
    /// The connection broke.
    #[error("the connection broke: {detail}; run 'opship sync' again, it goes on where it stopped")]
    Connection {
        /// How.
        detail: String,
    },
    /// The server refused a request (RFC 9457).
    #[error("the server refused ({status}): {detail}")]
    Problem {
        /// The HTTP status.
        status: u16,
        /// The problem's type, without its prefix.
        kind: String,
        /// What happened and what to do next, in the server's words.
        detail: String,
    },
    /// The server said something that this build does not understand.
    #[error("the server's answer cannot be understood: {detail}; update the older one of client and server")]
    Protocol {
        /// What was wrong.
        detail: String,
    },
    /// The user's configuration cannot be understood.
    #[error("'{}' is not right: {detail}; correct it", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong, with line and key.
        detail: String,
    },
    /// The budget of a link is spent.
    #[error(
        "the budget of link '{link}' is spent; what waits is shipped when a new day or month gives more, over another link, \
         or at once with 'opship sync --anyway'"
    )]
    Budget {
        /// The link's name.
        link: String,
    },
    /// Another sync, or a watch, has the working copy.
    #[error("another 'opship sync' works on this folder; wait for it")]
    Busy,
    /// A watch did what was asked for, and failed.
    #[error("{0}")]
    Watch(String),
    /// A file is no whole bundle.
    #[error(
        "'{}' is no bundle that can be used: {detail}; nothing was changed, copy it again from where it was made or make it anew",
        file.display()
    )]
    Bundle {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// What was asked for does not fit the state of things.
    #[error("{0}")]
    Refused(String),
}

impl ClientError {
    /// For `map_err`: wraps an operating system's error with what was to be done.
    pub fn io<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ClientError {
        let what = what.into();
        move |error| ClientError::Io { what, error: error.into() }
    }

    /// Is the disk, or the user's quota on it, full?
    pub fn is_disk_full(&self) -> bool {
        match self {
            ClientError::Io { error, .. } => is_full(error),
            ClientError::Database(rusqlite::Error::SqliteFailure(error, _)) => {
                error.code == rusqlite::ErrorCode::DiskFull
            }
            _ => false,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_full(error) => "; free disk space and try again",
        io::ErrorKind::PermissionDenied => "; check the permissions and try again",
        _ => "",
    }
}
