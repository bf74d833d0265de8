//! Lengths of time as people write them.

use std::time::Duration;

/// Reads `90s`, `30m`, `2h`, `7d` or `2w`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no length of time; write it as 90s, 30m, 2h, 7d or 2w");
    let text = text.trim();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        'w' => 7 * 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| (1..=10 * 366 * 24 * 3600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// The largest unit that fits: `2 h`, `45 s`.
pub(crate) fn shown(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_their_units_and_nothing_else_is() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(604_800)));
        for bad in ["", "s", "7", "-1h", "1.5h", "7 d", "0s", "99999999999w", "7ü", "ü"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lengths_are_shown_in_one_unit() {
        let shown = [5, 119, 120, 7199, 7200, 172_800].map(|seconds| shown(Duration::from_secs(seconds)));
        assert_eq!(shown, ["5 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}
