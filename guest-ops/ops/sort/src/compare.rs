//! Lines and their order.

use crate::bytes::{is_dictionary, is_printing, skip_blanks};
use crate::keys::Key;
use crate::number;
use crate::order::{By, LookAt, Order};
use crate::version;
use std::borrow::Cow;
use std::cmp::Ordering;

/// How lines are ordered.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) keys: Vec<Key>,
    pub(crate) separator: Option<u8>,
    /// Of lines whose keys are equal.
    pub(crate) reverse: bool,
    pub(crate) stable: bool,
    pub(crate) unique: bool,
    /// What ends a line.
    pub(crate) terminator: u8,
}

/// A line with what is looked at first kept beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Without its terminator.
    pub(crate) text: &'a [u8],
    /// The first key's part.
    first: &'a [u8],
    /// A number whose order never contradicts that of the lines; it decides most comparisons.
    rank: u64,
}

/// Cuts a buffer, in which every line is terminated, into lines.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn lines<'a>(rules: &Rules, buffer: &'a [u8]) -> Result<Vec<Line<'a>>, String> {
    let count = memchr::memchr_iter(rules.terminator, buffer).count();
    let mut lines = Vec::new();
    lines.try_reserve_exact(count).map_err(|_| crate::input::exhausted())?;
    let mut start = 0;
    for end in memchr::memchr_iter(rules.terminator, buffer) {
        lines.push(Line::new(rules, &buffer[start..end]));
        start = end + 1;
    }
    Ok(lines)
}

impl<'a> Line<'a> {
    pub(crate) fn new(rules: &Rules, text: &'a [u8]) -> Self {
        let Some(key) = rules.keys.first() else {
            let rank = leading(text.iter().copied());
            return Self { text, first: text, rank: if rules.reverse { !rank } else { rank } };
        };
        let first = key.range(text, rules.separator);
        let rank = rank(key.order, first);
        Self { text, first, rank: if key.order.reverse { !rank } else { rank } }
    }
}

/// Sorts, and drops all but the first of equal lines where only one is wanted.
pub(crate) fn sort(rules: &Rules, lines: &mut Vec<Line<'_>>) {
    if rules.stable || rules.unique {
        lines.sort_by(|a, b| compare(rules, a, b));
    } else {
        // Lines that are equal here are the same bytes.
        lines.sort_unstable_by(|a, b| compare(rules, a, b));
    }
    if rules.unique {
        lines.dedup_by(|later, earlier| compare(rules, earlier, later) == Ordering::Equal);
    }
}

/// The order of two lines; for a stable or unique sort equal keys make equal lines.
pub(crate) fn compare(rules: &Rules, a: &Line<'_>, b: &Line<'_>) -> Ordering {
    let by_rank = a.rank.cmp(&b.rank);
    if by_rank != Ordering::Equal {
        return by_rank;
    }
    for (n, key) in rules.keys.iter().enumerate() {
        let (part_a, part_b) = match n {
            0 => (a.first, b.first),
            _ => (key.range(a.text, rules.separator), key.range(b.text, rules.separator)),
        };
        let by_key = compare_parts(key.order, part_a, part_b);
        if by_key != Ordering::Equal {
            return if key.order.reverse { by_key.reverse() } else { by_key };
        }
    }
    if !rules.keys.is_empty() && (rules.stable || rules.unique) {
        return Ordering::Equal;
    }
    let by_bytes = a.text.cmp(b.text);
    if rules.reverse { by_bytes.reverse() } else { by_bytes }
}

fn compare_parts(order: Order, a: &[u8], b: &[u8]) -> Ordering {
    match order.by {
        By::Bytes if plain(order) => a.cmp(b),
        By::Bytes => seen(order, a).cmp(seen(order, b)),
        By::Numeric => number::numeric(a).compare(&number::numeric(b)),
        By::General => number::general(a).compare(&number::general(b)),
        By::Human => number::human(&shown(order, a)).compare(&number::human(&shown(order, b))),
        By::Month => month(a).cmp(&month(b)),
        By::Version => version::compare(&shown(order, a), &shown(order, b)),
    }
}

fn plain(order: Order) -> bool {
    order.look_at == LookAt::All && !order.fold
}

/// The bytes that are looked at, as they are looked at.
fn seen(order: Order, bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let counts = move |byte: &u8| match order.look_at {
        LookAt::All => true,
        LookAt::Dictionary => is_dictionary(*byte),
        LookAt::Printing => is_printing(*byte),
    };
    bytes.iter().copied().filter(counts).map(move |b| if order.fold { b.to_ascii_uppercase() } else { b })
}

/// The same, as one piece.
fn shown(order: Order, bytes: &[u8]) -> Cow<'_, [u8]> {
    if plain(order) { Cow::Borrowed(bytes) } else { Cow::Owned(seen(order, bytes).collect()) }
}

fn rank(order: Order, part: &[u8]) -> u64 {
    match order.by {
        By::Bytes => leading(seen(order, part)),
        By::Numeric => number::numeric(part).rank(),
        By::General => number::general(part).rank(),
        By::Human => number::human(&shown(order, part)).rank(),
        By::Month => u64::from(month(part)),
        By::Version => 0,
    }
}

/// The first eight bytes as a number; missing ones count as the least.
fn leading(mut bytes: impl Iterator<Item = u8>) -> u64 {
    (0..8).fold(0, |rank, _| rank << 8 | u64::from(bytes.next().unwrap_or(0)))
}

/// 1 to 12 for the three letters that a month's name begins with, 0 for all else.
fn month(part: &[u8]) -> u8 {
    const NAMES: [&[u8]; 12] =
        [b"JAN", b"FEB", b"MAR", b"APR", b"MAY", b"JUN", b"JUL", b"AUG", b"SEP", b"OCT", b"NOV", b"DEC"];
    let Some(letters) = skip_blanks(part).get(..3) else {
        return 0;
    };
    NAMES.iter().zip(1..).find(|(name, _)| letters.eq_ignore_ascii_case(name)).map_or(0, |(_, n)| n)
}
