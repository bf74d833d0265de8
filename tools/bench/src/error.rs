//! What ends a benchmark.

use std::io;

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The client half.
    #[error(transparent)]
    Client(#[from] opship_client::ClientError),
    /// The engine could not be made.
    #[error(transparent)]
    Engine(#[from] opship_engine::EngineError),
    /// A module cannot be loaded.
    #[error(transparent)]
    Module(#[from] opship_engine::ModuleError),
    /// A run has no result.
    #[error(transparent)]
    Run(#[from] opship_engine::RunError),
    /// A path is none.
    #[error(transparent)]
    Path(#[from] opship_record::PathError),
    /// A residual cannot be made or read.
    #[error(transparent)]
    Residual(#[from] opship_residual::ResidualError),
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

pub(crate) type Result<T> = std::result::Result<T, BenchError>;

impl BenchError {
    /// Makes an error of the system's: `doing` ends "cannot …".
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
        move |source| BenchError::Io { doing: doing.into(), source }
    }
}
