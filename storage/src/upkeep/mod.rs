//! Keeping a store in order: what is no longer needed goes ([`Store::collect`]), what is damaged is found
//! ([`Store::check`]), what takes room is counted ([`Store::usage`]). All of it beside readers and writers.

mod check;
mod collect;
mod history;
mod mark;
mod places;
mod repack;
mod retain;
mod usage;

pub use check::{CheckOptions, CheckReport, Finding};
pub use collect::{CollectOptions, CollectReport};
pub use places::Affected;
pub use usage::{Usage, WorkspaceUsage};

use crate::store::Inner;
use crate::{StorageError, Store};
use std::sync::{Arc, MutexGuard, TryLockError};

/// How far a long piece of work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: &'static str,
    /// Things done in this step.
    pub done: u64,
    /// Things to be done in it, 0 if that is not known.
    pub total: u64,
}

/// Hears of progress.
pub type OnProgress<'a> = dyn FnMut(Progress) + 'a;

/// Milliseconds of a day.
const DAY: u64 = 24 * 3600 * 1000;

/// The right to keep the store in order; one at a time.
fn alone(inner: &Arc<Inner>) -> Result<MutexGuard<'_, ()>, StorageError> {
    match inner.upkeep.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(StorageError::Busy),
    }
}

impl Store {
    /// The folder of raw bytes of uploads that are under way.
    pub fn uploads_folder(&self) -> std::path::PathBuf {
        self.0.data.path().join("uploads")
    }
}
