//! Numbers as text, compared exactly: no digit is lost to a floating point format, and the result is
//! the same on every machine.

use crate::bytes::skip_blanks;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A number `0.DIGITS × 10^exponent`; the digits are `head` followed by `tail`, the first is not 0.
/// No digits: zero.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    exponent: i64,
    head: Cow<'a, [u8]>,
    tail: &'a [u8],
}

/// The digits at the start of `bytes`, and the rest.
fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(end)
}

fn skip_zeros(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| b != b'0').unwrap_or(bytes.len());
    &bytes[start..]
}

impl<'a> Decimal<'a> {
    /// From the digits before and after the point.
    fn new(negative: bool, whole: &'a [u8], fraction: &'a [u8]) -> Self {
        let whole = skip_zeros(whole);
        if !whole.is_empty() {
            return Self { negative, exponent: whole.len() as i64, head: Cow::Borrowed(whole), tail: fraction };
        }
        let tail = skip_zeros(fraction);
        if tail.is_empty() {
            return Self::default();
        }
        let exponent = tail.len() as i64 - fraction.len() as i64;
        Self { negative, exponent, head: Cow::Borrowed(&[]), tail }
    }

    fn is_zero(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    fn sign(&self) -> i8 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.head.iter().chain(self.tail).copied()
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign != Ordering::Equal || self.is_zero() {
            return by_sign;
        }
        let size = self.exponent.cmp(&other.exponent).then_with(|| self.compare_digits(other));
        if self.negative { size.reverse() } else { size }
    }

    /// What the one has more of counts as zeros in the other.
    fn compare_digits(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.digits(), other.digits());
        loop {
            let (x, y) = (a.next(), b.next());
            if x.is_none() && y.is_none() {
                return Ordering::Equal;
            }
            let by_digit = x.unwrap_or(b'0').cmp(&y.unwrap_or(b'0'));
            if by_digit != Ordering::Equal {
                return by_digit;
            }
        }
    }

    /// A number for which `a < b` implies that `a` is not greater than `b` here: it decides most
    /// comparisons at once.
    pub(crate) fn rank(&self) -> u64 {
        const ZERO: u64 = 1 << 63;
        const DIGITS: usize = 17;
        let sized = match self.exponent {
            _ if self.is_zero() => return ZERO,
            ..=-32 => 0,
            31.. => 63 << 57,
            exponent => {
                let digits = self.digits().chain(std::iter::repeat(b'0')).take(DIGITS);
                // 10^17 is less than 2^57.
                let leading = digits.fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
                ((exponent + 32) as u64) << 57 | leading
            }
        };
        if self.negative { !(ZERO | sized) } else { ZERO | sized }
    }
}

/// The number that `--numeric-sort` sees: blanks, a minus, digits, a point, digits; each may be lacking.
pub(crate) fn numeric(bytes: &[u8]) -> Decimal<'_> {
    numeric_and_rest(bytes).0
}

fn numeric_and_rest(bytes: &[u8]) -> (Decimal<'_>, &[u8]) {
    let bytes = skip_blanks(bytes);
    let (negative, bytes) = match bytes.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let (whole, rest) = digits(bytes);
    let (fraction, rest) = rest.strip_prefix(b".").map_or((&rest[..0], rest), digits);
    (Decimal::new(negative, whole, fraction), rest)
}

/// The number that `--human-numeric-sort` sees. It goes by sign and unit before size: `900K` before `1M`
/// and before `0.1M`.
#[derive(Debug)]
pub(crate) struct Human<'a> {
    unit: i8,
    number: Decimal<'a>,
}

pub(crate) fn human(bytes: &[u8]) -> Human<'_> {
    let (number, rest) = numeric_and_rest(bytes);
    let unit = match rest.first() {
        _ if number.is_zero() => 0,
        Some(b'K' | b'k') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(b'P') => 5,
        Some(b'E') => 6,
        Some(b'Z') => 7,
        Some(b'Y') => 8,
        _ => 0,
    };
    Human { unit: if number.negative { -unit } else { unit }, number }
}

impl Human<'_> {
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.unit.cmp(&other.unit).then_with(|| self.number.compare(&other.number))
    }

    /// As [`Decimal::rank`].
    pub(crate) fn rank(&self) -> u64 {
        // -8 to 8 in five bits above what remains of the number's rank.
        (((self.unit + 8) as u64) << 59) | (self.number.rank() >> 5)
    }
}

/// What `--general-numeric-sort` sees, in its order.
#[derive(Debug)]
pub(crate) enum General<'a> {
    /// No number at all.
    Nothing,
    NotANumber {
        negative: bool,
    },
    MinusInfinity,
    Finite(Decimal<'a>),
    Infinity,
}

