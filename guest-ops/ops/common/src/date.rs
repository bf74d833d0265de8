//! Dates in UTC, the world's only time zone.

/// A moment, in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// Year, of the proleptic Gregorian calendar.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute, 0 to 59.
    pub minute: u32,
    /// Second, 0 to 59.
    pub second: u32,
}

const DAY: i64 = 86_400;
/// Days in 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// The parts of `seconds` since 1970. Source: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
#[must_use]
pub fn civil(seconds: i64) -> Civil {
    let days = seconds.div_euclid(DAY) + EPOCH;
    let in_day = seconds.rem_euclid(DAY);
    let era = days.div_euclid(ERA);
    let day_of_era = days.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months count from March, so that the leap day is the last of a year.
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month: month as u32,
        day: (day_of_year - (153 * shifted + 2) / 5 + 1) as u32,
        hour: (in_day / 3600) as u32,
        minute: (in_day / 60 % 60) as u32,
        second: (in_day % 60) as u32,
    }
}

/// Seconds since 1970 of a moment; `None` if its parts are out of range. Source as of [`civil`],
/// `days_from_civil`.
#[must_use]
pub fn seconds(c: Civil) -> Option<i64> {
    let in_range = (1..=12).contains(&c.month) && c.day >= 1 && c.hour < 24 && c.minute < 60 && c.second < 60;
    if !in_range || c.day > month_length(c.year, c.month) {
        return None;
    }
    let year = c.year.checked_sub(i64::from(c.month <= 2))?;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from((c.month + 9) % 12);
    let day_of_year = (153 * shifted + 2) / 5 + i64::from(c.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era.checked_mul(ERA)?.checked_add(day_of_era - EPOCH)?;
    let in_day = i64::from(c.hour * 3600 + c.minute * 60 + c.second);
    days.checked_mul(DAY)?.checked_add(in_day)
}

fn month_length(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads `@SECONDS`, `YYYY-MM-DD`, or a date with `HH:MM` or `HH:MM:SS` after a blank or `T`, with an
/// optional final `Z` or ` UTC`. Seconds since 1970; a fraction of a second is dropped.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(number) = text.strip_prefix('@') {
        return number.split('.').next()?.parse().ok();
    }
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix(" UTC")).unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut date = date.split('-');
    let year = number(date.next()?)?;
    let month = number(date.next()?)?;
    let day = number(date.next()?)?;
    let mut time = time.trim().split(':');
    let hour = number(time.next()?)?;
    let minute = number(time.next()?)?;
    let second = number(time.next().map_or("0", |s| s.split('.').next().unwrap_or(s)))?;
    if date.next().is_some() || time.next().is_some() {
        return None;
    }
    seconds(Civil { year: year.into(), month, day, hour, minute, second })
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would let a sign pass.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        assert_eq!(parse("1970-01-01"), Some(0));
        assert_eq!(parse("@12.5"), Some(12));
        assert_eq!(parse("2000-02-29 12:34:56"), Some(951_827_696));
        assert_eq!(parse("2038-01-19T03:14:08Z"), Some(1 << 31));
        assert_eq!(parse("2024-05-06 07:08 UTC"), Some(1_714_979_280));
        let c = civil(951_827_696);
        assert_eq!((c.year, c.month, c.day, c.hour, c.minute, c.second), (2000, 2, 29, 12, 34, 56));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in ["", "2023-02-29", "2024-13-01", "2024-01-01 24:00", "2024-01", "+1-1-1", "2024-01-01 1", "@x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_and_seconds_are_inverse(s in -100_000_000_000i64..1_000_000_000_000) {
            prop_assert_eq!(seconds(civil(s)), Some(s));
        }
    }
}
