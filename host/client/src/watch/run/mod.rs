//! The watch itself: one loop that waits for what may change something, and syncs when something has.

mod hearing;
mod standing;
mod syncing;

use super::WatchEvent;
use super::backoff::Backoff;
use super::files::{Files, Heard};
use super::remote::{News, Remote};
use super::socket::{Call, Outcome, Shown, Socket};
use super::state::Mode;
use super::wake::SleepDetector;
use crate::budget::LinkChoice;
use crate::sync::{SyncReport, api_for};
use crate::{ClientError, WorkingCopy};
use hearing::link_name;
use opship_engine::Engine;
use standing::standing;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Changes are looked at when the folder has been quiet for this long.
const QUIET: Duration = Duration::from_millis(500);
/// They are looked at after this long in any case.
const LONGEST_STIR: Duration = Duration::from_secs(5);
/// How often the clocks are compared.
const TICK: Duration = Duration::from_secs(30);
/// The folder is looked at this often although nothing was heard: a network file system tells of nobody else's changes.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// Where nothing is heard, it is looked at this often, but at most for a tenth of the time.
const POLL: Duration = Duration::from_secs(5);
/// While the server is away, a change here makes it be tried at once, but not more often than this.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// First and longest wait after a failure that is not the connection's.
const WAITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// How long a command that has the lock is left alone.
const BUSY: Duration = Duration::from_secs(1);

/// What a watch is told by its caller.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The modules that this program embeds.
    pub standard: &'static [(&'static str, &'static [u8])],
    /// Time between the server's signs of life.
    pub beat: Duration,
    /// Makes the engine that replays others' operations.
    pub engine: fn() -> Result<Engine, ClientError>,
}

/// Keeps a working copy in sync until `stop`.
///
/// # Errors
/// [`ClientError::Refused`] if a watch runs already, or the folder is removed or moved; [`ClientError::Io`], [`ClientError::Database`] if the working copy's
/// own state cannot be used. Whatever a sync meets is told and tried again.
pub async fn watch(
    copy: &WorkingCopy,
    settings: &Settings,
    tell: &mut dyn FnMut(WatchEvent),
    stop: &CancellationToken,
) -> Result<(), ClientError> {
    let Some(lock) = copy.try_lock_watch()? else {
        return Err(ClientError::Refused("a watch runs on this folder already; 'opship status' shows it".to_owned()));
    };
    let (sender, calls) = mpsc::channel(64);
    let shown = Arc::new(Shown::new(|| standing(Mode::Watching)));
    let _socket = Socket::listen(copy, Arc::clone(&shown), sender)?;
    let mut watcher = Watcher::new(copy, settings, tell, shown, calls)?;
    watcher.start();
    watcher.run(&lock, stop).await?;
    (watcher.tell)(WatchEvent::Stopped);
    Ok(())
}

struct Watcher<'a> {
    copy: &'a WorkingCopy,
    settings: &'a Settings,
    tell: &'a mut dyn FnMut(WatchEvent),
    shown: Arc<Shown>,
    calls: mpsc::Receiver<Call>,
    files: Files,
    /// Absent while paused.
    remote: Option<Remote>,
    /// The version that the working copy stands on, for the stream of events.
    known: Arc<AtomicU64>,
    sleep: SleepDetector,
    heard: Heard,
    /// When something was heard first and last, since it was looked at.
    stir: Option<(Instant, Instant)>,
    look_at: Instant,
    /// Is there something to sync?
    dirty: bool,
    /// Was something changed here since the last try?
    fresh: bool,
    /// Who waits for a sync to be done.
    waiting: Vec<(LinkChoice, oneshot::Sender<Outcome>)>,
    /// What the sync did that was at work when they asked.
    carried: Option<SyncReport>,
    offline: Option<Offline>,
    failing: Option<String>,
    failures: Backoff,
    /// Not before this, unless asked or something new was changed here.
    retry_at: Option<Instant>,
    /// Somebody else has the lock.
    busy_until: Option<Instant>,
    tried: Option<Instant>,
    polling: Option<String>,
    /// The name of the link that was in use last.
    link: Option<String>,
    /// `Some(None)`: without an end.
    paused: Option<Option<Instant>>,
}

struct Offline {
    since: Instant,
    next_try: Instant,
    detail: String,
}

/// What ended a wait.
enum Woke {
    Stop,
    Called(Call),
    Heard,
    News(News),
    Due,
}

