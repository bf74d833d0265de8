//! A checksum of a block that is quick to move on by one byte (Karp and Rabin 1987, as rsync uses one: Tridgell 1999,
//! chapter 3): the block's bytes as the coefficients of a polynomial, at an odd number, modulo 2^32.

use crate::signature::BLOCK;

/// The number; any odd one with well spread bits serves.
const AT: u32 = 0x0801_7f2d;

/// The checksum of bytes, at most a block.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    const AT2: u32 = AT.wrapping_mul(AT);
    const AT3: u32 = AT2.wrapping_mul(AT);
    const AT4: u32 = AT3.wrapping_mul(AT);
    let mut sum = 0u32;
    let (fours, rest) = bytes.as_chunks::<4>();
    for [a, b, c, d] in fours {
        let here = (u32::from(*a).wrapping_mul(AT3))
            .wrapping_add(u32::from(*b).wrapping_mul(AT2))
            .wrapping_add(u32::from(*c).wrapping_mul(AT))
            .wrapping_add(u32::from(*d));
        sum = sum.wrapping_mul(AT4).wrapping_add(here);
    }
    rest.iter().fold(sum, |sum, byte| sum.wrapping_mul(AT).wrapping_add(u32::from(*byte)))
}

/// What each byte adds to the checksum of a block that it has just left.
pub(crate) const LEAVING: [u32; 256] = leaving();

const fn leaving() -> [u32; 256] {
    let mut power = 1u32;
    let mut left = 0;
    while left < BLOCK {
        power = power.wrapping_mul(AT);
        left += 1;
    }
    let mut table = [0; 256];
    let mut byte = 0u32;
    while byte < 256 {
        table[byte as usize] = byte.wrapping_mul(power);
        byte += 1;
    }
    table
}

/// Moves the checksum of a whole block on by one byte.
#[inline]
pub(crate) fn roll(sum: u32, leaves: u8, comes: u8) -> u32 {
    sum.wrapping_mul(AT).wrapping_add(u32::from(comes)).wrapping_sub(LEAVING[usize::from(leaves)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_on_gives_the_checksum_of_the_next_block() {
        let bytes: Vec<u8> = (0..3 * BLOCK as u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        let mut sum = checksum(&bytes[..BLOCK]);
        for at in 1..=bytes.len() - BLOCK {
            sum = roll(sum, bytes[at - 1], bytes[at + BLOCK - 1]);
            assert_eq!(sum, checksum(&bytes[at..at + BLOCK]), "at {at}");
        }
    }
}
