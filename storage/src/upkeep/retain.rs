//! Which versions are kept: all for some days, then a day's last for some more; the first and the head always.

use super::DAY;
use crate::Settings;
use std::collections::BTreeSet;

/// The numbers of versions that may be forgotten. `versions`: number and time (milliseconds since 1970), oldest first.
/// `needed`: numbers that are kept whatever their age.
pub(super) fn beyond(versions: &[(u64, u64)], settings: &Settings, needed: &BTreeSet<u64>, now: u64) -> Vec<u64> {
    let within = |time: u64, days: u32| time.saturating_add(u64::from(days) * DAY) >= now;
    let mut beyond = Vec::new();
    for (at, (number, time)) in versions.iter().enumerate() {
        // The first one is the empty tree, from which everything can be asked for.
        let Some((_, next)) = versions.get(at + 1).filter(|_| *number > 0) else { continue };
        let is_last_of_day = time / DAY != next / DAY;
        let is_kept = within(*time, settings.retention_all_days)
            || is_last_of_day && within(*time, settings.retention_daily_days)
            || needed.contains(number);
        if !is_kept {
            beyond.push(*number);
        }
    }
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_then_one_a_day_then_none_but_what_is_needed() {
        const HOUR: u64 = DAY / 24;
        // Three a day for 100 days, at 8, 12 and 20 o'clock; 0 and the head besides.
        let time = |number: u64| (number - 1) / 3 * DAY + [8, 12, 20][((number - 1) % 3) as usize] * HOUR;
        let versions: Vec<(u64, u64)> =
            (0..=301).map(|number| (number, if number == 0 { 0 } else { time(number) })).collect();
        let settings = Settings { retention_all_days: 10, retention_daily_days: 50, ..Settings::default() };
        let needed = BTreeSet::from([4]);
        let now = 100 * DAY + 8 * HOUR;
        let gone = beyond(&versions, &settings, &needed, now);
        let kept: Vec<u64> = (0..=301).filter(|number| !gone.contains(number)).collect();
        let all = 271..=301;
        let daily = (0..100).map(|day| day * 3 + 3).filter(|number| (151..271).contains(number));
        let expected: Vec<u64> = [0, 4].into_iter().chain(daily).chain(all).collect();
        assert_eq!(kept, expected);
        // A head of any age stays, and a clock that is behind loses nothing.
        assert_eq!(beyond(&[(0, 0), (1, 5)], &settings, &BTreeSet::new(), u64::MAX), [0; 0]);
        assert_eq!(beyond(&versions, &settings, &BTreeSet::new(), 0), [0; 0]);
    }
}
