//! Hearing of changes elsewhere: the stream of the server's events, opened again whenever it ends.

use super::backoff::Backoff;
use crate::ClientError;
use crate::net::{Api, Event};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// How long the server may take to begin its answer, once it is connected.
const ANSWER: Duration = Duration::from_secs(60);
/// Beyond the time for a sign of life the connection counts as dead.
const GRACE: Duration = Duration::from_secs(30);
/// First wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Where the server has no events, its head is asked for as often as this.
const ASK_EVERY: Duration = Duration::from_secs(300);

/// What is heard of the server.
#[derive(Debug)]
pub(super) enum News {
    /// It is there.
    Up,
    /// Its head is this version.
    Head(u64),
    /// It has no events to follow: look yourself, now and then.
    Look,
    /// It is not there, or refuses; it is tried again after this time.
    Down(ClientError, Duration),
}

/// The stream's task; it ends when this is dropped.
pub(super) struct Remote {
    task: JoinHandle<()>,
    again: Arc<Notify>,
    news: mpsc::Receiver<News>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Remote {
    /// Begins to follow. `api` makes a connection for each try; `known` is the version that is known here.
    pub(super) fn follow(
        api: impl Fn() -> Result<Api, ClientError> + Send + 'static,
        known: Arc<AtomicU64>,
        beat: Duration,
    ) -> Remote {
        let (sender, news) = mpsc::channel(16);
        let again = Arc::new(Notify::new());
        let task = tokio::spawn(follow(api, known, beat, sender, Arc::clone(&again)));
        Remote { task, again, news }
    }

    /// The next news.
    pub(super) async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            // The task never ends by itself.
            None => std::future::pending().await,
        }
    }

    /// Connects again at once, whether it waits to do so or believes to be connected.
    pub(super) fn try_now(&self) {
        self.again.notify_waiters();
    }
}

async fn follow(
    api: impl Fn() -> Result<Api, ClientError>,
    known: Arc<AtomicU64>,
    beat: Duration,
    news: mpsc::Sender<News>,
    again: Arc<Notify>,
) {
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    loop {
        let ended = match api() {
            Ok(api) => tokio::select! {
                ended = stream(api, &known, beat, &news, &mut backoff) => ended,
                () = again.notified() => Ok(()),
            },
            Err(error) => Err(error),
        };
        let wait = match ended {
            // The server ends each stream after a while; a moment's wait keeps one that ends at once from being flooded.
            Ok(()) => FIRST_WAIT,
            Err(error) if has_no_events(&error) => {
                drop(news.send(News::Look).await);
                ASK_EVERY
            }
            Err(error) => {
                let wait = backoff.wait();
                drop(news.send(News::Down(error, wait)).await);
                wait
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = again.notified() => {}
        }
    }
}

/// An older server, one with too many followers, or a workspace that is not there, which a sync then tells.
fn has_no_events(error: &ClientError) -> bool {
    match error {
        ClientError::Problem { status: 404 | 405, .. } => true,
        ClientError::Problem { kind, .. } => kind == "busy",
        _ => false,
    }
}

async fn stream(
    mut api: Api,
    known: &AtomicU64,
    beat: Duration,
    news: &mpsc::Sender<News>,
    backoff: &mut Backoff,
) -> Result<(), ClientError> {
    let silent = |seconds: u64| ClientError::Connection { detail: format!("the server was silent for {seconds} s") };
    let opening = api.events(known.load(Ordering::Relaxed), beat.as_secs());
    let opened = tokio::time::timeout(ANSWER, opening).await;
    let mut events = opened.map_err(|_| silent(ANSWER.as_secs()))??;
    backoff.reset();
    drop(news.send(News::Up).await);
    let patience = beat + GRACE;
    loop {
        match tokio::time::timeout(patience, events.next()).await {
            Err(_) => return Err(silent(patience.as_secs())),
            Ok(next) => match next? {
                Some(Event::Head(version)) => drop(news.send(News::Head(version)).await),
                Some(Event::Alive) => {}
                None => return Ok(()),
            },
        }
    }
}
