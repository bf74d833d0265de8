//! Writing a bundle.

use super::format::{Kind, MAGIC, MAX_PIECE, bad};
use opship_record::{Hash, Hasher};
use opship_residual::packed::Encoder;
use std::io::{self, Read, Write};

/// Writes sections and hashes them.
pub(super) struct Writer<W> {
    to: W,
    hasher: Hasher,
}

impl<W: Write> Writer<W> {
    /// Begins a bundle.
    pub(super) fn new(to: W) -> io::Result<Writer<W>> {
        let mut writer = Writer { to, hasher: Hasher::new() };
        writer.put(&MAGIC)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }

    /// Writes a section.
    pub(super) fn section(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        if payload.len() > kind.longest() {
            return Err(bad(format!("{} bytes are too many for one section of a bundle", payload.len())));
        }
        self.put(&[kind as u8])?;
        self.put(&(payload.len() as u32).to_be_bytes())?;
        self.put(payload)
    }

    /// Writes a section whose payload is compressed.
    pub(super) fn packed(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let mut encoder = Encoder::new(Vec::new(), payload.len() as u64)?;
        encoder.write_all(payload)?;
        self.section(kind, &encoder.finish()?)
    }

    /// Writes a content. `false`: what was read is another, and what was written so far is no bundle.
    pub(super) fn content(&mut self, hash: &Hash, length: u64, mut from: impl Read) -> io::Result<bool> {
        let mut head = hash.as_bytes().to_vec();
        head.extend(length.to_be_bytes());
        self.section(Kind::Content, &head)?;
        let mut encoder = Encoder::new(Pieces { writer: self, piece: Vec::new() }, length)?;
        let (mut hasher, mut read, mut buffer) = (Hasher::new(), 0, vec![0; 128 << 10]);
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            encoder.write_all(&buffer[..count])?;
            read += count as u64;
        }
        let pieces = encoder.finish()?;
        pieces.writer.section(Kind::Piece, &pieces.piece)?;
        Ok(read == length && hasher.finish() == *hash)
    }

    /// Ends the bundle.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.put(&[Kind::End as u8])?;
        self.put(&(Kind::End.longest() as u32).to_be_bytes())?;
        self.to.write_all(self.hasher.finish().as_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Cuts a compressed content into pieces. The last is left to the caller.
struct Pieces<'a, W> {
    writer: &'a mut Writer<W>,
    piece: Vec<u8>,
}

impl<W: Write> Write for Pieces<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == MAX_PIECE {
            self.writer.section(Kind::Piece, &std::mem::take(&mut self.piece))?;
        }
        let count = bytes.len().min(MAX_PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
