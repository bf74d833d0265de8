//! Continuous sync of one working copy: changes here by file events, changes elsewhere by the server's events.
//!
//! One watch a working copy, held by a lock. What it does is a sync like any other, under the same lock as one by hand, so
//! it may be ended at any moment and nothing is lost. Commands speak to it over a socket in `.opship`.

mod backoff;
mod connect;
mod files;
mod lock;
mod pause;
mod protocol;
mod remote;
mod run;
mod socket;
mod state;
mod wake;

pub use connect::{Asked, ask_status, ask_sync, nudge};
pub use pause::Pause;
pub use run::{Settings, watch};
pub use state::{Mode, WatchState};

use crate::sync::SyncReport;
use std::time::Duration;

/// What a watch tells while it goes on.
#[derive(Debug)]
pub enum WatchEvent {
    /// It has begun. `polling`: why it looks at the folder from time to time instead of hearing of changes.
    Started {
        /// The reason, with what to do about it.
        polling: Option<String>,
    },
    /// It must look at the folder from time to time from now on.
    Polling {
        /// The reason, with what to do about it.
        detail: String,
    },
    /// A sync is done.
    Synced(Box<SyncReport>),
    /// The server cannot be reached. Told once until it can again.
    Offline {
        /// Why.
        detail: String,
        /// When it is tried again.
        next_try: Duration,
    },
    /// The server is there again.
    Online,
    /// A sync failed for another reason than the connection.
    Failed {
        /// Why, and what to do next.
        detail: String,
        /// When it is tried again.
        next_try: Duration,
    },
    /// Nothing is synced until `resume`, or for this long.
    Paused {
        /// For how long; `None`: until told otherwise.
        left: Option<Duration>,
    },
    /// The pause is over.
    Resumed,
    /// It has ended.
    Stopped,
}
