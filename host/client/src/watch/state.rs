//! How a watch stands, for whoever asks it.

use serde::{Deserialize, Serialize};

/// How a watch stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchState {
    /// What it does.
    pub mode: Mode,
    /// Why, where there is something to say.
    pub detail: Option<String>,
    /// For how many seconds the server could not be reached.
    pub offline_seconds: Option<u64>,
    /// In how many seconds it is tried again.
    pub next_try_seconds: Option<u64>,
    /// Why the folder is looked at from time to time instead of being heard of.
    pub polling: Option<String>,
    /// The watch's process.
    pub process: u32,
}

/// What a watch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It is in sync, or about to be.
    Watching,
    /// A sync is at work.
    Syncing,
    /// It waits for the server.
    Offline,
    /// The last sync failed for another reason.
    Failing,
    /// It is paused.
    Paused,
}

impl Mode {
    /// The word for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Watching => "watching",
            Mode::Syncing => "syncing",
            Mode::Offline => "offline",
            Mode::Failing => "failing",
            Mode::Paused => "paused",
        }
    }
}
