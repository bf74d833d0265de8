//! Noticing that the other end has fallen silent: what lies between may stop passing bytes on without closing anything.

use super::body::RequestBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// How long nothing may come or go while the server has the turn. It takes less for any answer but those below.
const SILENCE: Duration = Duration::from_secs(60);
/// How much longer the server may take for work that is as long as what it was sent or holds.
pub(super) const WORK: Duration = Duration::from_secs(600);
/// Bytes a second that it works on at least.
const WORK_RATE: u64 = 4 << 20;
/// Bytes that buffers on the way may hold, and so send on unseen from here.
const BUFFERED: u64 = 4 << 20;
/// For so many bytes that may be under way unseen [`SILENCE`] counts once more: a link of 140 kbit/s takes as long.
const SLOW: u64 = 1 << 20;

/// [`SILENCE`]; a test may ask for less.
pub(super) fn silence() -> Duration {
    #[cfg(feature = "failpoints")]
    if let Some(millis) = std::env::var("OPSHIP_TEST_SILENCE").ok().and_then(|text| text.parse().ok()) {
        return Duration::from_millis(millis);
    }
    SILENCE
}

/// Who has to do something next, as a request and its connection tell each other.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU8);

/// This side: it makes a body.
const OWN: u8 = 0;
/// The server: it answers, or takes what was written.
const SERVER: u8 = 1;
/// The server, which has all of a streamed body and works on it.
const WORKING: u8 = 2;

impl Turn {
    fn set(&self, turn: u8) {
        self.0.store(turn, Ordering::Relaxed);
    }
}

/// A request's body that says whether its bytes are waited for here.
#[derive(Debug)]
pub(super) struct Watched {
    body: RequestBody,
    turn: Arc<Turn>,
}

impl Watched {
    pub(super) fn new(body: RequestBody, turn: &Arc<Turn>) -> Watched {
        turn.set(SERVER);
        Watched { body, turn: Arc::clone(turn) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.turn.set(if self.body.is_streamed() { WORKING } else { SERVER });
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Watched { body, turn } = self.get_mut();
        let polled = Pin::new(&mut *body).poll_frame(cx);
        turn.set(if polled.is_pending() && body.is_wanted() { OWN } else { SERVER });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How long a connection has been silent while the server had the turn.
#[derive(Debug)]
pub(super) struct Silence {
    turn: Arc<Turn>,
    /// What is borne.
    longest: Duration,
    since: Option<Instant>,
    /// Bytes written since something came.
    unanswered: u64,
    end: Pin<Box<Sleep>>,
}

impl Silence {
    pub(super) fn new(turn: &Arc<Turn>, longest: Duration) -> Silence {
        Silence { turn: Arc::clone(turn), longest, since: None, unanswered: 0, end: Box::pin(sleep(longest)) }
    }

    /// Something came.
    pub(super) fn came(&mut self) {
        (self.since, self.unanswered) = (None, 0);
    }

    /// So many bytes went.
    pub(super) fn went(&mut self, bytes: u64) {
        (self.since, self.unanswered) = (None, self.unanswered.saturating_add(bytes));
    }

    /// How long it may last now; `None` where it is not the server that is waited for.
    fn borne(&self) -> Option<Duration> {
        let slow = self.longest.mul_f64(self.unanswered.min(BUFFERED) as f64 / SLOW as f64);
        let work = Duration::from_secs(self.unanswered / WORK_RATE).min(WORK);
        match self.turn.0.load(Ordering::Relaxed) {
            OWN => None,
            WORKING => Some(self.longest + slow + work),
            _ => Some(self.longest + slow),
        }
    }

    /// For when there is nothing to read: ready with an error once that has lasted too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(borne) = self.borne() else {
            self.since = None;
            // Looked at again then: nobody reads when the body ends, so nothing else would begin to wait for the server.
            self.end.as_mut().reset(Instant::now() + self.longest);
            let _ = self.end.as_mut().poll(cx);
            return Poll::Pending;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        self.end.as_mut().reset(since + borne);
        ready!(self.end.as_mut().poll(cx));
        let detail = format!("nothing came or went for {} s", since.elapsed().as_secs());
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, detail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::sync::mpsc;

    fn seconds(silence: &Silence) -> Option<u64> {
        silence.borne().map(|time| time.as_secs())
    }

    fn poll(body: &mut Watched) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test]
    async fn what_may_be_under_way_unseen_is_waited_for_longer() {
        let turn = Arc::default();
        let mut silence = Silence::new(&turn, Duration::from_secs(60));
        let body = Watched::new(RequestBody::bytes("x"), &turn);
        assert_eq!(seconds(&silence), Some(60));
        silence.went(2 << 20);
        assert_eq!(seconds(&silence), Some(180));
        silence.went(100 << 20);
        assert_eq!(seconds(&silence), Some(300));
        silence.came();
        drop(body);
        assert_eq!(seconds(&silence), Some(60));
    }

    #[tokio::test]
    async fn a_body_that_is_made_slowly_here_is_no_silence_and_a_whole_one_takes_work() {
        let turn = Arc::default();
        let mut silence = Silence::new(&turn, Duration::from_secs(60));
        let (sender, pieces) = mpsc::channel(1);
        let mut body = Watched::new(RequestBody::Stream(pieces, None), &turn);
        assert!(poll(&mut body).is_pending());
        assert_eq!(seconds(&silence), None);
        sender.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
        assert!(poll(&mut body).is_ready());
        assert_eq!(seconds(&silence), Some(60));
        silence.went(400 << 20);
        assert_eq!(seconds(&silence), Some(60 + 240));
        drop(body);
        assert_eq!(seconds(&silence), Some(60 + 240 + 100));
        silence.went(1 << 40);
        assert_eq!(seconds(&silence), Some(60 + 240 + 600));
    }

    #[tokio::test]
    async fn the_server_is_waited_for_while_it_has_not_said_whether_it_wants_a_body() {
        let turn = Arc::default();
        let silence = Silence::new(&turn, Duration::from_secs(60));
        let (_sender, pieces) = mpsc::channel(1);
        let wanted = Arc::new(tokio::sync::watch::Sender::new(false));
        let mut body = Watched::new(RequestBody::Expected(pieces, None, wanted.clone()), &turn);
        assert!(poll(&mut body).is_pending());
        assert_eq!(seconds(&silence), Some(60));
        wanted.send_replace(true);
        assert!(poll(&mut body).is_pending());
        assert_eq!(seconds(&silence), None);
    }
}
