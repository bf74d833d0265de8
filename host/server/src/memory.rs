//! The memory that all replays share.
//!
//! Each run has a little that nobody counts. What it takes beyond comes from the pool, as it grows. A run that finds the pool
//! empty ends, and starts again once as much is set aside for it as a run may take at most: so it never waits with memory
//! in its hands, and those that wait have their turn in order.

use opship_engine::Room;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a permit.
const UNIT: u64 = 1 << 20;
/// What each run has without asking, so that small ones go on whatever large ones hold.
const FREE: u64 = 64 << 20;

/// The pool.
pub(crate) struct SharedMemory {
    free: Arc<Semaphore>,
    /// Units that are set aside for a run that found the pool empty.
    whole: u32,
}

/// Memory set aside for one run.
pub(crate) struct Reserved(OwnedSemaphorePermit);

impl SharedMemory {
    /// `bytes` for all, of which one run may take `run_bytes` at most.
    pub(crate) fn new(bytes: u64, run_bytes: u64) -> SharedMemory {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        let whole = u32::try_from(run_bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(units);
        SharedMemory { free: Arc::new(Semaphore::new(units as usize)), whole }
    }

    /// Waits until a run can have all that it may take. `None`: the server is stopping.
    pub(crate) async fn reserve(&self) -> Option<Reserved> {
        Arc::clone(&self.free).acquire_many_owned(self.whole).await.ok().map(Reserved)
    }

    /// What answers one run's wishes.
    pub(crate) fn room(&self, reserved: Option<Reserved>) -> Room {
        let free = Arc::clone(&self.free);
        let mut held = reserved.map(|reserved| reserved.0);
        let mut unused = FREE + held.as_ref().map_or(0, |held| held.num_permits() as u64 * UNIT);
        Box::new(move |bytes| {
            if let Some(rest) = unused.checked_sub(bytes) {
                unused = rest;
                return true;
            }
            let units = (bytes - unused).div_ceil(UNIT);
            let Ok(count) = u32::try_from(units) else { return false };
            let Ok(more) = Arc::clone(&free).try_acquire_many_owned(count) else { return false };
            unused = unused + units * UNIT - bytes;
            match &mut held {
                Some(held) => held.merge(more),
                held => *held = Some(more),
            }
            true
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn what_a_run_holds_is_not_there_for_others_until_it_ends() {
        let pool = SharedMemory::new(100 << 20, 80 << 20);
        let mut first = pool.room(None);
        assert!(first(FREE) && first(60 << 20) && first(1));
        let mut second = pool.room(None);
        assert!(second(FREE) && second(39 << 20) && !second(1));
        // What it asked for in vain takes nothing from what others may have.
        drop(first);
        assert!(second(61 << 20) && !second(1));
    }

    #[tokio::test]
    async fn what_is_set_aside_is_enough_and_waits_for_those_who_hold_it() {
        let pool = SharedMemory::new(100 << 20, 80 << 20);
        let mut first = pool.room(None);
        assert!(first(FREE + (30 << 20)));
        assert!(tokio::time::timeout(Duration::from_millis(10), pool.reserve()).await.is_err());
        drop(first);
        let mut room = pool.room(pool.reserve().await);
        assert!(room(FREE) && room(80 << 20));
        assert!(pool.room(None)(FREE + (20 << 20)) && !pool.room(None)(FREE + (21 << 20)));
    }
}
