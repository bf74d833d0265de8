//! A sync, and what follows from how it went.

use super::standing::standing;
use super::{BUSY, Offline, WAITS, Watcher};
use crate::ClientError;
use crate::budget::LinkChoice;
use crate::modules::ModuleBook;
use crate::sync::{Sync, SyncReport};
use crate::watch::socket::Outcome;
use crate::watch::{Mode, WatchEvent};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Watcher<'_> {
    /// One sync, and what follows from it.
    pub(super) async fn sync(&mut self) -> Result<(), ClientError> {
        self.shown.set(|| standing(Mode::Syncing));
        // Those that want the same link get the same sync; the others wait for the next.
        let choice = self.waiting.first().map(|(choice, _)| choice.clone()).unwrap_or_default();
        let done = self.attempt(&choice).await;
        self.tried = Some(Instant::now());
        (self.fresh, self.busy_until) = (false, None);
        match done {
            Ok(report) => self.synced(report, &choice)?,
            // Somebody's command has the lock for a while; who waits here waits for it too.
            Err(ClientError::Busy) => self.busy_until = Some(Instant::now() + BUSY),
            Err(error) => {
                self.answer(&choice, &Err(error.to_string()));
                if is_away(&error) {
                    self.away(&error, None);
                } else {
                    let wait = self.failures.wait();
                    self.failed(&error, wait);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn attempt(&self, choice: &LinkChoice) -> Result<SyncReport, ClientError> {
        let mut book = ModuleBook::open(&self.copy.own_folder(), self.settings.standard)?;
        let sync = Sync::over(self.copy, &mut book, &*self.shown, choice)?;
        sync.with_engine(Box::new(self.settings.engine)).run().await
    }

    /// Tells those who wanted a sync over this link how it went.
    pub(super) fn answer(&mut self, choice: &LinkChoice, outcome: &Outcome) {
        let (served, others) = self.waiting.drain(..).partition(|(wanted, _)| wanted == choice);
        self.waiting = others;
        let served: Vec<(LinkChoice, oneshot::Sender<Outcome>)> = served;
        served.into_iter().for_each(|(_, waiting)| drop(waiting.send(outcome.clone())));
    }

    pub(super) fn synced(&mut self, report: SyncReport, choice: &LinkChoice) -> Result<(), ClientError> {
        self.known.store(self.copy.base()?.0, Ordering::Relaxed);
        if self.online()
            && let Some(remote) = &self.remote
        {
            remote.try_now();
        }
        // Where that cannot be told, the next sync tells what is the matter.
        (self.dirty, self.retry_at) = (self.has_ready_entries().unwrap_or(true), None);
        match self.dirty {
            // They could not be shipped this time.
            true => self.retry_at = Some(Instant::now() + self.failures.wait()),
            false => self.failures.reset(),
        }
        let whole = match self.carried.take() {
            Some(before) => before.and(report.clone()),
            None => report.clone(),
        };
        self.answer(choice, &Ok(Box::new(whole)));
        // Whoever asked while this one was at work may have changed something since, and wants to see this one too.
        while let Ok(call) = self.calls.try_recv() {
            self.called(call);
        }
        if !self.waiting.is_empty() {
            self.carried = Some(report.clone());
        }
        if report.is_eventful() {
            (self.tell)(WatchEvent::Synced(Box::new(report)));
        }
        Ok(())
    }

    /// The server answers. `true`: it did not before.
    pub(super) fn online(&mut self) -> bool {
        if self.failing.take().is_some() {
            self.retry_at = None;
        }
        let was_away = self.offline.take().is_some();
        if was_away {
            (self.tell)(WatchEvent::Online);
        }
        was_away
    }

    /// The server does not answer; it is tried again after `wait`.
    pub(super) fn away(&mut self, error: &ClientError, wait: Option<Duration>) {
        let now = Instant::now();
        let detail = error.to_string();
        if let Some(offline) = &mut self.offline {
            offline.next_try = wait.map_or(offline.next_try, |wait| now + wait);
            offline.detail = detail;
            return;
        }
        let wait = wait.unwrap_or(WAITS.0);
        self.offline = Some(Offline { since: now, next_try: now + wait, detail: detail.clone() });
        (self.tell)(WatchEvent::Offline { detail, next_try: wait });
        // It may believe to be connected still.
        if let Some(remote) = &self.remote {
            remote.try_now();
        }
    }

    /// It cannot go on like this, and it is not the connection.
    pub(super) fn failed(&mut self, error: &ClientError, wait: Duration) {
        let detail = error.to_string();
        self.retry_at = Some(Instant::now() + wait);
        if self.failing.as_ref() != Some(&detail) {
            (self.tell)(WatchEvent::Failed { detail: detail.clone(), next_try: wait });
            self.failing = Some(detail);
        }
    }
}

/// Is the server, or the way to it, gone for now?
pub(super) fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Connection { .. } => true,
        ClientError::Problem { status, .. } => matches!(status, 502..=504),
        _ => false,
    }
}
