//! Noticing that the machine slept: connections that look open may be gone, and files may have changed meanwhile.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A shorter sleep goes unnoticed: the clocks themselves are not read at one moment.
const SHORTEST: Duration = Duration::from_secs(5);

/// Compares the clock that counts while the machine sleeps with the one that does not.
#[derive(Debug)]
pub(super) struct SleepDetector(Duration);

impl SleepDetector {
    pub(super) fn new() -> SleepDetector {
        SleepDetector(slept())
    }

    /// Has the machine slept since this was asked last?
    pub(super) fn has_slept(&mut self) -> bool {
        self.has_slept_by(slept())
    }

    fn has_slept_by(&mut self, slept: Duration) -> bool {
        let before = std::mem::replace(&mut self.0, slept);
        slept.saturating_sub(before) >= SHORTEST
    }
}

/// How long the machine has slept since it was started.
fn slept() -> Duration {
    let at = |clock| {
        let time = clock_gettime(clock);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    at(ClockId::Boottime).saturating_sub(at(ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_noticed_once_and_a_moment_is_not() {
        let mut detector = SleepDetector(Duration::from_secs(100));
        assert!(!detector.has_slept_by(Duration::from_secs(101)));
        assert!(detector.has_slept_by(Duration::from_secs(3600)));
        assert!(!detector.has_slept_by(Duration::from_secs(3600)));
        assert!(!SleepDetector::new().has_slept());
    }
}
