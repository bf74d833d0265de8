//! What can keep a server from starting or running.

use opship_engine::EngineError;
use opship_storage::StorageError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is not a loopback one.
    #[error(
        "refusing to listen on {address}: tokens and content would travel unencrypted; listen on 127.0.0.1 and put a \
         TLS proxy or an SSH tunnel before it, or say --insecure"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file or folder of the server's own cannot be made.
    #[error("cannot use {path}: {source}; check its owner and mode")]
    Folder {
        /// The path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The threads for replays cannot be started.
    #[error("cannot start the replay workers: {0}; raise the limit on processes or lower --workers")]
    Workers(#[source] io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
