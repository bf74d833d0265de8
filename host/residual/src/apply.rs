//! Making a content of a document.

use crate::ResidualError;
use crate::document::{Part, Reader};
use opship_record::Hash;
use std::io::{self, Read, Write};

/// Bytes passed on at one time.
const PIECE: usize = 128 << 10;

/// A content that a document copies from.
pub trait Base {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Reads at an offset, as much as fits; fewer only at the end.
    ///
    /// # Errors
    /// What the system answers.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// What the receiver of a document has.
pub trait Sources {
    /// A content.
    type Base: Base;

    /// Opens a content; `None` if it is not here.
    ///
    /// # Errors
    /// What the system answers.
    fn base(&self, hash: &Hash) -> io::Result<Option<Self::Base>>;

    /// A chunk's bytes; `None` if it is not here.
    ///
    /// # Errors
    /// What the system answers.
    fn chunk(&self, hash: &Hash) -> io::Result<Option<Vec<u8>>>;
}

/// Makes the content of a document, at most `limit` bytes of it, and gives its length. The hash of what comes out is for the caller to compare.
///
/// # Errors
/// [`ResidualError`]; what was written until then is to be dropped.
pub fn apply(
    document: impl Read,
    limit: u64,
    sources: &impl Sources,
    sink: &mut impl Write,
) -> Result<u64, ResidualError> {
    let mut reader = Reader::new(document)?;
    if reader.length() > limit {
        return Err(ResidualError::TooLong { length: reader.length(), limit });
    }
    let mut bases = Vec::new();
    for hash in reader.bases() {
        bases.push(sources.base(hash)?.ok_or(ResidualError::BaseMissing(*hash))?);
    }
    let mut buffer = vec![0; PIECE];
    while let Some(part) = reader.next_part()? {
        match part {
            Part::Literal(_) => loop {
                let count = reader.bytes(&mut buffer)?;
                if count == 0 {
                    break;
                }
                sink.write_all(&buffer[..count])?;
            },
            Part::Copy { base, offset, length } => copy(&bases[base], offset, length, &mut buffer, sink)?,
            Part::Chunk { hash, length } => {
                let chunk = sources.chunk(&hash)?.ok_or(ResidualError::BaseMissing(hash))?;
                if chunk.len() as u64 != length {
                    return Err(ResidualError::Malformed("a chunk has another length"));
                }
                sink.write_all(&chunk)?;
            }
        }
    }
    Ok(reader.length())
}

fn copy(
    base: &impl Base,
    mut offset: u64,
    mut length: u64,
    buffer: &mut [u8],
    sink: &mut impl Write,
) -> Result<(), ResidualError> {
    // The reader has checked that this does not overflow.
    if offset + length > base.length() {
        return Err(ResidualError::Malformed("it copies what is outside its base"));
    }
    while length > 0 {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
        let count = base.read_at(offset, &mut buffer[..wanted])?;
        if count == 0 {
            return Err(ResidualError::Io(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a base is shorter than it was",
            )));
        }
        sink.write_all(&buffer[..count])?;
        (offset, length) = (offset + count as u64, length - count as u64);
    }
    Ok(())
}

/// One content, and no chunks.
pub struct OneBase<B>(
    /// Its hash.
    pub Hash,
    /// The content.
    pub B,
);

impl<B: Base + Clone> Sources for OneBase<B> {
    type Base = B;

    fn base(&self, hash: &Hash) -> io::Result<Option<B>> {
        Ok((*hash == self.0).then(|| self.1.clone()))
    }

    fn chunk(&self, _: &Hash) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

impl Base for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.get(start..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
