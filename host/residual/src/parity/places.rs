//! The roots of many locators at a time, by the encoder's transforms: a polynomial of a degree below `span` is known by its
//! values at the first `span` points, and one transform gives its values at the next ones, for 32 columns at a time.

use super::Code;
use super::encode::{Block, LANES};
use super::field::Field;
use reed_solomon_simd::engine::{DefaultEngine, Engine, ShardsRefMut};

/// Blocks transformed at one time: what is at work stays in the processor's cache.
const WIDTH: usize = 16;

/// For each locator the points of the data that are roots of it, ascending.
pub(super) fn places(field: Field, code: Code, locators: &[Vec<u16>]) -> Vec<Vec<u16>> {
    let engine = DefaultEngine::new();
    locators.chunks(WIDTH * LANES).flat_map(|some| places_of_some(field, &engine, code, some)).collect()
}

fn places_of_some(field: Field, engine: &DefaultEngine, code: Code, locators: &[Vec<u16>]) -> Vec<Vec<u16>> {
    let (span, width) = (code.span(), locators.len().div_ceil(LANES));
    let mut transformed = values(field, span, width, locators);
    engine.ifft(&mut ShardsRefMut::new(span, width, &mut transformed), 0, span, span, 0);
    let mut work = transformed.clone();
    let mut found = vec![Vec::new(); locators.len()];
    let last = code.length.div_ceil(code.stripe() as u64) + span as u64;
    for first in (span..usize::try_from(last).unwrap_or(usize::MAX)).step_by(span) {
        work.copy_from_slice(&transformed);
        engine.fft(&mut ShardsRefMut::new(span, width, &mut work), 0, span, span, first);
        for (at, block) in work.iter().enumerate().filter(|(_, block)| has_zero(block)) {
            // The last points may lie behind the content; whoever asks checks.
            let point = u16::try_from(first + at / width).unwrap_or(u16::MAX);
            let some = found.iter_mut().skip(at % width * LANES);
            let lanes = block[..LANES].iter().zip(&block[LANES..]);
            some.zip(lanes).filter(|(_, symbol)| *symbol == (&0, &0)).for_each(|(found, _)| found.push(point));
        }
    }
    found
}

/// The values at the first points, of each locator turned round, so that the places themselves are its roots. Lanes without
/// a locator have no root.
fn values(field: Field, span: usize, width: usize, locators: &[Vec<u16>]) -> Vec<Block> {
    let mut empty = [0; 2 * LANES];
    empty[..LANES].fill(1);
    let mut blocks = vec![empty; span * width];
    for (column, locator) in locators.iter().enumerate() {
        let turned: Vec<u16> = locator.iter().rev().copied().collect();
        for (point, blocks) in (0..).zip(blocks.chunks_exact_mut(width)) {
            let [low, high] = field.value(&turned, point).to_le_bytes();
            let block = &mut blocks[column / LANES];
            (block[column % LANES], block[column % LANES + LANES]) = (low, high);
        }
    }
    blocks
}

/// Without a branch for each symbol, since nearly no block has one.
fn has_zero(block: &Block) -> bool {
    let (lower, upper) = block.split_at(LANES);
    lower.iter().zip(upper).fold(u8::MAX, |least, (lower, upper)| least.min(lower | upper)) == 0
}
