//! Finds bytes of a content anywhere in its base.

use super::{COMPARED, Match, common};

/// Bytes of a block. One that lies in what both have in common is found if that is nearly twice as long.
const BLOCK: usize = 32;
/// Factor of the rolling hash, a polynomial of the bytes (Karp and Rabin 1987) modulo 2^64; odd and of mixed bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const NONE: u32 = u32::MAX;
/// Most equal blocks that are compared: where all are alike, any will do.
const TRIED: usize = 8;

/// The blocks of a base by their hashes.
pub(super) struct Index<'a> {
    base: &'a [u8],
    /// The last block with a hash.
    heads: Vec<u32>,
    /// For each block the one before it with the same hash.
    before: Vec<u32>,
    shift: u32,
}

impl<'a> Index<'a> {
    pub(super) fn new(base: &'a [u8]) -> Index<'a> {
        let blocks = base.as_chunks::<BLOCK>().0;
        let slots = blocks.len().next_power_of_two().max(2);
        let mut index = Index {
            base,
            heads: vec![NONE; slots],
            before: vec![NONE; blocks.len()],
            shift: u64::BITS - slots.trailing_zeros(),
        };
        // What is beyond the numbers is not found.
        for (number, block) in (0..NONE).zip(blocks) {
            let head = &mut index.heads[slot(hash(block), index.shift)];
            index.before[number as usize] = std::mem::replace(head, number);
        }
        index
    }

    /// The first bytes of `content` at or behind `from` that are a block of the base; of equal blocks that which goes on
    /// the longest.
    pub(super) fn find(&self, content: &[u8], from: usize) -> Option<Match> {
        let rest = content.get(from..)?;
        let mut hash = hash(rest.first_chunk::<BLOCK>()?);
        let leaving = power(BLOCK);
        for (at, bytes) in rest.windows(BLOCK).enumerate() {
            if at > 0 {
                let (left, came) = (u64::from(rest[at - 1]), u64::from(bytes[BLOCK - 1]));
                hash = hash.wrapping_mul(FACTOR).wrapping_add(came + 1).wrapping_sub((left + 1).wrapping_mul(leaving));
            }
            if let Some(base) = self.best(hash, &rest[at..]) {
                return Some(Match { base, content: from + at });
            }
        }
        None
    }

    fn best(&self, hash: u64, content: &[u8]) -> Option<usize> {
        let mut number = self.heads[slot(hash, self.shift)];
        let mut best = None;
        for _ in 0..TRIED {
            if number == NONE {
                break;
            }
            let at = number as usize * BLOCK;
            let length = common(&self.base[at..], content, COMPARED);
            if length >= BLOCK && best.is_none_or(|(most, _)| length > most) {
                best = Some((length, at));
            }
            number = self.before[number as usize];
        }
        best.map(|(_, at)| at)
    }
}

/// The upper bits, spread once more: the lower bits of a product know only the lower bits of the bytes.
fn slot(hash: u64, shift: u32) -> usize {
    ((hash ^ (hash >> 32)).wrapping_mul(FACTOR) >> shift) as usize
}

fn hash(block: &[u8; BLOCK]) -> u64 {
    block.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(FACTOR).wrapping_add(u64::from(*byte) + 1))
}

/// The factor of the byte that leaves.
fn power(count: usize) -> u64 {
    (0..count).fold(1, |power: u64, _| power.wrapping_mul(FACTOR))
}
