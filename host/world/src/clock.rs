//! Time and chance: both come from the plan alone.

use crate::limits;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const SEED_CONTEXT: &str = "opship 1 random source";

/// Virtual time: it stands still but for clock calls and sleeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: u64,
    passed: u64,
}

/// The four clocks of preview 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockId {
    Real,
    Monotonic,
    /// Of the process or the thread: all virtual time counts as used.
    Used,
}

impl ClockId {
    pub(crate) fn new(id: u32) -> Option<ClockId> {
        match id {
            0 => Some(ClockId::Real),
            1 => Some(ClockId::Monotonic),
            2 | 3 => Some(ClockId::Used),
            _ => None,
        }
    }
}

impl Clock {
    pub(crate) fn new(start: u64) -> Clock {
        Clock { start, passed: 0 }
    }

    /// A clock's time in nanoseconds.
    pub(crate) fn read(&self, id: ClockId) -> u64 {
        match id {
            ClockId::Real => self.start.saturating_add(self.passed),
            ClockId::Monotonic => limits::MONOTONIC_BASE.saturating_add(self.passed),
            ClockId::Used => self.passed,
        }
    }

    pub(crate) fn pass(&mut self, nanoseconds: u64) {
        self.passed = self.passed.saturating_add(nanoseconds);
    }

    /// Real time as files keep it.
    pub(crate) fn file_time(&self) -> i64 {
        i64::try_from(self.read(ClockId::Real)).unwrap_or(i64::MAX)
    }

    /// Real time at the start of the run, in nanoseconds since 1970.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

/// One stream of random bytes for the whole operation (ChaCha20, RFC 8439, keyed by BLAKE3 of the plan's seed). It is taken
/// byte by byte, so that what a guest gets depends on how many bytes it asked for before, and on nothing else.
pub(crate) struct Random {
    source: ChaCha20Rng,
    block: [u8; 64],
    used: usize,
}

impl Random {
    pub(crate) fn new(seed: &[u8; 16]) -> Random {
        let key = blake3::derive_key(SEED_CONTEXT, seed);
        Random { source: ChaCha20Rng::from_seed(key), block: [0; 64], used: 64 }
    }

    pub(crate) fn fill(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            if self.used == self.block.len() {
                self.source.fill_bytes(&mut self.block);
                self.used = 0;
            }
            let count = bytes.len().min(self.block.len() - self.used);
            bytes[..count].copy_from_slice(&self.block[self.used..self.used + count]);
            self.used += count;
            bytes = &mut bytes[count..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_do_not_depend_on_how_they_are_asked_for() {
        let (mut whole, mut parts) = ([0; 200], [0; 200]);
        Random::new(&[7; 16]).fill(&mut whole);
        let mut random = Random::new(&[7; 16]);
        for part in parts.chunks_mut(7) {
            random.fill(part);
        }
        assert_eq!(whole, parts);
        // Engine profile 1 promises these bytes forever.
        assert_eq!(&blake3::hash(&whole).to_hex()[..16], "a5ab61cf361367cd");
        let mut other = [0; 200];
        Random::new(&[8; 16]).fill(&mut other);
        assert_ne!(whole, other);
    }

    #[test]
    fn time_saturates() {
        let mut clock = Clock::new(u64::MAX - 1);
        clock.pass(5);
        clock.pass(u64::MAX);
        assert_eq!(clock.read(ClockId::Real), u64::MAX);
        assert_eq!(clock.file_time(), i64::MAX);
    }
}
