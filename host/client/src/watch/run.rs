//! The watch itself: one loop that waits for what may change something, and syncs when something has.

use super::WatchEvent;
use super::backoff::Backoff;
use super::files::{Files, Heard};
use super::remote::{News, Remote};
use super::socket::{Call, Outcome, Shown, Socket};
use super::state::{Mode, WatchState};
use super::wake::SleepDetector;
use crate::modules::ModuleBook;
use crate::sync::{Sync, SyncReport, api_for};
use crate::{ClientError, WorkingCopy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
}

/// Keeps a working copy in sync until `stop`.
///
/// # Errors
/// [`ClientError::Refused`] if a watch runs already; [`ClientError::Io`], [`ClientError::Database`] if the working copy's
/// own state cannot be used. Whatever a sync meets is told and tried again.
pub async fn watch(
    copy: &WorkingCopy,
    settings: &Settings,
    tell: &mut dyn FnMut(WatchEvent),
    stop: &CancellationToken,
) -> Result<(), ClientError> {
    let Some(_lock) = copy.try_lock_watch()? else {
        return Err(ClientError::Refused("a watch runs on this folder already; 'opship status' shows it".to_owned()));
    };
    let (sender, calls) = mpsc::channel(64);
    let shown = Arc::new(Shown::new(|| standing(Mode::Watching)));
    let _socket = Socket::listen(copy, Arc::clone(&shown), sender)?;
    let mut watcher = Watcher::new(copy, settings, tell, shown, calls)?;
    watcher.start();
    watcher.run(stop).await?;
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
    waiting: Vec<oneshot::Sender<Outcome>>,
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

fn standing(mode: Mode) -> WatchState {
    WatchState {
        mode,
        detail: None,
        offline_seconds: None,
        next_try_seconds: None,
        polling: None,
        process: std::process::id(),
    }
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

    async fn run(&mut self, stop: &CancellationToken) -> Result<(), ClientError> {
        loop {
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

    fn called(&mut self, call: Call) {
        match call {
            Call::Sync(sender) => self.waiting.push(sender),
            Call::Look => self.look(),
        }
    }

    fn hear(&mut self) {
        let heard = self.files.heard();
        if let Some(detail) = heard.deaf.clone().filter(|_| self.polling.is_none()) {
            self.polling = Some(detail.clone());
            (self.tell)(WatchEvent::Polling { detail });
        }
        self.heard.add(heard);
        let now = Instant::now();
        self.stir = Some((self.stir.map_or(now, |(first, _)| first), now));
    }

    fn learn(&mut self, news: News) -> Result<(), ClientError> {
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
    fn due(&mut self) {
        let now = Instant::now();
        if self.sleep.has_slept() {
            tracing::info!("the machine slept: connecting again");
            if let Some(remote) = &self.remote {
                remote.try_now();
            }
            self.look();
        }
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

    /// Looks at folder and log: is there something to sync? So an own pull's events cost no request.
    fn look(&mut self) {
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

    fn has_work(&self) -> Result<bool, ClientError> {
        Ok(!self.copy.scan()?.changes.is_empty() || self.has_ready_entries()?)
    }

    fn has_ready_entries(&self) -> Result<bool, ClientError> {
        Ok(self.copy.pending()?.iter().any(|entry| !entry.is_parked()))
    }

    /// One sync, and what follows from it.
    async fn sync(&mut self) -> Result<(), ClientError> {
        self.shown.set(|| standing(Mode::Syncing));
        let done = self.attempt().await;
        self.tried = Some(Instant::now());
        (self.fresh, self.busy_until) = (false, None);
        match done {
            Ok(report) => self.synced(report)?,
            // Somebody's command has the lock for a while; who waits here waits for it too.
            Err(ClientError::Busy) => self.busy_until = Some(Instant::now() + BUSY),
            Err(error) => {
                let text = error.to_string();
                self.waiting.drain(..).for_each(|waiting| drop(waiting.send(Err(text.clone()))));
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

    async fn attempt(&self) -> Result<SyncReport, ClientError> {
        let mut book = ModuleBook::open(&self.copy.own_folder(), self.settings.standard)?;
        Sync::new(self.copy, &mut book, &*self.shown)?.run().await
    }

    fn synced(&mut self, report: SyncReport) -> Result<(), ClientError> {
        self.known.store(self.copy.base()?.0, Ordering::Relaxed);
        if self.online()
            && let Some(remote) = &self.remote
        {
            remote.try_now();
        }
        (self.dirty, self.retry_at) = (self.has_ready_entries()?, None);
        match self.dirty {
            // They could not be shipped this time.
            true => self.retry_at = Some(Instant::now() + self.failures.wait()),
            false => self.failures.reset(),
        }
        let whole = match self.carried.take() {
            Some(before) => before.and(report.clone()),
            None => report.clone(),
        };
        self.waiting.drain(..).for_each(|waiting| drop(waiting.send(Ok(Box::new(whole.clone())))));
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
    fn online(&mut self) -> bool {
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
    fn away(&mut self, error: &ClientError, wait: Option<Duration>) {
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
    fn failed(&mut self, error: &ClientError, wait: Duration) {
        let detail = error.to_string();
        self.retry_at = Some(Instant::now() + wait);
        if self.failing.as_ref() != Some(&detail) {
            (self.tell)(WatchEvent::Failed { detail: detail.clone(), next_try: wait });
            self.failing = Some(detail);
        }
    }

    /// Shows how things stand to whoever asks over the socket.
    fn show(&self) {
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

/// Is the server, or the way to it, gone for now?
fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Connection { .. } => true,
        ClientError::Problem { status, .. } => matches!(status, 502..=504),
        _ => false,
    }
}
