//! Writing a content as a document: its difference to a content of which only the signature is here (rsync's algorithm,
//! Tridgell 1999, chapters 2 and 3).

use crate::document::Writer;
use crate::signature::{BLOCK, Signature, Sums, strong};
use crate::table::Table;
use crate::{chunks, rolling};
use opship_record::Hash;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

/// Bytes of the content held at one time; also the longest literal.
const WINDOW: usize = 1 << 20;

/// A content that the receiver has: its hash and signature.
pub type Base<'a> = (&'a Hash, &'a Signature);

/// Writes the document of a content of `length` bytes. Without a base it holds all bytes.
///
/// # Errors
/// What reading and writing answer; [`io::ErrorKind::InvalidData`] if the content has another length.
pub fn make<W: Write>(content: impl Read, length: u64, base: Option<Base<'_>>, out: W) -> io::Result<W> {
    let bases: Vec<Hash> = base.iter().map(|(hash, _)| **hash).collect();
    let writer = Writer::new(out, length, &bases)?;
    let mut search = Search { content, writer, buffer: Vec::new(), start: 0, read: 0, ended: false };
    match base {
        Some((_, signature)) if signature.length() > 0 => search.run(signature)?,
        _ => search.copy_through()?,
    }
    if search.read != length {
        return Err(other_length());
    }
    search.writer.finish()
}

/// Writes the document of a content of `length` bytes of which the receiver has the `known` chunks.
///
/// # Errors
/// As [`make`].
pub fn make_of_chunks<W: Write>(content: impl Read, length: u64, known: &BTreeSet<Hash>, out: W) -> io::Result<W> {
    let mut writer = Writer::new(out, length, &[])?;
    let mut read = 0;
    chunks::cut(content, |chunk| {
        read += chunk.len() as u64;
        let hash = Hash::of(chunk);
        if known.contains(&hash) { writer.chunk(&hash, chunk.len() as u64) } else { writer.literal(chunk) }
    })?;
    if read != length {
        return Err(other_length());
    }
    writer.finish()
}

fn other_length() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the content changed its length while it was read")
}

struct Search<R, W> {
    content: R,
    writer: Writer<W>,
    buffer: Vec<u8>,
    /// Where in the buffer the bytes begin that nothing was written for.
    start: usize,
    /// Bytes read so far.
    read: u64,
    ended: bool,
}

impl<R: Read, W: Write> Search<R, W> {
    fn copy_through(&mut self) -> io::Result<()> {
        while !self.ended {
            self.fill(0)?;
            self.literal_to(self.buffer.len())?;
        }
        Ok(())
    }

    fn run(&mut self, signature: &Signature) -> io::Result<()> {
        let table = Table::new(signature);
        let mut at = 0;
        loop {
            if at + BLOCK > self.buffer.len() {
                if self.ended {
                    return self.tail(signature);
                }
                at = self.fill(at)?;
                continue;
            }
            match self.find(&table, &mut at) {
                Some(number) => at = self.matched(signature, at, number)?,
                // The rest is shorter than a block: more is read, or it is the end.
                None => continue,
            }
        }
    }

    /// The next block of the base that begins in the buffer at or after `at`, which is moved there.
    fn find(&self, table: &Table<'_>, at: &mut usize) -> Option<usize> {
        let bytes = self.buffer.as_slice();
        let mut sum = rolling::checksum(&bytes[*at..*at + BLOCK]);
        let moves = bytes[*at..].iter().zip(&bytes[*at + BLOCK..]);
        for (moved, (leaves, comes)) in moves.enumerate() {
            if table.may_have(sum) {
                let here = *at + moved;
                if let Some(number) = table.find(sum, || strong(&bytes[here..here + BLOCK])) {
                    *at = here;
                    return Some(number);
                }
            }
            sum = rolling::roll(sum, *leaves, *comes);
        }
        let last = bytes.len() - BLOCK;
        *at = last;
        let found = table.find(sum, || strong(&bytes[last..]));
        if found.is_none() {
            *at = last + 1;
        }
        found
    }

    /// Writes a block that was found, and those that follow it in both contents. Gives where to go on.
    fn matched(&mut self, signature: &Signature, mut at: usize, mut number: usize) -> io::Result<usize> {
        self.literal_to(at)?;
        loop {
            let length = block_length(signature, number);
            self.writer.copy(0, number as u64 * BLOCK as u64, length as u64)?;
            at += length;
            self.start = at;
            number += 1;
            if at + BLOCK > self.buffer.len() && !self.ended {
                at = self.fill(at)?;
            }
            let length = block_length(signature, number);
            let next = self.buffer.get(at..at + length).filter(|next| !next.is_empty());
            if next.map(Sums::of) != signature.blocks.get(number).copied() || next.is_none() {
                return Ok(at);
            }
        }
    }

    /// What is left at the end is shorter than a block; the end of it may be the base's short last block.
    fn tail(&mut self, signature: &Signature) -> io::Result<()> {
        let last = signature.blocks.len() - 1;
        let length = block_length(signature, last);
        let end = self.buffer.len();
        if length < BLOCK
            && end - self.start >= length
            && Sums::of(&self.buffer[end - length..]) == signature.blocks[last]
        {
            self.literal_to(end - length)?;
            return self.writer.copy(0, last as u64 * BLOCK as u64, length as u64);
        }
        self.literal_to(end)
    }

    /// Writes the bytes before `end` that nothing was written for.
    fn literal_to(&mut self, end: usize) -> io::Result<()> {
        self.writer.literal(&self.buffer[self.start..end])?;
        self.start = end;
        Ok(())
    }

    /// Reads more, and drops what lies before `at`, for which literals are written. Gives where `at` is now.
    fn fill(&mut self, at: usize) -> io::Result<usize> {
        self.literal_to(at.max(self.start))?;
        self.buffer.drain(..self.start);
        self.start = 0;
        let held = self.buffer.len();
        self.buffer.resize(WINDOW, 0);
        let count = read_full(&mut self.content, &mut self.buffer[held..])?;
        self.ended = held + count < WINDOW;
        self.buffer.truncate(held + count);
        self.read += count as u64;
        Ok(0)
    }
}

/// Bytes of a block; none behind the last.
fn block_length(signature: &Signature, number: usize) -> usize {
    let left = signature.length().saturating_sub(number as u64 * BLOCK as u64);
    usize::try_from(left).unwrap_or(BLOCK).min(BLOCK)
}

/// Reads until the buffer is full or the content ends.
fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
