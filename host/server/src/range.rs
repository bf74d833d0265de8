//! The `Range` header (RFC 9110 §14.2): one range of bytes.

use std::ops::Range;

/// What part of a content was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All: no range, or one that is not understood and so ignored.
    Whole,
    /// These bytes, not empty and within the content.
    Part(Range<u64>),
    /// A range outside the content.
    Outside,
}

/// Reads the header's value.
pub(crate) fn parse(value: Option<&str>, length: u64) -> Asked {
    let Some(range) = value.and_then(|v| v.trim().strip_prefix("bytes=")) else { return Asked::Whole };
    let Some((first, last)) = range.split_once('-') else { return Asked::Whole };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (start, end) = match (first.trim().is_empty(), number(first), last.trim().is_empty(), number(last)) {
        (true, _, false, Some(count)) => (length.saturating_sub(count), length),
        (false, Some(start), true, _) => (start, length),
        (false, Some(start), false, Some(last)) if start <= last => (start, last.saturating_add(1).min(length)),
        _ => return Asked::Whole,
    };
    if start < end { Asked::Part(start..end) } else { Asked::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_content() {
        let cases = [
            (None, Asked::Whole),
            (Some("bytes=0-0"), Asked::Part(0..1)),
            (Some("bytes=2-"), Asked::Part(2..10)),
            (Some("bytes=2-99"), Asked::Part(2..10)),
            (Some("bytes=-3"), Asked::Part(7..10)),
            (Some("bytes=-99"), Asked::Part(0..10)),
            (Some("bytes=10-"), Asked::Outside),
            (Some("bytes=-0"), Asked::Outside),
            (Some("bytes=5-4"), Asked::Whole),
            (Some("bytes=0-1,3-4"), Asked::Whole),
            (Some("bytes=-"), Asked::Whole),
            (Some("items=0-1"), Asked::Whole),
            (Some("bytes=0-18446744073709551615"), Asked::Part(0..10)),
        ];
        for (value, asked) in cases {
            assert_eq!(parse(value, 10), asked, "{value:?}");
        }
        assert_eq!(parse(Some("bytes=0-"), 0), Asked::Outside);
    }
}
