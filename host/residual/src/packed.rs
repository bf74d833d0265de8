//! Compressed documents: the same document gives the same bytes, so that a transfer goes on to the byte where it was cut.

use std::io::{self, BufReader, Read, Write};
use zstd::stream::raw::{CParameter, DParameter};

/// Largest window that is decoded, as a power of two: 32 MiB. It bounds the memory that decoding takes.
pub const MAX_WINDOW_LOG: u32 = 25;
/// Largest window that is used, as a power of two: 8 MiB, so that a server can make many documents at a time.
const WINDOW_LOG: u32 = 23;
/// Compression level: where zstd's gain for its time begins to fall off.
const LEVEL: i32 = 6;
/// From this length on repetitions are looked for over the whole window.
const LONG: u64 = 4 << 20;
/// The encoder is given its input in pieces of this length: what it makes of other pieces need not be the same.
const PIECE: usize = 128 << 10;

/// Names the encoder: two ends whose names differ need not make the same bytes of the same document.
pub fn encoder_name() -> String {
    format!("1-{}-{LEVEL}", zstd::zstd_safe::version_number())
}

/// Compresses a document of a content of a known length.
pub struct Encoder<W: Write> {
    inner: zstd::stream::write::Encoder<'static, W>,
    gathered: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    /// Begins.
    ///
    /// # Errors
    /// What the library answers, for want of memory.
    pub fn new(out: W, content_length: u64) -> io::Result<Encoder<W>> {
        let mut inner = zstd::stream::write::Encoder::new(out, LEVEL)?;
        let fits = u64::BITS - content_length.max(1).leading_zeros() + 1;
        inner.set_parameter(CParameter::WindowLog(fits.clamp(10, WINDOW_LOG)))?;
        inner.set_parameter(CParameter::EnableLongDistanceMatching(content_length >= LONG))?;
        Ok(Encoder { inner, gathered: Vec::with_capacity(PIECE) })
    }

    /// Ends the stream and gives what it was written to.
    ///
    /// # Errors
    /// What writing answers.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&self.gathered)?;
        self.inner.finish()
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE - self.gathered.len());
        self.gathered.extend_from_slice(&bytes[..count]);
        if self.gathered.len() == PIECE {
            self.inner.write_all(&self.gathered)?;
            self.gathered.clear();
        }
        Ok(count)
    }

    /// Does nothing: flushing would depend on when the caller does it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decompresses a document; a window over the bound is refused.
///
/// # Errors
/// What the library answers, for want of memory.
pub fn decoder<R: Read>(from: R) -> io::Result<BufReader<impl Read>> {
    let mut inner = zstd::stream::read::Decoder::new(from)?;
    inner.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
    Ok(BufReader::with_capacity(PIECE, inner))
}

/// Leaves out the first bytes of what is written: the receiver has them.
#[derive(Debug)]
pub struct Skip<W> {
    out: W,
    left: u64,
}

impl<W: Write> Skip<W> {
    /// Leaves out `left` bytes.
    pub fn new(out: W, left: u64) -> Skip<W> {
        Skip { out, left }
    }

    /// Flushes what comes behind.
    ///
    /// # Errors
    /// What flushing answers; [`io::ErrorKind::InvalidInput`] if there were fewer bytes than were to be left out.
    pub fn finish(mut self) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the document is shorter than what is there of it",
            ));
        }
        self.out.flush()
    }
}

impl<W: Write> Write for Skip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.out.write_all(&bytes[skipped..])?;
        self.left -= skipped as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
