//! Parity repairs any differences that it promises to repair, and is the code that docs/wire-format.md tells.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/bytes.rs"]
mod bytes;

use bytes::noise;
use opship_residual::ResidualError;
use opship_residual::parity::{AUTO_SYMBOLS, Code, Encoder, MAX_PARITY, MAX_SYMBOLS, Parity};
use proptest::prelude::*;
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{HighRateEncoder, RateEncoder};
use std::io::{self, Read};

fn parity(content: &[u8], symbols: u16) -> Parity {
    Parity::of(content, Code::new(symbols, content.len() as u64).unwrap()).unwrap()
}

fn repaired(recorded: &[u8], replayed: &[u8], symbols: u16) -> Result<Vec<u8>, ResidualError> {
    let difference = parity(recorded, symbols).difference(&parity(replayed, symbols))?;
    let mut made = Vec::new();
    let length = difference.apply(Pieces(replayed), &mut made)?;
    assert_eq!(length, made.len() as u64);
    Ok(made)
}

/// Reads a few bytes at a time, as a file may.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(12_345);
        self.0.read(&mut buffer[..most])
    }
}

/// Lays bytes over a content, as far as it goes.
fn overwrite(content: &mut [u8], at: usize, bytes: &[u8]) {
    content.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

#[derive(Debug, Clone)]
struct Case {
    symbols: u16,
    length: usize,
    seed: u64,
    /// Places as parts of the length, and up to eight bytes each.
    differences: Vec<(f64, Vec<u8>)>,
}

fn case(most: impl Fn(u16) -> usize + Clone + 'static) -> impl Strategy<Value = Case> {
    let length = prop_oneof![0usize..40, 0usize..3000, 60_000usize..140_000];
    (1..=MAX_SYMBOLS / 2, length, any::<u64>()).prop_flat_map(move |(half, length, seed)| {
        let difference = (0.0..1.0, prop::collection::vec(any::<u8>(), 1..=8));
        prop::collection::vec(difference, 0..=most(half)).prop_map(move |differences| Case {
            symbols: 2 * half,
            length,
            seed,
            differences,
        })
    })
}

impl Case {
    fn contents(&self) -> (Vec<u8>, Vec<u8>) {
        let recorded = noise(self.seed, self.length);
        let mut replayed = recorded.clone();
        for (place, bytes) in &self.differences {
            overwrite(&mut replayed, (place * self.length as f64) as usize, bytes);
        }
        (recorded, replayed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn half_as_many_differences_as_symbols_are_repaired_wherever_they_are(case in case(usize::from)) {
        let (recorded, replayed) = case.contents();
        prop_assert!(repaired(&recorded, &replayed, case.symbols).unwrap() == recorded);
    }

    #[test]
    fn more_differences_are_refused_or_end_in_a_content_with_the_same_parity(case in case(|_| 300)) {
        let (recorded, replayed) = case.contents();
        match repaired(&recorded, &replayed, case.symbols) {
            Ok(made) => prop_assert!(parity(&made, case.symbols) == parity(&recorded, case.symbols)),
            Err(error) => prop_assert!(matches!(error, ResidualError::Unrepairable), "{error}"),
        }
    }

    #[test]
    fn parity_does_not_depend_on_the_pieces(length in 0usize..20_000, piece in 1usize..3000, half in 1u16..20) {
        let content = noise(5, length);
        let mut encoder = Encoder::new(Code::new(2 * half, length as u64).unwrap());
        content.chunks(piece).for_each(|piece| encoder.update(piece));
        prop_assert_eq!(encoder.finish().unwrap(), parity(&content, 2 * half));
    }
}

#[test]
fn sixteen_differences_of_eight_bytes_in_a_megabyte_are_repaired_by_under_600_bytes() {
    let recorded = noise(1, 1 << 20);
    assert!(parity(&recorded, AUTO_SYMBOLS).as_bytes().len() < 600);
    for (first, step) in [(0, 8), (1, 9), (7, 65_536), (3, 18), ((1 << 20) - 8 * 16, 8), (1_000_001, 11)] {
        let mut replayed = recorded.clone();
        for number in 0..16 {
            replayed[first + number * step..][..8].iter_mut().for_each(|byte| *byte = !*byte);
        }
        assert!(
            repaired(&recorded, &replayed, AUTO_SYMBOLS).unwrap() == recorded,
            "from {first} on in steps of {step}"
        );
    }
}

#[test]
fn one_difference_too_many_in_a_column_is_told() {
    let recorded = noise(1, 1 << 20);
    // Symbols of one column are nine symbols apart here.
    for (count, repairs) in [(16, true), (17, false)] {
        let mut replayed = recorded.clone();
        (0..count).for_each(|number| replayed[18 * 101 * number] ^= 1);
        match repaired(&recorded, &replayed, AUTO_SYMBOLS) {
            Ok(made) => assert!(repairs && made == recorded, "{count}"),
            Err(error) => assert!(!repairs && matches!(error, ResidualError::Unrepairable), "{count}: {error}"),
        }
    }
}

#[test]
fn columns_are_full_to_the_last_symbol() {
    const COLUMN: usize = 127 << 10;
    for (length, columns) in [(9 * COLUMN, 9), (9 * COLUMN + 1, 10), (9 * COLUMN - 1, 9), (0, 9), (33 * COLUMN, 33)] {
        let recorded = noise(2, length);
        assert_eq!(Code::new(2, length as u64).unwrap().columns(), columns);
        for symbols in [2, MAX_SYMBOLS] {
            let mut replayed = recorded.clone();
            overwrite(&mut replayed, length.saturating_sub(8), b"the last");
            let first = recorded.get(..8.min(length)).unwrap().iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
            // With two symbols only one of a column may differ.
            if symbols > 2 {
                overwrite(&mut replayed, 0, &first);
            }
            assert!(repaired(&recorded, &replayed, symbols).unwrap() == recorded, "{length} bytes, {symbols} symbols");
        }
    }
}

#[test]
fn contents_of_other_lengths_and_impossible_codes_are_refused() {
    let recorded = noise(1, 1000);
    let other = repaired(&recorded, &recorded[..999], 16);
    assert!(matches!(other, Err(ResidualError::OtherLength { length: 999, recorded: 1000 })));
    let code = Code::new(16, 1000).unwrap();
    for content in [noise(1, 999), noise(1, 1001), noise(1, 100_000)] {
        assert!(matches!(Parity::of(content.as_slice(), code), Err(ResidualError::OtherLength { .. })));
    }
    for symbols in [0, 1, 3, 31, MAX_SYMBOLS + 2, u16::MAX] {
        assert!(matches!(Code::new(symbols, 1), Err(ResidualError::Symbols(_))), "{symbols}");
    }
    for length in [1 << 40, u64::MAX] {
        assert!(
            matches!(Code::new(2, length), Err(ResidualError::ParityTooLarge { bytes }) if bytes > MAX_PARITY as u64)
        );
    }
    assert!(Parity::from_bytes(code, vec![0; code.bytes() - 1]).is_err());
    assert!(parity(&recorded, 16).difference(&parity(&recorded, 18)).is_err());
}

/// The same code by the library's own encoder, which has the symbols of 32 columns in two halves.
#[test]
fn the_parity_is_the_librarys_recovery() {
    for (columns, symbols, length) in [(9, 32, 100_000), (9, 6, 1 << 20), (40, 32, 39 * (127 << 10) + 13)] {
        let content = noise(9, length);
        let width = 64 * usize::div_ceil(columns, 32);
        let stripes: Vec<&[u8]> = content.chunks(2 * columns).collect();
        let mut encoder =
            HighRateEncoder::new(stripes.len(), symbols, width, DefaultEngine::new(), None).expect("a code");
        stripes.iter().for_each(|stripe| encoder.add_original_shard(halves(stripe, width)).unwrap());
        let recovery = encoder.encode().unwrap();
        let own = parity(&content, u16::try_from(symbols).unwrap());
        for (shard, stripe) in recovery.recovery_iter().zip(own.as_bytes().chunks(2 * columns)) {
            assert!(shard == halves(stripe, width), "{columns} columns, {symbols} symbols");
        }
    }
}

fn halves(stripe: &[u8], width: usize) -> Vec<u8> {
    let mut shard = vec![0; width];
    for (at, byte) in stripe.iter().enumerate() {
        shard[at / 64 * 64 + at % 2 * 32 + at % 64 / 2] = *byte;
    }
    shard
}

/// GF(2^16) as docs/wire-format.md has it: slowly, and with nothing of the code that is tested.
mod field {
    const BASIS: [u16; 16] = [
        0x0001, 0xacca, 0x3c0e, 0x163e, 0xc582, 0xed2e, 0x914c, 0x4012, 0x6c98, 0x10d8, 0x6a72, 0xb900, 0xfdb8, 0xfb34,
        0xff38, 0x991e,
    ];

    fn polynomial(element: u16) -> u16 {
        (0..16).filter(|bit| element >> bit & 1 == 1).fold(0, |sum, bit| sum ^ BASIS[bit])
    }

    /// All elements by their polynomials.
    pub(crate) fn elements() -> Vec<u16> {
        let mut elements = vec![0; 1 << 16];
        (0..=u16::MAX).for_each(|element| elements[usize::from(polynomial(element))] = element);
        elements
    }

    pub(crate) fn product(elements: &[u16], a: u16, b: u16) -> u16 {
        let (mut a, b, mut product) = (u32::from(polynomial(a)), polynomial(b), 0);
        for bit in 0..16 {
            product ^= if b >> bit & 1 == 1 { a } else { 0 };
            a <<= 1;
            a ^= if a >> 16 == 1 { 0x1_002d } else { 0 };
        }
        elements[product as usize]
    }
}

#[test]
fn the_parity_is_what_the_document_says() {
    let elements = field::elements();
    let mul = |a, b| field::product(&elements, a, b);
    for (symbols, length) in [(16u16, 3001usize), (32, 700), (6, 1500)] {
        let content = noise(3, length);
        let (own, span) = (parity(&content, symbols), symbols.next_power_of_two());
        let at = |bytes: &[u8], at: usize| {
            u16::from_le_bytes([bytes.get(at).copied().unwrap_or(0), bytes.get(at + 1).copied().unwrap_or(0)])
        };
        let left_out = |point: u16| (symbols..span).fold(1, |product, other| mul(product, point ^ other));
        for column in 0..9 {
            let data = (0..length.div_ceil(18)).map(|row| (span + row as u16, at(&content, 18 * row + 2 * column)));
            let sent = (0..symbols).map(|row| (row, at(own.as_bytes(), 18 * usize::from(row) + 2 * column)));
            let mut terms: Vec<(u16, u16)> =
                sent.chain(data).map(|(point, symbol)| (point, mul(symbol, left_out(point)))).collect();
            for power in 0..symbols {
                let sum = terms.iter().fold(0, |sum, (_, term)| sum ^ term);
                assert_eq!(sum, 0, "{symbols} symbols, column {column}, power {power}");
                terms.iter_mut().for_each(|(point, term)| *term = mul(*term, *point));
            }
        }
    }
}
