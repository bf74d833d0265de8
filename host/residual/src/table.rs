//! Finds the block that has a rolling checksum.

use crate::signature::{BLOCK, Signature, Sums};

/// Bits of the filter for each block: one position in sixteen that matches nothing passes it.
const BITS_EACH: usize = 16;
const NONE: u32 = u32::MAX;
/// Most places looked at for one block: blocks that are made to collide are found less often, not more slowly.
const PROBES: usize = 256;

/// The whole blocks of a signature by their rolling checksums. Of equal blocks only the first is in it.
pub(crate) struct Table<'a> {
    signature: &'a Signature,
    /// A bit for each value that some block has: it fits the processor's cache where the slots do not.
    filter: Vec<u64>,
    filter_shift: u32,
    /// Numbers of blocks, open addressing with linear probing.
    slots: Vec<u32>,
    slot_shift: u32,
}

impl<'a> Table<'a> {
    pub(crate) fn new(signature: &'a Signature) -> Table<'a> {
        let whole = usize::try_from(signature.length() / BLOCK as u64).unwrap_or(0).min(signature.blocks.len());
        let bits = (whole * BITS_EACH).next_power_of_two().max(1 << 10);
        let count = (whole * 2).next_power_of_two().max(16);
        let mut table = Table {
            signature,
            filter: vec![0; bits / 64],
            filter_shift: 64 - bits.trailing_zeros(),
            slots: vec![NONE; count],
            slot_shift: 64 - count.trailing_zeros(),
        };
        for (number, sums) in signature.blocks.iter().take(whole).enumerate() {
            table.insert(number, *sums);
        }
        table
    }

    fn insert(&mut self, number: usize, sums: Sums) {
        let Ok(number) = u32::try_from(number) else { return };
        let spread = spread(sums.rolling);
        let mut slot = (spread >> self.slot_shift) as usize;
        for _ in 0..PROBES {
            match self.slots[slot] {
                NONE => {
                    self.slots[slot] = number;
                    let bit = (spread >> self.filter_shift) as usize;
                    self.filter[bit / 64] |= 1 << (bit % 64);
                    return;
                }
                held if self.signature.blocks[held as usize] == sums => return,
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// May a block have this checksum?
    #[inline]
    pub(crate) fn may_have(&self, rolling: u32) -> bool {
        let bit = (spread(rolling) >> self.filter_shift) as usize;
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// The number of a block that has this checksum and the strong one, which is made only where it is needed.
    pub(crate) fn find(&self, rolling: u32, strong: impl Fn() -> u32) -> Option<usize> {
        let mut slot = (spread(rolling) >> self.slot_shift) as usize;
        let mut made = None;
        for _ in 0..PROBES {
            if self.slots[slot] == NONE {
                return None;
            }
            let number = self.slots[slot] as usize;
            let sums = self.signature.blocks[number];
            if sums.rolling == rolling && sums.strong == *made.get_or_insert_with(&strong) {
                return Some(number);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }
}

/// Spreads a checksum over 64 bits (Fibonacci hashing, Knuth 6.4), so that its upper bits choose places.
#[inline]
fn spread(rolling: u32) -> u64 {
    u64::from(rolling).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
