//! Places for compiling processes: a bounded number, of which slow ones never hold all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The places. One of them is left for compiles that are not slow, so that a module made to keep the compiler busy delays
/// another by seconds and not by its whole limit.
pub(crate) struct Places {
    busy: Mutex<Busy>,
    ended: Condvar,
    all: usize,
}

#[derive(Default)]
struct Busy {
    running: usize,
    slow: usize,
}

/// A place that is held until it is dropped.
pub(crate) struct Place<'a> {
    places: &'a Places,
    is_slow: AtomicBool,
}

impl Places {
    /// `all` places, at least two.
    pub(crate) fn new(all: usize) -> Places {
        Places { busy: Mutex::default(), ended: Condvar::new(), all: all.max(2) }
    }

    /// Waits for a place: any one, or one for a compile that is known to be slow.
    pub(crate) fn take(&self, is_slow: bool) -> Place<'_> {
        let mut busy = self.lock();
        while busy.running >= self.all || is_slow && busy.slow >= self.all - 1 {
            busy = self.ended.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy.running += 1;
        busy.slow += usize::from(is_slow);
        Place { places: self, is_slow: AtomicBool::new(is_slow) }
    }

    fn lock(&self) -> MutexGuard<'_, Busy> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Says that this compile is a slow one. `false`: there are as many as may be, so it must give way and start again
    /// where slow ones are done.
    pub(crate) fn turn_slow(&self) -> bool {
        let mut busy = self.places.lock();
        if self.is_slow.load(Ordering::Relaxed) {
            return true;
        }
        let may = busy.slow < self.places.all - 1;
        if may {
            busy.slow += 1;
            self.is_slow.store(true, Ordering::Relaxed);
        }
        may
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut busy = self.places.lock();
        busy.running -= 1;
        busy.slow -= usize::from(self.is_slow.load(Ordering::Relaxed));
        drop(busy);
        self.places.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_compiles_leave_one_place() {
        let places = Places::new(2);
        let first = places.take(false);
        assert!(first.turn_slow() && first.turn_slow());
        let second = places.take(false);
        assert!(!second.turn_slow());
        drop(first);
        assert!(second.turn_slow());
        drop(second);
        let known = places.take(true);
        assert!(!places.take(false).turn_slow());
        drop(known);
        drop(places.take(true));
    }
}
