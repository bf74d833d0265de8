//! The list of a blob's chunks. Chunks are numbered as they come, so those of a content mostly follow one another: the
//! list holds runs of numbers, about 20 bytes for 4 MiB. It has checksums of its own, since it decides which bytes are
//! served.

use crate::StorageError;
use minicbor::bytes::ByteArray;
use opship_record::{Hash, codec};

/// Most chunks of a run: what a reader looks up at once.
const RUN: u64 = 64;
/// Bytes of a checksum.
const SUM: usize = 8;

const RUN_CONTEXT: &str = "opship 1 chunk run";
const LIST_CONTEXT: &str = "opship 1 chunk list";

/// Chunks with numbers that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of the first chunk.
    pub(crate) first: i64,
    /// How many.
    pub(crate) count: u64,
    /// Where the run begins in the content, and where it ends.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Over the chunks' hashes.
    pub(crate) sum: [u8; SUM],
}

impl Run {
    /// Number of the last chunk.
    pub(crate) fn last(&self) -> i64 {
        self.first.saturating_add_unsigned(self.count.saturating_sub(1))
    }
}

/// The checksum of a run whose chunks have these hashes.
pub(crate) fn run_sum<'a>(hashes: impl Iterator<Item = &'a Hash>) -> [u8; SUM] {
    let all: Vec<u8> = hashes.flat_map(|hash| hash.as_bytes()).copied().collect();
    first_bytes(&Hash::derive(RUN_CONTEXT, &all))
}

fn first_bytes(hash: &Hash) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&hash.as_bytes()[..SUM]);
    sum
}

/// Packs a list of `(number, hash, length)` for the blob `blob`.
pub(crate) fn pack(blob: &Hash, chunks: &[(i64, Hash, u64)]) -> Vec<u8> {
    let mut runs: Vec<(i64, u64, u64, ByteArray<SUM>)> = Vec::new();
    let mut rest = chunks;
    while let Some((first, _, _)) = rest.first() {
        let follows = (*first..).zip(rest).take_while(|(number, (chunk, _, _))| number == chunk).count();
        let (run, later) = rest.split_at(follows.min(usize::try_from(RUN).unwrap_or(usize::MAX)));
        let bytes = run.iter().map(|(_, _, length)| length).sum();
        runs.push((*first, run.len() as u64, bytes, run_sum(run.iter().map(|(_, hash, _)| hash)).into()));
        rest = later;
    }
    let mut packed = codec::encode(&runs);
    packed.extend(list_sum(blob, &packed));
    packed
}

fn list_sum(blob: &Hash, list: &[u8]) -> [u8; SUM] {
    first_bytes(&Hash::derive(LIST_CONTEXT, &[blob.as_bytes(), list].concat()))
}

/// The runs of a packed list of the blob `blob`, which has `length` bytes.
pub(crate) fn unpack(blob: &Hash, length: u64, packed: &[u8]) -> Result<Vec<Run>, StorageError> {
    let damaged = || StorageError::damaged(format!("the list of chunks of blob {blob}"));
    let (list, sum) = packed.split_at(packed.len().saturating_sub(SUM));
    if sum != list_sum(blob, list) {
        return Err(damaged());
    }
    let raw: Vec<(i64, u64, u64, ByteArray<SUM>)> = codec::decode(list, "chunks").map_err(|_| damaged())?;
    let mut runs = Vec::with_capacity(raw.len());
    let mut start = 0u64;
    for (first, count, bytes, sum) in raw {
        let end = start.checked_add(bytes).filter(|_| (1..=RUN).contains(&count)).ok_or_else(damaged)?;
        runs.push(Run { first, count, start, end, sum: *sum });
        start = end;
    }
    if start == length { Ok(runs) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_come_back_and_no_bit_of_them_may_flip(
            steps in prop::collection::vec((prop_oneof![4 => Just(1i64), 1 => -50..50i64], 1..300_000u64), 0..300),
            flip in any::<prop::sample::Index>(),
            bit in 0..8u32,
        ) {
            let mut number = 1000i64;
            let chunks: Vec<(i64, Hash, u64)> = steps
                .iter()
                .map(|(step, length)| {
                    number += step;
                    (number, Hash::of(&number.to_le_bytes()), *length)
                })
                .collect();
            let (blob, length) = (Hash::of(b"blob"), chunks.iter().map(|(_, _, length)| length).sum());
            let mut packed = pack(&blob, &chunks);
            let runs = unpack(&blob, length, &packed).unwrap();
            let numbers: Vec<i64> = runs.iter().flat_map(|run| run.first..=run.last()).collect();
            prop_assert_eq!(numbers, chunks.iter().map(|(number, _, _)| *number).collect::<Vec<_>>());
            prop_assert_eq!(runs.last().map_or(0, |run| run.end), length);
            prop_assert!(unpack(&Hash::of(b"other"), length, &packed).is_err());
            prop_assert!(unpack(&blob, length + 1, &packed).is_err());
            let at = flip.index(packed.len());
            packed[at] ^= 1 << bit;
            prop_assert!(unpack(&blob, length, &packed).is_err());
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(unpack(&Hash::of(b"blob"), 1, &bytes).is_err());
        }
    }

    #[test]
    fn a_list_is_a_small_part_of_its_content() {
        let chunks: Vec<(i64, Hash, u64)> = (0..1600).map(|n| (n + 1_000_000, Hash::of(b"x"), 64 << 10)).collect();
        assert!(pack(&Hash::of(b"blob"), &chunks).len() < 600, "for 100 MB");
    }
}
