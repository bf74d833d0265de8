//! How far a run is.

/// Tells the world that `done` of `total` bytes (or whatever the operation counts) are done.
///
/// Only shown to people; it has no effect on files and no answer, so a run stays deterministic.
/// Outside WASI it does nothing.
pub fn progress(done: u64, total: Option<u64>) {
    let clamp = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    report(clamp(done), total.map_or(0, clamp));
}

#[cfg(target_os = "wasi")]
use crate::imports::progress as report;

#[cfg(not(target_os = "wasi"))]
fn report(_done: i64, _total: i64) {}

/// Counts what is done and calls [`progress`] once for each step of a size, so that a loop over
/// small pieces costs few calls.
#[derive(Debug)]
pub struct Meter {
    done: u64,
    total: Option<u64>,
    next: u64,
}

impl Meter {
    /// Units between two calls: 4 Mi, well under a second of work for any of the operations.
    const STEP: u64 = 4 << 20;

    /// A meter at zero; `total` where it is known.
    #[must_use]
    pub fn new(total: Option<u64>) -> Self {
        Self { done: 0, total, next: Self::STEP }
    }

    /// Adds `n` units and reports when a step is full.
    pub fn add(&mut self, n: u64) {
        self.done = self.done.saturating_add(n);
        if self.done >= self.next {
            self.next = self.done.saturating_add(Self::STEP);
            progress(self.done, self.total);
        }
    }
}
