//! The server: HTTP API, replay workers, verdicts.
//!
//! Invariants: no handler runs without an authenticated principal, and none touches a workspace without a
//! [`opship_storage::Scope`] made for that principal; nothing is `matched` unless the server's own replay gave every
//! digest of the record; an entry is answered as ended only when that is durable; the HTTP side never waits for a
//! replay on one of its own threads.
#![forbid(unsafe_code)]

mod auth;
mod body;
mod config;
mod contents;
mod decide;
mod error;
mod failures;
mod inflight;
mod json;
mod listen;
mod lists;
mod memory;
mod modules;
mod operation;
mod outcomes;
mod pace;
mod policy;
mod problem;
mod race;
mod range;
mod rebase;
mod register;
mod repair;
mod replay;
mod report;
mod routes;
mod server;
mod shares;
mod ship;
mod state;
mod transfers;
mod value;
mod workers;
mod zstd_stream;

pub use config::ServerConfig;
pub use error::ServerError;
pub use server::Server;
