//! When to try again: twice as long each time, with chance in it, so that a server that comes back is not met by all its
//! clients at once.

use std::time::Duration;

/// Exponential back-off with full jitter in its upper half.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, next: first }
    }

    /// How long to wait now.
    pub(super) fn wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        whole / 2 + (whole / 2).mul_f64(chance())
    }

    /// It worked: the next wait is short again.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A number from 0 to 1.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers all wait their whole time, which is no harm.
    if getrandom::fill(&mut bytes).is_err() {
        return 1.0;
    }
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_never_below_half() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(120));
        let mut backoff = Backoff::new(first, longest);
        let mut whole = first;
        for _ in 0..12 {
            let wait = backoff.wait();
            assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
            whole = (whole * 2).min(longest);
        }
        assert_eq!(whole, longest);
        backoff.reset();
        assert!(backoff.wait() <= first);
    }
}
