//! Modules that were refused, remembered for a while: finding out again may cost minutes of processor time.

use crate::{ModuleError, ModuleLimits};
use opship_record::Hash;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most refusals remembered; the oldest go first.
const KEPT: usize = 256;
/// How long: a limit of time may have been met because the machine was busy.
const KEPT_FOR: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<Hash, Refusal>>);

struct Refusal {
    since: Instant,
    limits: ModuleLimits,
    error: ModuleError,
}

impl Refusals {
    /// Why the module was refused, if it would be under `limits` too.
    pub(crate) fn get(&self, hash: &Hash, limits: &ModuleLimits) -> Option<ModuleError> {
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = refusals.get(hash)?;
        let holds = refusal.since.elapsed() < KEPT_FOR && refusal.limits.covers(limits);
        holds.then(|| refusal.error.clone())
    }

    /// Remembers a refusal, unless the module is not to blame for it.
    pub(crate) fn put(&self, hash: &Hash, limits: &ModuleLimits, error: &ModuleError) {
        if matches!(error, ModuleError::Host { .. } | ModuleError::HashMismatch { .. }) {
            return;
        }
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() >= KEPT
            && let Some(oldest) = refusals.iter().min_by_key(|(_, refusal)| refusal.since).map(|(hash, _)| *hash)
        {
            refusals.remove(&oldest);
        }
        refusals.insert(*hash, Refusal { since: Instant::now(), limits: *limits, error: error.clone() });
    }
}
