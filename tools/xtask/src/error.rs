//! What can go wrong in a command, said so that the reader knows what to do next.

use std::io;
use std::path::Path;
use std::process::ExitStatus;

/// The result of everything here.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a command of xtask did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file could not be read, written or made.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("`{program}` could not be started ({source}); is it installed and on PATH?")]
    Start {
        /// Its name.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program ran and failed; its own output says why.
    #[error("`{command}` failed ({status}){output}")]
    Failed {
        /// The command as one could type it.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its captured output on lines of its own, or nothing when it was shown already.
        output: String,
    },
    /// Something is missing on this machine; the text names the ways to get it.
    #[error("{0}")]
    Missing(String),
    /// Tests were skipped where none may be.
    #[error(
        "{0} test(s) were skipped, and with CI=true a skipped test is a failure; \
         run them, or remove what marks them as ignored"
    )]
    Skipped(u64),
    /// A program's answer could not be understood.
    #[error("unexpected output of {program}: {detail}")]
    Output {
        /// Which program.
        program: &'static str,
        /// What was wrong with it.
        detail: String,
    },
    /// The demonstration went differently than it must.
    #[error("{0}")]
    Demo(String),
    /// Steps of a command that goes on after a failure.
    #[error("failed: {}; their output is above", .0.join(", "))]
    Steps(Vec<String>),
}

impl Error {
    /// Makes the `map_err` of a file operation: `what` is a verb, such as "read".
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }
}
