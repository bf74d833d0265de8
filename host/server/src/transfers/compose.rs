//! Making the document of a content for a client that has another one.

use opship_record::Hash;
use opship_residual::{Signer, delta, packed};
use opship_world::FileContent;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// What a document is made of.
pub(crate) struct Composed {
    /// The content.
    pub(crate) content: Arc<dyn FileContent>,
    /// What the client has: its hash and bytes.
    pub(crate) base: Option<(Hash, Arc<dyn FileContent>)>,
}

/// Writes the compressed document but for its first `skipped` bytes, which the client has.
///
/// # Errors
/// What reading and writing answer.
pub(crate) fn compose(composed: &Composed, skipped: u64, out: impl Write) -> io::Result<()> {
    let signature = match &composed.base {
        Some((hash, base)) => {
            let mut signer = Signer::default();
            io::copy(&mut Whole::of(&**base), &mut Signing(&mut signer))?;
            Some((hash, signer.finish()))
        }
        None => None,
    };
    let base = signature.as_ref().map(|(hash, signature)| (*hash, signature));
    let length = composed.content.length();
    let encoder = packed::Encoder::new(packed::Skip::new(out, skipped), length)?;
    let encoder = delta::make(Whole::of(&*composed.content), length, base, encoder)?;
    encoder.finish()?.finish()
}

/// The document of a small content, in memory.
///
/// # Errors
/// What reading answers.
pub(crate) fn small_document(content: &dyn FileContent, (base, old): (Hash, &dyn FileContent)) -> io::Result<Vec<u8>> {
    let mut signer = Signer::default();
    io::copy(&mut Whole::of(old), &mut Signing(&mut signer))?;
    delta::make(Whole::of(content), content.length(), Some((&base, &signer.finish())), Vec::new())
}

/// Reads a content from its start to its end.
struct Whole<'a> {
    content: &'a dyn FileContent,
    offset: u64,
}

impl<'a> Whole<'a> {
    fn of(content: &'a dyn FileContent) -> Whole<'a> {
        Whole { content, offset: 0 }
    }
}

impl Read for Whole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.offset, buffer).map_err(io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

struct Signing<'a>(&'a mut Signer);

impl Write for Signing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
