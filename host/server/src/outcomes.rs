//! Replays that did not give the recorded digests, kept for when the client sends its lists.

use crate::replay::NotMatched;
use opship_record::Hash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const KEPT_FOR: Duration = Duration::from_secs(600);
const MAX_KEPT: usize = 256;
const MAX_BYTES: u64 = 256 << 20;

/// The cache, by workspace and id of the record.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<HashMap<(i64, Hash), Kept>>);

struct Kept {
    since: Instant,
    bytes: u64,
    outcome: Arc<NotMatched>,
}

impl Outcomes {
    /// What the last replay of a record gave, if that was not long ago.
    pub(crate) fn get(&self, workspace: i64, body: &Hash) -> Option<Arc<NotMatched>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(&(workspace, *body))?;
        (found.since.elapsed() < KEPT_FOR).then(|| Arc::clone(&found.outcome))
    }

    /// Keeps an outcome; the oldest ones go where there is no room.
    pub(crate) fn keep(&self, workspace: i64, body: Hash, outcome: Arc<NotMatched>) {
        let bytes = outcome.memory_bytes();
        if bytes > MAX_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, k| k.since.elapsed() < KEPT_FOR);
        kept.insert((workspace, body), Kept { since: Instant::now(), bytes, outcome });
        while kept.len() > MAX_KEPT || kept.values().map(|k| k.bytes).sum::<u64>() > MAX_BYTES {
            let Some(oldest) = kept.iter().min_by_key(|(_, k)| k.since).map(|(key, _)| *key) else { return };
            kept.remove(&oldest);
        }
    }

    /// Forgets what an entry that has ended no longer needs.
    pub(crate) fn forget(&self, workspace: i64, body: &Hash) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(workspace, *body));
    }
}
