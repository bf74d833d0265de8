//! The fuzz targets, run on stable over the vectors, what mutation makes of them, and noise. Deterministic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::samples::{Sample, reencode, samples};
use common::targets;

/// A small generator of numbers (splitmix64, Steele, Lea and Flood 2014), so that each run does the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Bytes that CBOR gives a meaning: small numbers, longer heads, indefinite lengths, null, break.
const TELLING: [u8; 16] =
    [0x00, 0x01, 0x17, 0x18, 0x1b, 0x20, 0x40, 0x5f, 0x60, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xf6, 0xff];

fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        match numbers.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            1 if !bytes.is_empty() => bytes[at] = TELLING[numbers.below(TELLING.len())],
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 => bytes.insert(at, numbers.byte()),
            4 => bytes.truncate(at),
            5 => {
                let from = numbers.below(other.len());
                let piece = &other[from..(from + numbers.below(40)).min(other.len())];
                drop(bytes.splice(at..at, piece.iter().copied()));
            }
            _ if !bytes.is_empty() => {
                let end = (at + numbers.below(20)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.extend(piece);
            }
            _ => {}
        }
    }
}

/// All targets on the same bytes: what is of one type is a near miss for another.
fn run_all(bytes: &[u8]) {
    for target in [
        targets::entries,
        targets::record,
        targets::value,
        targets::lists,
        targets::tree_node,
        targets::answer,
        targets::version,
        targets::path,
    ] {
        target(bytes);
    }
}

#[test]
fn no_target_fails_on_mutations_of_valid_bytes() {
    let samples = samples();
    let mut numbers = Numbers(1);
    for Sample { bytes, .. } in &samples {
        run_all(bytes);
    }
    for _ in 0..40_000 {
        let mut bytes = samples[numbers.below(samples.len())].bytes.clone();
        let other = &samples[numbers.below(samples.len())].bytes;
        mutate(&mut numbers, &mut bytes, other);
        run_all(&bytes);
    }
}

#[test]
fn no_target_fails_on_noise_or_deep_nesting() {
    let mut numbers = Numbers(2);
    for _ in 0..20_000 {
        let length = numbers.below(64);
        let noise: Vec<u8> = (0..length)
            .map(|_| if numbers.below(2) == 0 { numbers.byte() } else { TELLING[numbers.below(TELLING.len())] })
            .collect();
        run_all(&noise);
    }
    // Under an unknown key of an answer anything may stand, and a skipped value must not use the stack.
    for opening in [0x81, 0x9f, 0xa1, 0xbf, 0xc0, 0xd8] {
        let mut bytes = vec![0xa3, 0, 7, 1, 0, 0x18, 99];
        bytes.extend([opening].repeat(1_000_000));
        run_all(&bytes);
        run_all(&bytes[7..]);
    }
}

/// Whatever bytes are accepted as a type are the bytes that the type is written as.
#[test]
fn mutated_vectors_are_refused_or_mean_what_they_say() {
    let mut numbers = Numbers(3);
    let samples: Vec<Sample> = samples().into_iter().filter(|s| s.kind != "response").collect();
    let mut accepted = 0;
    for _ in 0..40_000 {
        let sample = &samples[numbers.below(samples.len())];
        let mut bytes = sample.bytes.clone();
        mutate(&mut numbers, &mut bytes, &sample.bytes);
        if let Ok(again) = reencode(sample.kind, &bytes) {
            assert_eq!(again, bytes, "{}", sample.name);
            accepted += 1;
        }
    }
    assert!(accepted > 1000, "only {accepted} were accepted: the mutations say little");
}
