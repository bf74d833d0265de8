//! What a client keeps of a content that the server holds: two short checksums of each block.

use crate::{ResidualError, rolling, varint};
use opship_record::Hash;
use std::io;

/// Bytes of a block.
pub const BLOCK: usize = 1024;
/// Bytes that a signature takes for each block: 0.78 % of its content.
const EACH: usize = 8;

/// The checksums of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Quick to move on by a byte.
    pub(crate) rolling: u32,
    /// The first four bytes of the block's BLAKE3.
    pub(crate) strong: u32,
}

impl Sums {
    pub(crate) fn of(block: &[u8]) -> Sums {
        Sums { rolling: rolling::checksum(block), strong: strong(block) }
    }
}

/// The first four bytes of BLAKE3.
pub(crate) fn strong(block: &[u8]) -> u32 {
    let [a, b, c, d, ..] = *Hash::of(block).as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The checksums of all blocks of a content, the last of which may be short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    length: u64,
    pub(crate) blocks: Vec<Sums>,
}

impl Signature {
    /// The content's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The signature of a content in memory.
    pub fn of(content: &[u8]) -> Signature {
        let mut signer = Signer::default();
        signer.update(content);
        signer.finish()
    }

    /// The length as a number, then 8 bytes a block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.blocks.len() * EACH + 10);
        // Writing to memory does not fail.
        let _: io::Result<()> = varint::write(&mut bytes, self.length);
        for block in &self.blocks {
            bytes.extend(block.rolling.to_le_bytes());
            bytes.extend(block.strong.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Signature::encode`] wrote.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`].
    pub fn decode(mut bytes: &[u8]) -> Result<Signature, ResidualError> {
        let length = varint::read(&mut bytes)?;
        let (blocks, rest) = bytes.as_chunks::<EACH>();
        if !rest.is_empty() || length.div_ceil(BLOCK as u64) != blocks.len() as u64 {
            return Err(ResidualError::Malformed("a signature has not as many blocks as its content"));
        }
        let blocks = blocks.iter().map(|[a, b, c, d, e, f, g, h]| Sums {
            rolling: u32::from_le_bytes([*a, *b, *c, *d]),
            strong: u32::from_le_bytes([*e, *f, *g, *h]),
        });
        Ok(Signature { length, blocks: blocks.collect() })
    }
}

/// Makes the signature of a content that comes in pieces.
#[derive(Debug, Default)]
pub struct Signer {
    begun: Vec<u8>,
    length: u64,
    blocks: Vec<Sums>,
}

impl Signer {
    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.begun.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(BLOCK - self.begun.len()));
            self.begun.extend_from_slice(first);
            bytes = rest;
            if self.begun.len() < BLOCK {
                return;
            }
            self.blocks.push(Sums::of(&self.begun));
            self.begun.clear();
        }
        let (whole, rest) = bytes.as_chunks::<BLOCK>();
        self.blocks.extend(whole.iter().map(|block| Sums::of(block)));
        self.begun.extend_from_slice(rest);
    }

    /// The signature of all bytes so far.
    pub fn finish(mut self) -> Signature {
        if !self.begun.is_empty() {
            self.blocks.push(Sums::of(&self.begun));
        }
        Signature { length: self.length, blocks: self.blocks }
    }
}
