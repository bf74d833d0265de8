//! Files with holes as the pax formats of GNU tar store them (versions 0.0, 0.1 and 1.0; "Storing Sparse
//! Files" in the GNU tar manual). Holes are given back as zeros. The old GNU format is read by the crate.

use crate::header::BLOCK;
use std::io::{self, Read};

/// What the extended header says of a file with holes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Description {
    pub(crate) name: Option<Vec<u8>>,
    /// Length with holes.
    pub(crate) size: Option<u64>,
    /// Start and length of each piece, in turn; in version 1.0 they stand before the content.
    numbers: Vec<u64>,
    in_content: bool,
}

impl Description {
    /// Takes a record of the extended header, if it is about holes.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"GNU.sparse.name" => self.name = Some(value.to_vec()),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.size = Some(number(value)?),
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.numbers.push(number(value)?),
            b"GNU.sparse.map" => {
                self.numbers = value.split(|&b| b == b',').map(number).collect::<io::Result<_>>()?;
            }
            b"GNU.sparse.major" => self.in_content = number(value)? == 1,
            _ => {}
        }
        Ok(())
    }

    /// The content with its holes, from what is stored.
    pub(crate) fn expand<R: Read>(mut self, mut stored: R, stored_size: u64) -> io::Result<Expanded<R>> {
        let mut data = stored_size;
        if self.in_content {
            let used;
            (self.numbers, used) = read_map(&mut stored)?;
            data = data.checked_sub(used).ok_or_else(damaged)?;
        }
        let size = self.size.ok_or_else(damaged)?;
        let (pairs, odd) = self.numbers.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(damaged());
        }
        let mut at = 0;
        for &[start, length] in pairs {
            let end = start.checked_add(length).ok_or_else(damaged)?;
            data = data.checked_sub(length).ok_or_else(damaged)?;
            if start < at || end > size {
                return Err(damaged());
            }
            at = end;
        }
        if data != 0 {
            return Err(damaged());
        }
        let pieces = pairs.iter().map(|&[start, length]| (start, length)).collect::<Vec<_>>().into_iter();
        Ok(Expanded { stored, pieces, piece: None, at: 0, size })
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid sparse archive member")
}

fn number(text: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(damaged)
}

/// The map of version 1.0, decimal numbers in lines, and how many bytes it takes with its padding.
fn read_map(stored: &mut impl Read) -> io::Result<(Vec<u64>, u64)> {
    let mut block = [0; BLOCK];
    let mut used = 0;
    let mut line = Vec::new();
    let mut numbers: Vec<u64> = Vec::new();
    loop {
        stored.read_exact(&mut block)?;
        used += BLOCK as u64;
        for &byte in &block {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            numbers.push(number(&line)?);
            line.clear();
            // The first number says how many pairs follow.
            let pairs = numbers[0];
            if (numbers.len() as u64 - 1) / 2 == pairs && numbers.len() % 2 == 1 {
                numbers.remove(0);
                return Ok((numbers, used));
            }
        }
        // No number is longer; what has no end is no map.
        if line.len() > 20 {
            return Err(damaged());
        }
    }
}

/// Reads pieces from what is stored, and zeros between them.
pub(crate) struct Expanded<R> {
    stored: R,
    pieces: std::vec::IntoIter<(u64, u64)>,
    /// The piece that is next, or what is left of it.
    piece: Option<(u64, u64)>,
    at: u64,
    size: u64,
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_none_or(|(_, length)| length == 0) {
            match self.pieces.next() {
                Some(piece) => self.piece = Some(piece),
                // Behind the last piece there may be a hole up to the end.
                None => {
                    self.piece = Some((self.size, 1));
                    break;
                }
            }
        }
        let (start, length) = self.piece.unwrap_or((self.size, 1));
        let limit = |n: u64| buffer.len().min(usize::try_from(n).unwrap_or(usize::MAX));
        if self.at < start {
            let n = limit(start - self.at);
            buffer[..n].fill(0);
            self.at += n as u64;
            return Ok(n);
        }
        if self.at == self.size {
            return Ok(0);
        }
        let n = limit(length);
        let n = self.stored.read(&mut buffer[..n])?;
        self.at += n as u64;
        self.piece = Some((start + n as u64, length - n as u64));
        Ok(n)
    }
}
