//! What fuzzing kept, and changes to it that are the same on each run: for the tests that run the fuzz targets on stable.

use std::fmt::Write;
use std::path::Path;

/// The inputs kept for a target: a line each of `corpora/TARGET.hex`, in hexadecimal.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fuzz/corpora/{target}.hex"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Runs a target on each input kept for it and on `count` that are made from them, and says which one it fails on.
pub(crate) fn replay<T>(target: &str, count: usize, mut run: impl FnMut(&[u8]) -> T) {
    let kept = corpus(target);
    assert!(!kept.is_empty(), "nothing is kept for {target}");
    for input in &kept {
        let told = Told(target, input);
        run(input);
        std::mem::forget(told);
    }
    let mut numbers = Numbers(1);
    for _ in 0..count {
        let mut input = kept[numbers.below(kept.len())].clone();
        let other = numbers.below(kept.len());
        mutate(&mut numbers, &mut input, &kept[other]);
        let told = Told(target, &input);
        run(&input);
        std::mem::forget(told);
    }
}

/// Tells the input when it is dropped, which happens only where a target fails.
struct Told<'a>(&'a str, &'a [u8]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let hex = self.1.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        eprintln!("{} fails on {hex}", self.0);
    }
}

/// A small generator of numbers (splitmix64, Steele, Lea and Flood 2014), so that each run does the same.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Bytes that CBOR gives a meaning: small numbers, longer heads, indefinite lengths, null, break.
pub(crate) const TELLING: [u8; 16] =
    [0x00, 0x01, 0x17, 0x18, 0x1b, 0x20, 0x40, 0x5f, 0x60, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xf6, 0xff];

/// Changes a few bytes, or puts a piece of another input in.
pub(crate) fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>, other: &[u8]) {
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