/// Reads as C's `strtold` does: blanks, a sign, then a decimal number with an exponent, a hexadecimal
/// one, `inf`, `infinity` or `nan`.
pub(crate) fn general(bytes: &[u8]) -> General<'_> {
    let start = bytes.iter().position(|b| !matches!(b, b' ' | 9..=13)).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    let (negative, bytes) = match bytes.first() {
        Some(b'-') => (true, &bytes[1..]),
        Some(b'+') => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    let word = |name: &[u8]| bytes.get(..name.len()).is_some_and(|b| b.eq_ignore_ascii_case(name));
    if word(b"nan") {
        return General::NotANumber { negative };
    }
    if word(b"inf") {
        return if negative { General::MinusInfinity } else { General::Infinity };
    }
    if word(b"0x")
        && let Some(number) = hexadecimal(negative, &bytes[2..])
    {
        return General::Finite(number);
    }
    let (whole, rest) = digits(bytes);
    let (fraction, rest) = rest.strip_prefix(b".").map_or((&rest[..0], rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return General::Nothing;
    }
    let mut number = Decimal::new(negative, whole, fraction);
    if let [b'e' | b'E', rest @ ..] = rest {
        number.exponent = number.exponent.saturating_add(exponent(rest));
    }
    General::Finite(number)
}

/// The exponent after its letter; 0 if there are no digits. Far beyond any number's size it stops growing.
fn exponent(bytes: &[u8]) -> i64 {
    let (negative, bytes) = match bytes.first() {
        Some(b'-') => (true, &bytes[1..]),
        Some(b'+') => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    let cap = |n: i64| n.min(1 << 40);
    let size = digits(bytes).0.iter().fold(0, |n, digit| cap(n * 10 + i64::from(digit - b'0')));
    if negative { -size } else { size }
}

/// A hexadecimal number after its `0x`. It goes through a double, which holds all but the oddest exactly.
fn hexadecimal<'a>(negative: bool, bytes: &[u8]) -> Option<Decimal<'a>> {
    let (mut value, mut scale, mut seen, mut point) = (0f64, 0i64, false, false);
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                seen = true;
                value = value * 16.0 + f64::from(digit);
                scale -= if point { 4 } else { 0 };
            }
            None if *byte == b'.' && !point => point = true,
            None => break,
        }
        rest = tail;
    }
    if !seen {
        return None;
    }
    if let [b'p' | b'P', tail @ ..] = rest {
        scale = scale.saturating_add(exponent(tail));
    }
    let power = i32::try_from(scale.clamp(-2000, 2000)).unwrap_or(0);
    // In two steps, so that neither leaves the range of a double where the result does not.
    let value = value * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    Some(from_double(negative, value.min(f64::MAX)))
}

/// The shortest decimal number that is `value` and no other double.
fn from_double<'a>(negative: bool, value: f64) -> Decimal<'a> {
    if value == 0.0 {
        return Decimal::default();
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let exponent = exponent.parse::<i64>().unwrap_or(0) + 1;
    Decimal { negative, exponent, head: Cow::Owned(digits), tail: &[] }
}

impl General<'_> {
    fn class(&self) -> u8 {
        match self {
            Self::Nothing => 0,
            // In no order that means anything; in GNU sort's on a PC.
            Self::NotANumber { negative: false } => 1,
            Self::NotANumber { negative: true } => 2,
            Self::MinusInfinity => 3,
            Self::Finite(_) => 4,
            Self::Infinity => 5,
        }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.compare(b),
            _ => self.class().cmp(&other.class()),
        }
    }

    /// As [`Decimal::rank`].
    pub(crate) fn rank(&self) -> u64 {
        match self {
            Self::Finite(number) => u64::from(self.class()) << 60 | number.rank() >> 4,
            _ => u64::from(self.class()) << 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_beyond_any_float_are_told_apart() {
        for (less, more) in [
            ("9007199254740992", "9007199254740993"),
            ("-1", "-0.99999999999999999999999999"),
            ("1e400", "1e500"),
            ("1e-500", "1e-400"),
            ("-1e500", "-1e400"),
            ("0x0.8", "0.50001"),
            ("nan", "-inf"),
            ("-inf", "-1e99999"),
            ("1e999999999999999999999", "inf"),
            ("x", "-nan"),
        ] {
            let (a, b) = (general(less.as_bytes()), general(more.as_bytes()));
            assert_eq!(a.compare(&b), Ordering::Less, "{less} {more}");
            assert!(a.rank() <= b.rank(), "{less} {more}");
        }
        assert_eq!(general(b"0x1p-1").compare(&general(b"+.50e0")), Ordering::Equal);
        assert_eq!(general(b"-0").compare(&general(b" 0x0")), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn ranks_never_contradict(a in "-?[0-9]{0,40}(\\.[0-9]{0,40})?[KMG]?", b in "-?0{0,3}[0-9]{0,3}(\\.0{0,40}[0-9]{0,3})?[KMG]?") {
            for (x, y) in [(&a, &b), (&a, &a), (&b, &b)] {
                let (x, y) = (x.as_bytes(), y.as_bytes());
                if numeric(x).compare(&numeric(y)) != Ordering::Equal {
                    prop_assert!(numeric(x).rank().cmp(&numeric(y).rank()).is_eq()
                        || numeric(x).rank().cmp(&numeric(y).rank()) == numeric(x).compare(&numeric(y)));
                } else {
                    prop_assert_eq!(numeric(x).rank(), numeric(y).rank());
                }
                let by_rank = human(x).rank().cmp(&human(y).rank());
                prop_assert!(by_rank.is_eq() || by_rank == human(x).compare(&human(y)));
                let by_rank = general(x).rank().cmp(&general(y).rank());
                prop_assert!(by_rank.is_eq() || by_rank == general(x).compare(&general(y)));
            }
        }

        #[test]
        fn general_numbers_compare_as_doubles(a: f64, b: f64) {
            let (x, y) = (format!("{a:e}"), format!("{b}"));
            if let Some(expected) = a.partial_cmp(&b) {
                prop_assert_eq!(general(x.as_bytes()).compare(&general(y.as_bytes())), expected);
            }
        }
    }
}
