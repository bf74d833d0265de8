//! The watch's end of the socket. It answers also while a sync is at work.

use super::protocol::{Reply, Request, line, socket_path};
use super::state::WatchState;
use crate::budget::LinkChoice;
use crate::sync::{Progress, SyncReport};
use crate::{ClientError, WorkingCopy};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};

/// Longest request.
const MAX_REQUEST: u64 = 4096;
/// How often a sync that is waited for gives a sign of life.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// How a sync went, for whoever asked for it.
pub(super) type Outcome = Result<Box<SyncReport>, String>;

/// What comes over the socket for the watch to act on.
pub(super) enum Call {
    /// Sync over this link, and tell how it went.
    Sync(LinkChoice, oneshot::Sender<Outcome>),
    /// Look at the folder, the log and the pause.
    Look,
}

/// Done, of how much, of what.
type Step = Option<(String, u64, u64)>;

/// What the socket's tasks see of the watch.
pub(super) struct Shown {
    state: Mutex<Box<dyn Fn() -> WatchState + Send>>,
    step: watch::Sender<Step>,
}

impl Shown {
    pub(super) fn new(state: impl Fn() -> WatchState + Send + 'static) -> Shown {
        Shown { state: Mutex::new(Box::new(state)), step: watch::Sender::new(None) }
    }

    /// Replaces how things stand.
    pub(super) fn set(&self, state: impl Fn() -> WatchState + Send + 'static) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(state);
    }

    fn state(&self) -> WatchState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)()
    }
}

impl Progress for Shown {
    fn step(&self, what: &str, done: u64, total: u64) {
        self.step.send_replace(Some((what.to_owned(), done, total)));
    }
}

/// The listening socket; its file goes with it.
pub(super) struct Socket {
    path: PathBuf,
    _folder: File,
}

impl Socket {
    /// Listens. The caller holds the watch's lock, so a file that is there was left by a watch that was killed.
    pub(super) fn listen(
        copy: &WorkingCopy,
        shown: Arc<Shown>,
        calls: mpsc::Sender<Call>,
    ) -> Result<Socket, ClientError> {
        let failed = || ClientError::io("listening on '.opship/watch.sock'");
        let (path, folder) = socket_path(copy)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed())?;
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream, shown.clone(), calls.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a command's connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(Socket { path, _folder: folder })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A file that stays is removed by the next watch.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(stream: UnixStream, shown: Arc<Shown>, calls: mpsc::Sender<Call>) {
    let mut stream = BufReader::new(stream);
    let mut text = Vec::new();
    if (&mut stream).take(MAX_REQUEST).read_until(b'\n', &mut text).await.is_err() {
        return;
    }
    let reply = match serde_json::from_slice(&text) {
        Ok(Request::Sync(choice)) => sync(choice, &mut stream, &shown, &calls).await,
        // Whoever nudges does not wait.
        Ok(Request::Look) => return drop(calls.send(Call::Look).await),
        Ok(Request::Status) => Some(Reply::Status(shown.state())),
        Err(error) => Some(Reply::Failed(format!("the watch does not understand this command: {error}"))),
    };
    if let Some(reply) = reply {
        let _ = stream.write_all(&line(&reply)).await;
    }
}

/// Passes progress on until the sync is done; `None` if the watch ends before.
async fn sync(
    choice: LinkChoice,
    stream: &mut BufReader<UnixStream>,
    shown: &Shown,
    calls: &mpsc::Sender<Call>,
) -> Option<Reply> {
    let (sender, mut outcome) = oneshot::channel();
    let mut steps = shown.step.subscribe();
    let mut alive = tokio::time::interval(ALIVE_EVERY);
    calls.send(Call::Sync(choice, sender)).await.ok()?;
    loop {
        tokio::select! {
            outcome = &mut outcome => {
                return Some(match outcome.ok()? {
                    Ok(report) => Reply::Done(report),
                    Err(detail) => Reply::Failed(detail),
                });
            }
            changed = steps.changed() => {
                changed.ok()?;
                let step = steps.borrow_and_update().clone();
                if let Some((what, done, total)) = step {
                    stream.write_all(&line(&Reply::Progress(what, done, total))).await.ok()?;
                }
            }
            _ = alive.tick() => stream.write_all(&line(&Reply::Alive)).await.ok()?,
        }
    }
}
