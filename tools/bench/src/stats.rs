//! Times, measured and put in order.

use crate::error::Result;
use std::time::{Duration, Instant};

/// Measured times, in order.
#[derive(Debug, Clone)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Puts times in order.
    pub(crate) fn new(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        Times(times)
    }

    /// The time below which `percent` of all are, in milliseconds; 0 if there are none.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// The middle time, in milliseconds.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }
}

/// Does `prepare` and `work` `runs` times each, and measures `work` alone.
pub(crate) fn repeat<P, T>(
    runs: usize,
    mut prepare: impl FnMut(usize) -> Result<P>,
    mut work: impl FnMut(P) -> Result<T>,
) -> Result<Times> {
    let mut times = Vec::with_capacity(runs);
    for run in 0..runs {
        let prepared = prepare(run)?;
        times.push(timed(|| work(prepared))?);
    }
    Ok(Times::new(times))
}

/// As [`repeat`], but of the time that a processor gave to this thread: what only computes is measured so on a machine that
/// does other things as well.
pub(crate) fn repeat_computing<P, T>(
    runs: usize,
    mut prepare: impl FnMut() -> P,
    mut work: impl FnMut(P) -> Result<T>,
) -> Result<Times> {
    let times = (0..runs).map(|_| {
        let prepared = prepare();
        let start = processor_time();
        let result = work(prepared)?;
        let time = processor_time().saturating_sub(start);
        drop(result);
        Ok(time)
    });
    Ok(Times::new(times.collect::<Result<_>>()?))
}

/// What processors gave to this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither is ever negative or out of its range here.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Measures `work`, without dropping what it gives.
pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    let result = work()?;
    let time = start.elapsed();
    drop(result);
    Ok(time)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn percentiles_are_of_the_ordered_times() {
        let times = Times::new([5, 1, 4, 2, 3].map(Duration::from_millis).to_vec());
        assert_eq!([times.percentile(0), times.median(), times.percentile(95)], [1.0, 3.0, 5.0]);
        assert_eq!(Times::new(Vec::new()).median(), 0.0);
    }
}
