//! What stands at the socket and lets through what is left of a budget.

use super::clock::Reading;
use super::config::Budget;
use super::ledger::{Lease, Ledger, Spent, left};
use crate::ClientError;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes set aside at first: what a quiet connection keeps from others.
const FIRST: u64 = 4 << 10;
/// Most bytes set aside at a time. A process that is killed loses at most as many.
const MOST: u64 = 64 << 10;

/// Counts a link's bytes and stops them at its budget. Shared by all connections of a process over the link.
#[derive(Debug)]
pub struct Guard {
    link: String,
    budget: Budget,
    /// Does it stop anything?
    strict: bool,
    spent: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    lease: Lease,
    next: u64,
}

impl Guard {
    pub(super) fn new(ledger: Ledger, link: &str, budget: &Budget, strict: bool) -> Guard {
        let inner = Mutex::new(Inner { ledger, lease: Lease::default(), next: FIRST });
        Guard { link: link.to_owned(), budget: *budget, strict, spent: AtomicBool::new(false), inner }
    }

    /// How many of `wanted` bytes may be written or read now, at least one.
    ///
    /// # Errors
    /// If the budget is spent, or what was spent cannot be written down.
    pub fn allow(&self, wanted: usize) -> io::Result<usize> {
        self.allowed(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner), wanted)
    }

    fn allowed(&self, inner: &mut Inner, wanted: usize) -> io::Result<usize> {
        if inner.lease.bytes == 0 {
            let size = inner.next;
            let lease = inner.ledger.set_aside(&self.link, &self.budget, size, self.strict, Reading::now());
            inner.lease = lease.map_err(io::Error::other)?;
            inner.next = (size * 2).min(MOST);
        }
        if inner.lease.bytes == 0 {
            self.spent.store(true, Ordering::Relaxed);
            return Err(io::Error::other(format!("the budget of link '{}' is spent", self.link)));
        }
        Ok(wanted.min(usize::try_from(inner.lease.bytes).unwrap_or(usize::MAX)))
    }

    /// Lets `through` move as many of `wanted` bytes as may go; it says how many went. One at a time, so that no two
    /// connections spend the same bytes.
    ///
    /// # Errors
    /// As [`Guard::allow`].
    pub fn pass<T>(&self, wanted: usize, through: impl FnOnce(usize) -> (T, usize)) -> io::Result<T> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = self.allowed(&mut inner, wanted)?;
        let (result, bytes) = through(allowed);
        inner.lease.bytes = inner.lease.bytes.saturating_sub(bytes as u64);
        Ok(result)
    }

    /// Has it stopped something?
    pub fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// What was spent, by all processes; what they have set aside counts.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn spent(&self) -> Result<Spent, ClientError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let own = inner.lease.bytes;
        let spent = inner.ledger.spent(&self.link, Reading::now())?;
        Ok(Spent { day: spent.day.saturating_sub(own), month: spent.month.saturating_sub(own) })
    }

    /// What is left of the budget; `None`: there is none.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn left(&self) -> Result<Option<u64>, ClientError> {
        Ok(left(&self.budget, self.spent()?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if inner.lease.bytes > 0
            && let Err(error) = inner.ledger.give_back(&self.link, &inner.lease)
        {
            // They count as spent then, which errs on the safe side.
            tracing::debug!(%error, "bytes of a budget were not given back");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;

    fn guard(file: &Path, day: &str, strict: bool) -> Guard {
        let budget = Budget { day: Some(day.parse().unwrap()), month: None };
        Guard::new(Ledger::open(file).unwrap(), "a", &budget, strict)
    }

    fn spend(guard: &Guard, piece: usize) -> u64 {
        let mut all = 0;
        while let Ok(allowed) = guard.pass(piece, |allowed| (allowed, allowed)) {
            assert!((1..=piece).contains(&allowed));
            all += allowed as u64;
        }
        all
    }

    #[test]
    fn the_budget_goes_through_to_its_last_byte_and_no_further_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("budget.db");
        let first = guard(&file, "300 kB", true);
        first.pass(1000, |allowed| ((), allowed)).unwrap();
        drop(first);
        let second = guard(&file, "300 kB", true);
        assert_eq!(second.spent().unwrap().day, 1000, "what was set aside and not used is given back");
        assert_eq!(spend(&second, 1777), 299_000);
        assert!(second.is_spent() && second.left().unwrap() == Some(0));
        let third = guard(&file, "300 kB", true);
        assert!(third.allow(1).is_err());
        let anyway = guard(&file, "300 kB", false);
        assert_eq!(anyway.pass(1000, |allowed| (allowed, allowed)).unwrap(), 1000);
        assert_eq!(anyway.spent().unwrap().day, 301_000);
    }

    #[test]
    fn what_a_killed_process_had_set_aside_counts_as_spent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("budget.db");
        let killed = guard(&file, "100 kB", true);
        killed.allow(1).unwrap();
        std::mem::forget(killed);
        assert_eq!(spend(&guard(&file, "100 kB", true), 100), 100_000 - FIRST);
    }
}
