//! What each principal may take at one time of what all requests share: a quarter, so that nobody has all of it.

use crate::state::{REQUEST_MEMORY, WRITERS};
use crate::transfers::MADE_AT_ONCE;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Everybody has one part in so many.
const PARTS: usize = 4;
/// Bytes of memory that are set aside at one time, as a body comes.
const STEP: usize = 64 << 10;
/// Bodies that are read to their end although there is no memory left: what is set aside for the others cannot keep all
/// waiting for each other.
const TURNS: usize = 4;
/// Bytes that such a body may take.
const TURN_BYTES: usize = opship_record::limits::MAX_REQUEST;
/// Whoever has no token yet.
const NOBODY: i64 = i64::MIN;

tokio::task_local! {
    /// The share of the principal whose request is worked on.
    static OWN: Arc<Share>;
}

/// The shares of those who have requests under way.
#[derive(Debug)]
pub(crate) struct Shares {
    each: Mutex<HashMap<i64, Arc<Share>>>,
    /// Memory for bodies, a permit for each [`STEP`].
    memory: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// One principal's share.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Semaphore>,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Permits for threads that write responses.
    pub(crate) writers: Arc<Semaphore>,
    /// Permits for documents being made.
    pub(crate) documents: Arc<Semaphore>,
}

impl Shares {
    pub(crate) fn new() -> Shares {
        let steps = (REQUEST_MEMORY - TURNS * TURN_BYTES) / STEP;
        let (memory, turns) = (Arc::new(Semaphore::new(steps)), Arc::new(Semaphore::new(TURNS)));
        Shares { each: Mutex::default(), memory, turns }
    }

    /// Works on a request of a principal's.
    pub(crate) async fn within<T>(&self, principal: i64, work: impl Future<Output = T>) -> T {
        OWN.scope(self.of(principal), work).await
    }

    /// The share of whoever's request this task works on.
    pub(crate) fn own(&self) -> Arc<Share> {
        OWN.try_with(Arc::clone).unwrap_or_else(|_| self.of(NOBODY))
    }

    /// Memory for the body of a request that this task works on; none is set aside yet.
    pub(crate) fn memory(&self) -> Reserved {
        let (all, turns) = (Arc::clone(&self.memory), Arc::clone(&self.turns));
        Reserved { bytes: 0, share: self.own(), all, turns, permits: Vec::new(), own_turn: None, turn: None }
    }

    fn of(&self, principal: i64) -> Arc<Share> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        // A share that is in use must stay the only one.
        each.retain(|_, share| Arc::strong_count(share) > 1);
        Arc::clone(each.entry(principal).or_insert_with(|| {
            Arc::new(Share {
                memory: Arc::new(Semaphore::new(REQUEST_MEMORY / STEP / PARTS)),
                turn: Arc::default(),
                writers: Arc::new(Semaphore::new(WRITERS / PARTS)),
                documents: Arc::new(Semaphore::new(MADE_AT_ONCE / PARTS)),
            })
        }))
    }
}

/// Memory that is set aside for one body, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    bytes: usize,
    share: Arc<Share>,
    all: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    permits: Vec<OwnedSemaphorePermit>,
    /// Held: this body may take more than its principal's share.
    own_turn: Option<OwnedMutexGuard<()>>,
    /// Held: this body may take more than there is.
    turn: Option<OwnedSemaphorePermit>,
}

impl Reserved {
    /// Sets aside so many bytes in all, once there is memory for them.
    pub(crate) async fn hold(&mut self, bytes: usize) {
        while self.bytes < bytes {
            // Only who has the principal's turn waits for one of all, and who has both for nothing more: so nobody waits for
            // ever.
            if self.own_turn.is_none() && !take(&self.share.memory, &mut self.permits) {
                self.own_turn = Some(Arc::clone(&self.share.turn).lock_owned().await);
            }
            if self.turn.is_none() && !take(&self.all, &mut self.permits) {
                if self.own_turn.is_none() {
                    self.own_turn = Some(Arc::clone(&self.share.turn).lock_owned().await);
                }
                // It is never closed.
                self.turn = Arc::clone(&self.turns).acquire_owned().await.ok();
            }
            self.bytes += STEP;
        }
    }
}

fn take(from: &Arc<Semaphore>, permits: &mut Vec<OwnedSemaphorePermit>) -> bool {
    Arc::clone(from).try_acquire_owned().map(|permit| permits.push(permit)).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use futures::FutureExt;

    const BODY: usize = TURN_BYTES;

    async fn held(shares: &Shares, principal: i64, bytes: usize) -> Reserved {
        let mut memory = shares.within(principal, async { shares.memory() }).await;
        memory.hold(bytes).await;
        memory
    }

    #[tokio::test]
    async fn nobody_has_all_the_memory_and_one_body_of_each_goes_on() {
        let shares = Shares::new();
        let mut first = Vec::new();
        while let Some(memory) = held(&shares, 1, BODY).now_or_never() {
            first.push(memory);
        }
        // Those that fit, and one besides.
        assert_eq!(first.len(), REQUEST_MEMORY / PARTS / BODY + 1);
        assert!(held(&shares, 1, 1).now_or_never().is_none());
        let second = held(&shares, 2, BODY).now_or_never().unwrap();
        first.clear();
        assert!(held(&shares, 1, BODY).now_or_never().is_some());
        drop(second);
    }

    #[tokio::test]
    async fn bodies_that_hold_all_memory_do_not_wait_for_each_other_for_ever() {
        let shares = Shares::new();
        // Each has some of its body, none all of it, and together they have everything.
        let mut begun = Vec::new();
        for principal in 0..8 {
            for _ in 0..REQUEST_MEMORY / BODY / 4 {
                begun.extend(held(&shares, principal, BODY / 2).now_or_never());
            }
        }
        while !begun.is_empty() {
            let before = begun.len();
            begun.retain_mut(|memory| memory.hold(BODY).now_or_never().is_none());
            assert!(begun.len() < before, "none of {before} comes to its end");
        }
    }

    #[tokio::test]
    async fn who_has_a_turn_of_all_waits_for_nobody() {
        async fn all(memory: &Arc<Semaphore>) -> OwnedSemaphorePermit {
            let free = u32::try_from(memory.available_permits()).unwrap();
            Arc::clone(memory).acquire_many_owned(free).await.unwrap()
        }
        let shares = Shares::new();
        let mut earlier = held(&shares, 3, STEP).await;
        let _others = all(&shares.memory).await;
        let mut later: Vec<Reserved> = (0..4).filter_map(|_| held(&shares, 3, STEP).now_or_never()).collect();
        let _rest = all(&shares.of(3).memory).await;
        let mut waiting = std::pin::pin!(earlier.hold(BODY));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(later[0].hold(BODY).now_or_never().is_some());
    }
}