impl<'a> Watcher<'a> {
    fn new(
        copy: &'a WorkingCopy,
        settings: &'a Settings,
        tell: &'a mut dyn FnMut(WatchEvent),
        shown: Arc<Shown>,
        calls: mpsc::Receiver<Call>,
    ) -> Result<Watcher<'a>, ClientError> {
        let now = Instant::now();
        Ok(Watcher {
            copy,
            settings,
            tell,
            shown,
            calls,
            files: Files::listen(copy),
            remote: None,
            known: Arc::new(AtomicU64::new(copy.base()?.0)),
            sleep: SleepDetector::new(),
            heard: Heard::default(),
            stir: None,
            look_at: now + LOOK_AGAIN,
            dirty: true,
            fresh: false,
            waiting: Vec::new(),
            carried: None,
            offline: None,
            failing: None,
            failures: Backoff::new(WAITS.0, WAITS.1),
            retry_at: None,
            busy_until: None,
            tried: None,
            polling: None,
            link: link_name(copy),
            paused: None,
        })
    }

    /// Says that it runs, and whether it hears.
    fn start(&mut self) {
        let heard = self.files.heard();
        self.polling = heard.deaf.clone();
        if self.polling.is_some() {
            self.look_at = Instant::now() + POLL;
        }
        (self.tell)(WatchEvent::Started { polling: self.polling.clone() });
    }

    async fn run(&mut self, lock: &OwnedFd, stop: &CancellationToken) -> Result<(), ClientError> {
        loop {
            if self.copy.has_lost_watch(lock) {
                let folder = self.copy.path().display();
                return Err(ClientError::Refused(format!(
                    "'{folder}' or its '.opship' was removed or moved, so its watch has ended; start another where the \
                     working copy is now"
                )));
            }
            self.check_pause()?;
            if self.is_due(Instant::now()) {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    synced = self.sync() => synced?,
                }
                continue;
            }
            self.show();
            match self.wait(stop).await {
                Woke::Stop => return Ok(()),
                Woke::Called(call) => self.called(call),
                Woke::Heard => self.hear(),
                Woke::News(news) => self.learn(news)?,
                Woke::Due => self.due(),
            }
        }
    }

    async fn wait(&mut self, stop: &CancellationToken) -> Woke {
        let deadline = self.deadline(Instant::now());
        let Watcher { calls, files, remote, .. } = self;
        let news = async {
            match remote {
                Some(remote) => remote.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => Woke::Stop,
            Some(call) = calls.recv() => Woke::Called(call),
            () = files.wait() => Woke::Heard,
            news = news => Woke::News(news),
            () = sleep_until(deadline) => Woke::Due,
        }
    }

    /// When there is something to do without being woken.
    fn deadline(&self, now: Instant) -> Instant {
        let quiet = self.stir.map(|(first, last)| (last + QUIET).min(first + LONGEST_STIR));
        let fresh = self.tried.filter(|_| self.fresh).map(|tried| tried + TRY_AGAIN);
        let times = [self.retry_at, self.busy_until, fresh].map(|at| at.filter(|at| *at > now));
        let pause = self.paused.flatten();
        let others = [Some(now + TICK), Some(self.look_at), quiet, pause];
        times.into_iter().chain(others).flatten().min().unwrap_or(now + TICK)
    }

    /// Is a sync to be done now?
    fn is_due(&self, now: Instant) -> bool {
        let passed = |at: Option<Instant>| at.is_none_or(|at| now >= at);
        if !passed(self.busy_until) {
            return false;
        }
        if !self.waiting.is_empty() {
            return true;
        }
        let may_try = self.offline.is_none() && passed(self.retry_at);
        let new_try = self.fresh && passed(self.tried.map(|tried| tried + TRY_AGAIN));
        self.dirty && (may_try || new_try) && self.paused.is_none()
    }

    /// Begins or ends a pause.
    fn check_pause(&mut self) -> Result<(), ClientError> {
        let left = self.copy.paused()?;
        match (self.paused.is_some(), left) {
            (false, Some(left)) => {
                self.remote = None;
                (self.tell)(WatchEvent::Paused { left });
            }
            (true, None) => {
                (self.tell)(WatchEvent::Resumed);
                self.dirty = true;
            }
            _ => {}
        }
        self.paused = left.map(|left| left.map(|left| Instant::now() + left));
        if left.is_none() && self.remote.is_none() {
            let copy = self.copy.clone();
            self.remote = Some(Remote::follow(move || api_for(&copy), Arc::clone(&self.known), self.settings.beat));
        }
        Ok(())
    }
}
