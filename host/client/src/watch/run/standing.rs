//! How things stand, for whoever asks over the socket.

use super::Watcher;
use crate::watch::{Mode, WatchState};
use tokio::time::Instant;

impl Watcher<'_> {
    /// Shows how things stand to whoever asks over the socket.
    pub(super) fn show(&self) {
        let mode = match (&self.paused, &self.offline, &self.failing) {
            (Some(_), ..) => Mode::Paused,
            (None, Some(_), _) => Mode::Offline,
            (None, None, Some(_)) => Mode::Failing,
            (None, None, None) => Mode::Watching,
        };
        let (since, mut next, mut detail) = (self.offline.as_ref().map(|offline| offline.since), self.retry_at, None);
        if let Some(offline) = &self.offline {
            (next, detail) = (Some(offline.next_try), Some(offline.detail.clone()));
        } else if self.failing.is_some() {
            detail = self.failing.clone();
        }
        let polling = self.polling.clone();
        self.shown.set(move || {
            let now = Instant::now();
            WatchState {
                detail: detail.clone(),
                offline_seconds: since.map(|since| (now - since).as_secs()),
                next_try_seconds: next.map(|next| next.saturating_duration_since(now).as_secs()),
                polling: polling.clone(),
                ..standing(mode)
            }
        });
    }
}

/// Nothing to say but what it does.
pub(super) fn standing(mode: Mode) -> WatchState {
    WatchState {
        mode,
        detail: None,
        offline_seconds: None,
        next_try_seconds: None,
        polling: None,
        process: std::process::id(),
    }
}
