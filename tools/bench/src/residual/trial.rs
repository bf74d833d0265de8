//! The contents that ours and the peers are tried on: the same for all, so this file is part of the peer's program too.

/// Bytes of a content.
pub(crate) const LENGTH: usize = 1 << 20;
/// Bytes of one difference.
const DIFFERENCE: usize = 8;

/// A generator of numbers (splitmix64, Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// `length` bytes that do not compress.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut numbers = Numbers(1);
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| numbers.next().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// The content with `count` differences at random places: those of this trial.
pub(crate) fn differing(content: &[u8], count: usize, trial: usize) -> Vec<u8> {
    let mut numbers = Numbers((count as u64) << 32 | trial as u64);
    let mut differing = content.to_vec();
    for _ in 0..count {
        // A remainder is even enough here.
        let at = (numbers.next() % (content.len() - DIFFERENCE) as u64) as usize;
        differing[at..at + DIFFERENCE].copy_from_slice(&numbers.next().to_le_bytes());
    }
    differing
}
