//! Checksums of entries: only by them a check can tell that a row is what was written. They find damage, not forgery.

use opship_record::{Hash, Hasher};
use rusqlite::types::ValueRef;

/// Bytes of a checksum.
const SUM: usize = 8;

/// The columns of an entry that never change, in the order in which they are summed.
pub(super) const COLUMNS: [&str; 20] = [
    "workspace",
    "client",
    "sequence",
    "body_id",
    "kind",
    "body",
    "lists",
    "verdict",
    "reason",
    "version",
    "made_version",
    "report",
    "detail",
    "replay_micros",
    "received",
    "sent",
    "principal",
    "time",
    "rebased",
    "pinned",
];

/// The checksum of a row: of each value's kind, length and bytes.
pub(super) fn of_columns<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> [u8; SUM] {
    let mut hasher = Hasher::new();
    for value in values {
        let number;
        let (kind, bytes): (u8, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(integer) => {
                number = integer.to_le_bytes();
                (1, &number)
            }
            ValueRef::Real(real) => {
                number = real.to_le_bytes();
                (2, &number)
            }
            ValueRef::Text(bytes) => (3, bytes),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.finish().mark()
}

/// The checksum of what an entry pins, in any order and each as often as it is named.
pub(super) fn of_pins(pinned: &[Hash]) -> [u8; SUM] {
    let mut sorted = pinned.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut hasher = Hasher::new();
    sorted.iter().for_each(|hash| hasher.update(hash.as_bytes()));
    hasher.finish().mark()
}
