//! Version order, as the chapter "Version sort ordering" of the coreutils manual describes it: the
//! order of Debian's version numbers, with what that chapter says of file names.

use std::cmp::Ordering;

/// Compares two names: `a9` before `a10`, `a-1.tar.gz` beside `a-1.zip`, hidden files first.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let by_kind = kind(a).cmp(&kind(b));
    if by_kind != Ordering::Equal || kind(a) < 3 {
        return by_kind;
    }
    let (stem_a, stem_b) = (without_suffix(a), without_suffix(b));
    compare_plain(stem_a, stem_b).then_with(|| compare_plain(a, b))
}

/// What goes first whatever it looks like.
fn kind(name: &[u8]) -> u8 {
    match name {
        b"" => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    }
}

/// The name without what looks like suffixes of files: a point and a letter, then letters and digits,
/// several times. Nothing may be left.
fn without_suffix(name: &[u8]) -> &[u8] {
    let mut end = name.len();
    let mut at = name.len();
    // From the end, since a suffix only counts if nothing but suffixes follows.
    while at > 0 {
        let byte = name[at - 1];
        if byte == b'.' {
            let begins = name.get(at).is_some_and(|&b| b.is_ascii_alphabetic() || b == b'~');
            if !begins {
                break;
            }
            end = at - 1;
        } else if !(byte.is_ascii_alphanumeric() || byte == b'~') {
            break;
        }
        at -= 1;
    }
    &name[..end]
}

/// In turn a part without digits, compared by [`weight`], and a number, compared by value.
fn compare_plain(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        while is_text(a) || is_text(b) {
            let by_weight = weight(a.first()).cmp(&weight(b.first()));
            if by_weight != Ordering::Equal {
                return by_weight;
            }
            // Of equal weight, and one is text: both are.
            (a, b) = (&a[1..], &b[1..]);
        }
        let (number_a, number_b);
        (number_a, a) = number(a);
        (number_b, b) = number(b);
        let by_value = number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b));
        if by_value != Ordering::Equal {
            return by_value;
        }
    }
    Ordering::Equal
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|b| !b.is_ascii_digit())
}

/// A tilde before the end, the end and digits before letters, letters before all else.
fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        Some(b'~') => -2,
        None => -1,
        Some(b) if b.is_ascii_digit() => 0,
        Some(b) if b.is_ascii_alphabetic() => i32::from(*b),
        Some(b) => i32::from(*b) + 256,
    }
}

/// The digits at the start without leading zeros, and the rest.
fn number(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at(end);
    let start = digits.iter().position(|&b| b != b'0').unwrap_or(digits.len());
    (&digits[start..], rest)
}
