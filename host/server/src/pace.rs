//! The least rate at which a body must come that is held in memory.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::io;
use std::time::{Duration, Instant};

/// How long the sender of a body that is held in memory may take beyond what [`LEAST_RATE`] gives it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes a second that such a sender must bring: those of a slow modem.
const LEAST_RATE: u64 = 2 << 10;

/// Ends what comes more slowly than any link, so that nobody holds memory and a connection with a byte now and then. Only
/// the time in which the sender is waited for counts.
pub(crate) struct Paced<S> {
    data: S,
    bytes: u64,
    waited: Duration,
}

impl<S: Stream<Item = io::Result<Bytes>> + Send + Unpin> Paced<S> {
    pub(crate) fn new(data: S) -> Paced<S> {
        Paced { data, bytes: 0, waited: Duration::ZERO }
    }

    /// How long the sender may be waited for yet.
    fn left(&self) -> Duration {
        (PATIENCE + Duration::from_secs(self.bytes / LEAST_RATE)).saturating_sub(self.waited)
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let begun = Instant::now();
        let Ok(piece) = tokio::time::timeout(self.left(), self.data.next()).await else {
            return Some(Err(io::Error::new(io::ErrorKind::TimedOut, "it comes too slowly")));
        };
        self.waited += begun.elapsed();
        self.bytes += piece.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(0, Bytes::len) as u64;
        piece
    }

    /// The bytes, and an error as the last where they end too soon.
    pub(crate) fn stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
        Box::pin(futures::stream::unfold(Some(self), |paced| async {
            let mut paced = paced?;
            let piece = paced.next().await?;
            let rest = piece.is_ok().then_some(paced);
            Some((piece, rest))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_more_slowly_than_any_link_is_ended() {
        // As if the sender had been waited for as long as he may be.
        let slow = Paced { waited: PATIENCE, ..Paced::new(futures::stream::pending()) };
        let ended: Vec<io::Result<Bytes>> = slow.stream().collect().await;
        assert!(matches!(ended.as_slice(), [Err(error)] if error.kind() == io::ErrorKind::TimedOut), "{ended:?}");
        // What came gives time for more.
        let bytes = Bytes::from(vec![0; 2 * LEAST_RATE as usize]);
        let mut paced = Paced::new(futures::stream::iter([Ok(bytes)]));
        assert_eq!(paced.left(), PATIENCE);
        assert!(paced.next().await.is_some_and(|piece| piece.is_ok()));
        assert!(paced.left() > PATIENCE);
        assert!(paced.next().await.is_none());
    }
}
