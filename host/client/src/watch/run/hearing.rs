//! What may change something: file events, the server's events, commands, and time.

use super::syncing::is_away;
use super::{LONGEST_STIR, LOOK_AGAIN, POLL, QUIET, Watcher};
use crate::budget::{self, LinkChoice};
use crate::sync::has_work;
use crate::watch::WatchEvent;
use crate::watch::remote::News;
use crate::watch::socket::Call;
use crate::{ClientError, WorkingCopy};
use tokio::time::Instant;

impl Watcher<'_> {
    pub(super) fn called(&mut self, call: Call) {
        match call {
            Call::Sync(choice, sender) => self.waiting.push((choice, sender)),
            Call::Look => self.look(),
        }
    }

    pub(super) fn hear(&mut self) {
        let heard = self.files.heard();
        if let Some(detail) = heard.deaf.clone().filter(|_| self.polling.is_none()) {
            self.polling = Some(detail.clone());
            (self.tell)(WatchEvent::Polling { detail });
        }
        self.heard.add(heard);
        let now = Instant::now();
        self.stir = Some((self.stir.map_or(now, |(first, _)| first), now));
    }

    pub(super) fn learn(&mut self, news: News) -> Result<(), ClientError> {
        match news {
            News::Up => {
                self.online();
                // What was not shipped while the server was away; a sync that finds nothing costs one request.
                self.look();
            }
            News::Head(version) => self.dirty |= version > self.copy.base()?.0,
            News::Look => {
                self.online();
                self.dirty = true;
            }
            News::Down(error, wait) if is_away(&error) => self.away(&error, Some(wait)),
            News::Down(error, wait) => self.failed(&error, wait),
        }
        Ok(())
    }

    /// Something was to be done about now.
    pub(super) fn due(&mut self) {
        let now = Instant::now();
        if self.sleep.has_slept() {
            tracing::info!("the machine slept: connecting again");
            if let Some(remote) = &self.remote {
                remote.try_now();
            }
            self.look();
        }
        self.notice_link();
        let quiet = self.stir.is_some_and(|(first, last)| now >= last + QUIET || now >= first + LONGEST_STIR);
        if quiet {
            self.stir = None;
            let heard = std::mem::take(&mut self.heard);
            if heard.concerns(self.copy).unwrap_or(true) {
                self.look();
                self.fresh |= self.dirty;
            }
        }
        if now >= self.look_at {
            self.look();
        }
    }

    /// Another link may take what had to wait.
    pub(super) fn notice_link(&mut self) {
        let name = link_name(self.copy);
        if name != self.link {
            self.link = name;
            (self.dirty, self.retry_at) = (true, None);
            if let Some(remote) = &self.remote {
                remote.try_now();
            }
        }
    }

    /// Looks at folder and log: is there something to sync? So an own pull's events cost no request.
    pub(super) fn look(&mut self) {
        let start = Instant::now();
        match self.has_work() {
            Ok(work) => self.dirty |= work,
            // The sync tells what is the matter.
            Err(error) => {
                tracing::debug!(%error, "cannot look at the folder");
                self.dirty = true;
            }
        }
        let every = if self.polling.is_some() { POLL.max(10 * start.elapsed()) } else { LOOK_AGAIN };
        self.look_at = Instant::now() + every;
    }

    pub(super) fn has_work(&self) -> Result<bool, ClientError> {
        has_work(self.copy, &LinkChoice::default(), true)
    }

    pub(super) fn has_ready_entries(&self) -> Result<bool, ClientError> {
        has_work(self.copy, &LinkChoice::default(), false)
    }
}

/// The name of the link in use, if it has one.
pub(super) fn link_name(copy: &WorkingCopy) -> Option<String> {
    let server = copy.config().server.parse().ok()?;
    budget::link_name(&server, &LinkChoice::default()).ok()?
}
