//! The document: what a content is made of. docs/wire-format.md, "Documents", has the format.

use crate::{ResidualError, varint};
use opship_record::Hash;
use std::io::{self, Read, Write};

/// The first byte.
const VERSION: u8 = 1;
/// Most contents that one document copies from.
pub const MAX_BASES: usize = 16;

const LITERAL: u64 = 0;
const COPY: u64 = 1;
const CHUNK: u64 = 2;
/// Bits of a head that say which instruction it is.
const KIND_BITS: u32 = 2;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// That many bytes follow; read them from [`Reader::bytes`].
    Literal(u64),
    /// A range of a base.
    Copy {
        /// Which of [`Reader::bases`].
        base: usize,
        /// The first byte.
        offset: u64,
        /// Bytes, at least one.
        length: u64,
    },
    /// A whole chunk that the receiver has, whatever content it is of.
    Chunk {
        /// The chunk's hash.
        hash: Hash,
        /// Its bytes, at least one.
        length: u64,
    },
}

/// Writes a document. Copies that continue each other become one.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// For each base the end of the last copy.
    ends: Vec<u64>,
    copy: Option<(usize, u64, u64)>,
}

impl<W: Write> Writer<W> {
    /// Begins the document of a content of `length` bytes that copies from `bases`, at most [`MAX_BASES`].
    ///
    /// # Errors
    /// What writing answers.
    pub fn new(mut out: W, length: u64, bases: &[Hash]) -> io::Result<Writer<W>> {
        out.write_all(&[VERSION])?;
        varint::write(&mut out, length)?;
        varint::write(&mut out, bases.len() as u64)?;
        bases.iter().try_for_each(|base| out.write_all(base.as_bytes()))?;
        Ok(Writer { out, ends: vec![0; bases.len()], copy: None })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// What writing answers.
    pub fn literal(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.flush_copy()?;
        varint::write(&mut self.out, (bytes.len() as u64) << KIND_BITS | LITERAL)?;
        self.out.write_all(bytes)
    }

    /// Adds a chunk that the receiver has.
    ///
    /// # Errors
    /// What writing answers.
    pub fn chunk(&mut self, hash: &Hash, length: u64) -> io::Result<()> {
        self.flush_copy()?;
        varint::write(&mut self.out, length << KIND_BITS | CHUNK)?;
        self.out.write_all(hash.as_bytes())
    }

    /// Adds a range of a base, which must be one of those given.
    ///
    /// # Errors
    /// What writing answers.
    pub fn copy(&mut self, base: usize, offset: u64, length: u64) -> io::Result<()> {
        if let Some((last, start, count)) = &mut self.copy
            && *last == base
            && *start + *count == offset
        {
            *count += length;
            return Ok(());
        }
        self.flush_copy()?;
        self.copy = Some((base, offset, length));
        Ok(())
    }

    fn flush_copy(&mut self) -> io::Result<()> {
        let Some((base, offset, length)) = self.copy.take() else { return Ok(()) };
        varint::write(&mut self.out, length << KIND_BITS | COPY)?;
        if self.ends.len() > 1 {
            varint::write(&mut self.out, base as u64)?;
        }
        let end = &mut self.ends[base];
        varint::write(&mut self.out, varint::zigzag(offset.wrapping_sub(*end).cast_signed()))?;
        *end = offset + length;
        Ok(())
    }

    /// Ends the document and gives what it was written to.
    ///
    /// # Errors
    /// What writing answers.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_copy()?;
        Ok(self.out)
    }
}

/// Reads a document, strictly.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    length: u64,
    bases: Vec<Hash>,
    ends: Vec<u64>,
    /// Bytes of the content that no instruction has made yet.
    left: u64,
    /// Bytes of the current literal that were not read.
    unread: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`], or what reading answers.
    pub fn new(mut from: R) -> Result<Reader<R>, ResidualError> {
        let mut version = [0];
        read_exact(&mut from, &mut version)?;
        if version[0] != VERSION {
            return Err(ResidualError::Malformed("it has another version"));
        }
        let length = varint::read(&mut from)?;
        let count = varint::read(&mut from)?;
        if count > MAX_BASES as u64 {
            return Err(ResidualError::Malformed("it copies from too many contents"));
        }
        let mut bases = Vec::new();
        for _ in 0..count {
            let mut hash = [0; 32];
            read_exact(&mut from, &mut hash)?;
            bases.push(Hash::from_bytes(hash));
        }
        let ends = vec![0; bases.len()];
        Ok(Reader { from, length, bases, ends, left: length, unread: 0 })
    }

    /// Bytes of the content.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The contents that it copies from.
    pub fn bases(&self) -> &[Hash] {
        &self.bases
    }

    /// The next instruction, `None` at the end. The bytes of a literal must have been read.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`], or what reading answers.
    pub fn next_part(&mut self) -> Result<Option<Part>, ResidualError> {
        if self.unread > 0 {
            return Err(ResidualError::Malformed("its bytes were not read"));
        }
        let Some(head) = varint::read_or_end(&mut self.from)? else {
            return if self.left == 0 { Ok(None) } else { Err(ResidualError::Malformed("it ends early")) };
        };
        let length = head >> KIND_BITS;
        if length == 0 || length > self.left {
            return Err(ResidualError::Malformed("it makes another length than it says"));
        }
        self.left -= length;
        match head & ((1 << KIND_BITS) - 1) {
            LITERAL => {
                self.unread = length;
                Ok(Some(Part::Literal(length)))
            }
            COPY => self.read_copy(length).map(Some),
            CHUNK => {
                let mut hash = [0; 32];
                read_exact(&mut self.from, &mut hash)?;
                Ok(Some(Part::Chunk { hash: Hash::from_bytes(hash), length }))
            }
            _ => Err(ResidualError::Malformed("an instruction is not known")),
        }
    }

    fn read_copy(&mut self, length: u64) -> Result<Part, ResidualError> {
        let base = match self.bases.len() {
            0 => return Err(ResidualError::Malformed("it copies and names no base")),
            1 => 0,
            _ => usize::try_from(varint::read(&mut self.from)?).unwrap_or(usize::MAX),
        };
        let step = varint::unzigzag(varint::read(&mut self.from)?);
        let end =
            self.ends.get_mut(base).ok_or(ResidualError::Malformed("it copies from a base that it does not name"))?;
        let offset = end.checked_add_signed(step).filter(|offset| offset.checked_add(length).is_some());
        let offset = offset.ok_or(ResidualError::Malformed("it copies what is outside its base"))?;
        *end = offset + length;
        Ok(Part::Copy { base, offset, length })
    }

    /// The next bytes of the current literal; none at its end.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`] if the document ends within it, or what reading answers.
    pub fn bytes(&mut self, buffer: &mut [u8]) -> Result<usize, ResidualError> {
        let wanted = usize::try_from(self.unread).unwrap_or(usize::MAX).min(buffer.len());
        read_exact(&mut self.from, &mut buffer[..wanted])?;
        self.unread -= wanted as u64;
        Ok(wanted)
    }
}

fn read_exact(from: &mut impl Read, buffer: &mut [u8]) -> Result<(), ResidualError> {
    from.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ResidualError::Malformed("it ends early"),
        _ => ResidualError::Io(error),
    })
}
