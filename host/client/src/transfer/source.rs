//! Reading a content to send it.

use crate::ClientError;
use opship_record::Hash;
use opship_record::limits::MAX_INLINE_PART;
use opship_residual::{Signature, Signer, chunks, delta, packed};
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
