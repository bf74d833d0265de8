//! Reading a content to send it.

use crate::ClientError;
use opship_record::Hash;
use opship_record::limits::MAX_INLINE_PART;
use opship_residual::{BLOCK, Signature, Signer, chunks, delta, packed};
use opship_world::FileContent;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Reads a content from its start to its end.
pub(crate) struct Plain {
    content: Arc<dyn FileContent>,
    offset: u64,
}

impl Plain {
    /// At the start of a content.
    pub(crate) fn new(content: Arc<dyn FileContent>) -> Plain {
        Plain { content, offset: 0 }
    }
}

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.offset, buffer).map_err(io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// As [`Plain`], and makes the content's signature on the way.
pub(crate) struct Signed {
    content: Plain,
    signer: Signer,
}

impl Signed {
    /// At the start of a content.
    pub(crate) fn new(content: Arc<dyn FileContent>) -> Signed {
        Signed { content: Plain::new(content), signer: Signer::default() }
    }

    /// The signature of what was read.
    pub(crate) fn signature(self) -> Signature {
        self.signer.finish()
    }
}

impl Read for Signed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.signer.update(&buffer[..count]);
        Ok(count)
    }
}

/// The hashes of a content's chunks. Blocks.
///
/// # Errors
/// [`ClientError::Io`] if the content cannot be read.
pub(crate) fn chunk_hashes(content: Arc<dyn FileContent>) -> Result<Vec<Hash>, ClientError> {
    let mut hashes = Vec::new();
    let cut = chunks::cut(Plain::new(content), |chunk| {
        hashes.push(Hash::of(chunk));
        Ok(())
    });
    cut.map(|()| hashes).map_err(ClientError::io("reading a content to ship"))
}

/// The document of a content with a base, and the content's signature; `None` if the document is over 64 KiB. Blocks.
///
/// # Errors
/// [`ClientError::Io`] if the content cannot be read as it is.
pub(crate) fn small_document(
    content: Arc<dyn FileContent>,
    base: (&Hash, &Signature),
) -> Result<Option<(Vec<u8>, Signature)>, ClientError> {
    let length = content.length();
    let mut signed = Signed::new(content);
    match delta::make(&mut signed, length, Some(base), Short(Vec::new())) {
        Ok(Short(document)) => Ok(Some((document, signed.signature()))),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(ClientError::io("reading a content to ship")(error)),
    }
}

/// Bytes of the compressed document of a content, with a base or without. Blocks.
///
/// # Errors
/// [`ClientError::Io`] if the content cannot be read as it is.
pub(crate) fn packed_length(
    content: &Arc<dyn FileContent>,
    base: Option<(&Hash, &Signature)>,
) -> Result<u64, ClientError> {
    let length = content.length();
    let make = || {
        let encoder = packed::Encoder::new(Counting(0), length)?;
        delta::make(Plain::new(Arc::clone(content)), length, base, encoder)?.finish()
    };
    make().map(|counted| counted.0).map_err(ClientError::io("reading a content to ship"))
}

/// Bytes of a piece of a sample, and how many pieces there are.
const PIECE: u64 = 512 << 10;
const PIECES: u64 = 16;

/// About what the compressed document of a long content with a base takes, by pieces from all over it. Blocks.
///
/// # Errors
/// [`ClientError::Io`] if the content cannot be read as it is.
pub(crate) fn packed_sample(content: &Arc<dyn FileContent>, base: (&Hash, &Signature)) -> Result<u64, ClientError> {
    let length = content.length();
    if length <= PIECE * PIECES {
        return packed_length(content, Some(base));
    }
    let failed = || ClientError::io("reading a content to ship");
    let mut sample = Vec::new();
    for number in 0..PIECES {
        // In whole blocks: where nothing moved they are those of the base.
        let offset = (length - PIECE) / (PIECES - 1) * number / BLOCK as u64 * BLOCK as u64;
        let mut piece = Plain { content: Arc::clone(content), offset }.take(PIECE);
        piece.read_to_end(&mut sample).map_err(failed())?;
    }
    let read = sample.len() as u64;
    let encoder = packed::Encoder::new(Counting(0), read).map_err(failed())?;
    let made = delta::make(sample.as_slice(), read, Some(base), encoder).map_err(failed())?;
    // Where something moved, a part of a block at each end of a piece is not found, which the content does not have.
    let edges = PIECES * 2 * BLOCK as u64;
    let differing = made.finish().map_err(failed())?.0.saturating_sub(edges);
    let whole = u128::from(differing) * u128::from(length) / u128::from(read.max(1));
    Ok(u64::try_from(whole).unwrap_or(u64::MAX))
}

/// Counts what is written.
pub(crate) struct Counting(pub(crate) u64);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes as much as one document among many may have.
struct Short(Vec<u8>);

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_INLINE_PART {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_world::MemoryContent;

    fn noise(mut seed: u64, length: usize) -> Vec<u8> {
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()
        };
        std::iter::repeat_with(&mut next).flatten().take(length).collect()
    }

    /// What a sample says that a content takes with a base, and what it takes.
    fn sampled(base: &[u8], content: Vec<u8>) -> (u64, u64) {
        let (hash, signature) = (Hash::of(base), Signature::of(base));
        let content: Arc<dyn FileContent> = Arc::new(MemoryContent::new(content));
        let base = Some((&hash, &signature));
        (packed_sample(&content, (&hash, &signature)).unwrap(), packed_length(&content, base).unwrap())
    }

    #[test]
    fn a_sample_tells_an_edit_from_another_content() {
        let old = noise(7, 24 << 20);
        let (mut edited, inserted) = (old.clone(), [b"in front", old.as_slice()].concat());
        edited[12_345_678..12_345_688].fill(0);
        for content in [old.clone(), edited, inserted] {
            let (said, is) = sampled(&old, content);
            assert!(said < 100_000 && is < 100_000, "{said} {is}");
        }
        let (said, is) = sampled(&old, [&old[..12 << 20], &noise(8, 12 << 20)].concat());
        assert!(said.abs_diff(is) < is / 4, "{said} {is}");
        let (said, is) = sampled(&old, noise(9, 24 << 20));
        assert!(said.abs_diff(is) < is / 50, "{said} {is}");
    }
}
