//! Days and months of a budget, on a clock that nobody can turn.

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far the wall clock may run ahead of the machine's own count of seconds: it is set by a time server now and then.
const TOLERANCE: u64 = 300;

/// What the clocks say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// Seconds since 1970.
    pub(super) time: u64,
    /// Which start of the machine this is.
    pub(super) boot: String,
    /// Seconds since then, sleep included.
    pub(super) uptime: u64,
}

impl Reading {
    /// The clocks now.
    pub(super) fn now() -> Reading {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let uptime = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or(0);
        Reading { time, boot, uptime }
    }

    /// The time that counts, given what counted last: never back, and within one start of the machine no faster than its
    /// own count of seconds. So neither a clock set back nor one set forth begins a new day with a new budget.
    pub(super) fn after(self, last: Option<&Reading>) -> Reading {
        let Some(last) = last else { return self };
        let longest = match self.boot == last.boot {
            true => last.time + self.uptime.saturating_sub(last.uptime) + TOLERANCE,
            false => u64::MAX,
        };
        // What was set back goes on at the machine's own pace.
        let shortest = match self.boot == last.boot {
            true => last.time + self.uptime.saturating_sub(last.uptime),
            false => last.time,
        };
        let time = if self.time < last.time { shortest } else { self.time.min(longest) };
        Reading { time, ..self }
    }

    /// The day and the month in local time, as text that sorts as time does.
    pub(super) fn periods(&self) -> (String, String) {
        let seconds = i64::try_from(self.time).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let date = time.to_zoned(jiff::tz::TimeZone::system()).date();
        let month = format!("{:04}-{:02}", date.year(), date.month());
        (format!("{month}-{:02}", date.day()), month)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, boot: &str, uptime: u64) -> Reading {
        Reading { time, boot: boot.to_owned(), uptime }
    }

    #[test]
    fn a_clock_that_is_turned_neither_ends_a_day_nor_brings_one_back() {
        let last = at(1_000_000, "a", 500);
        assert_eq!(at(1_000_060, "a", 560).after(Some(&last)).time, 1_000_060);
        // A day ahead, and a day back, ten seconds later.
        assert_eq!(at(1_086_400, "a", 510).after(Some(&last)).time, 1_000_010 + TOLERANCE);
        assert_eq!(at(913_600, "a", 510).after(Some(&last)).time, 1_000_010);
        // The machine slept for a day: its own count knows.
        assert_eq!(at(1_086_400, "a", 86_900).after(Some(&last)).time, 1_086_400);
        // Switched off for a day; and a start with a clock that has lost its time.
        assert_eq!(at(1_086_400, "b", 10).after(Some(&last)).time, 1_086_400);
        assert_eq!(at(3, "b", 3).after(Some(&last)).time, 1_000_000);
        assert_eq!(at(7, "a", 1).after(None).time, 7);
    }

    #[test]
    fn periods_sort_as_time_does() {
        let (day, month) = at(1_798_761_599, "a", 1).periods();
        assert!(day.starts_with(&month) && day.len() == 10, "{day} {month}");
        assert!(day < at(1_798_761_599 + 2 * 86_400, "a", 1).periods().0);
    }
}
