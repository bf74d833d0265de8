//! The encoder: reed-solomon-simd's transforms, on a content that comes in pieces.
//!
//! Symbol `s` of the content is in column `s mod columns`, at the point `span + s / columns`. So the content is a
//! sequence of stripes (one symbol of each column), and a stripe is what the library calls a shard. Its high-rate encoder
//! transforms `span` shards at a time, adds what comes out, and transforms the sum to the parity: so the memory is that of
//! two times `span` stripes, whatever the content's length.

use super::{Code, Parity};
use crate::ResidualError;
use reed_solomon_simd::engine::{DefaultEngine, Engine, ShardsRefMut};

/// 32 symbols as the library has them: the lower bytes, then the upper ones.
pub(super) type Block = [u8; BLOCK];
const BLOCK: usize = 64;
/// Symbols of a block.
pub(super) const LANES: usize = BLOCK / 2;

/// Makes the parity of a content that comes in pieces.
pub struct Encoder {
    code: Code,
    engine: DefaultEngine,
    /// Blocks of a stripe.
    width: usize,
    /// Bytes that do not fill `span` stripes yet.
    begun: Vec<u8>,
    work: Vec<Block>,
    sum: Vec<Block>,
    /// The first point of the stripes that come next.
    point: usize,
    taken: u64,
}

impl Encoder {
    /// Begins.
    pub fn new(code: Code) -> Encoder {
        let width = code.columns().div_ceil(LANES);
        let blocks = vec![[0; BLOCK]; width * code.span()];
        let (begun, engine) = (Vec::new(), DefaultEngine::new());
        Encoder { code, engine, width, begun, work: blocks.clone(), sum: blocks, point: code.span(), taken: 0 }
    }

    /// Adds the next bytes. What is beyond the code's length is told by [`Encoder::finish`].
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.taken += bytes.len() as u64;
        if self.taken > self.code.length {
            return;
        }
        let whole = self.code.span() * self.code.stripe();
        if !self.begun.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(whole - self.begun.len()));
            self.begun.extend_from_slice(first);
            bytes = rest;
            if self.begun.len() < whole {
                return;
            }
            let begun = std::mem::take(&mut self.begun);
            self.add(&begun);
        }
        let mut stripes = bytes.chunks_exact(whole);
        stripes.by_ref().for_each(|stripes| self.add(stripes));
        self.begun.extend_from_slice(stripes.remainder());
    }

    /// The parity of all bytes.
    ///
    /// # Errors
    /// [`ResidualError::OtherLength`] if there were more or fewer than the code says.
    pub fn finish(mut self) -> Result<Parity, ResidualError> {
        if self.taken != self.code.length {
            return Err(ResidualError::OtherLength { length: self.taken, recorded: self.code.length });
        }
        let begun = std::mem::take(&mut self.begun);
        if !begun.is_empty() {
            self.work.fill([0; BLOCK]);
            self.add(&begun);
        }
        let symbols = usize::from(self.code.symbols);
        let mut shards = ShardsRefMut::new(self.code.span(), self.width, &mut self.sum);
        self.engine.fft(&mut shards, 0, self.code.span(), symbols, 0);
        let mut bytes = vec![0; self.code.bytes()];
        for (stripe, blocks) in bytes.chunks_exact_mut(self.code.stripe()).zip(self.sum.chunks_exact(self.width)) {
            stripe.chunks_mut(BLOCK).zip(blocks).for_each(|(pairs, block)| join(block, pairs));
        }
        Ok(Parity { code: self.code, bytes })
    }

    /// Adds up to `span` stripes, the last of which may be short; then the rest of `work` is 0.
    fn add(&mut self, bytes: &[u8]) {
        for (stripe, blocks) in bytes.chunks(self.code.stripe()).zip(self.work.chunks_exact_mut(self.width)) {
            stripe.chunks(BLOCK).zip(blocks).for_each(|(pairs, block)| split(pairs, block));
        }
        let count = bytes.len().div_ceil(self.code.stripe());
        let mut shards = ShardsRefMut::new(self.code.span(), self.width, &mut self.work);
        self.engine.ifft(&mut shards, 0, self.code.span(), count, self.point);
        self.point += self.code.span();
        for (sum, block) in self.sum.iter_mut().zip(&self.work) {
            sum.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
}

/// Puts symbols of two bytes each into a block; an odd byte at the end is the lower one of its symbol.
fn split(pairs: &[u8], block: &mut Block) {
    let (lower, upper) = block.split_at_mut(LANES);
    let (whole, odd) = pairs.as_chunks::<2>();
    for (([low, high], lower), upper) in whole.iter().zip(&mut *lower).zip(upper) {
        (*lower, *upper) = (*low, *high);
    }
    if let ([last], Some(lower)) = (odd, lower.get_mut(whole.len())) {
        *lower = *last;
    }
}

/// The reverse of [`split`].
fn join(block: &Block, pairs: &mut [u8]) {
    let (lower, upper) = block.split_at(LANES);
    for ((pair, lower), upper) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(lower).zip(upper) {
        *pair = [*lower, *upper];
    }
}
