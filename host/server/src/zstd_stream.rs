//! Decoding a body while it comes.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::io;
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// Largest window that a body may use, as a power of two: 32 MiB. It bounds the memory that decoding takes.
const MAX_WINDOW_LOG: u32 = 25;
/// Bytes decoded at one time.
const PIECE: usize = 128 << 10;

/// The decoded bytes of a zstd stream (RFC 8878). How many they may be is for the reader to bound.
///
/// # Errors
/// The operating system's, if no decoder can be made.
pub(crate) fn decode<S>(bytes: S) -> io::Result<impl Stream<Item = io::Result<Bytes>> + Send + Unpin>
where
    S: Stream<Item = io::Result<Bytes>> + Send + Unpin,
{
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
    let decoding = Decoding { bytes, decoder, input: Bytes::new(), held_back: false, ended: false, whole: true };
    Ok(Box::pin(futures::stream::unfold(decoding, |mut decoding| async move {
        let piece = decoding.next().await.transpose()?;
        // After an error nothing more comes.
        decoding.ended |= piece.is_err();
        Some((piece, decoding))
    })))
}

/// The length that a stream's first frame says it decodes to, if its beginning holds that.
pub(crate) fn stated_length(beginning: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(beginning).ok().flatten()
}

struct Decoding<S> {
    bytes: S,
    decoder: Decoder<'static>,
    input: Bytes,
    /// Did the last piece of output leave no room, so that the decoder may hold more?
    held_back: bool,
    ended: bool,
    /// Is what came so far a whole number of frames?
    whole: bool,
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Decoding<S> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut output = vec![0; PIECE];
        while !self.ended {
            if self.input.is_empty() && !self.held_back {
                match self.bytes.next().await {
                    Some(piece) => self.input = piece?,
                    None if self.whole => return Ok(None),
                    None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the zstd stream is cut short")),
                }
            }
            let status = self.decoder.run_on_buffers(&self.input, &mut output)?;
            self.input = self.input.slice(status.bytes_read..);
            self.held_back = status.bytes_written == output.len();
            if status.bytes_read + status.bytes_written > 0 {
                self.whole = status.remaining == 0;
            }
            if status.bytes_written > 0 {
                output.truncate(status.bytes_written);
                return Ok(Some(output.into()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::TryStreamExt;
    use std::io::Write;

    async fn decoded(compressed: &[u8], pieces: usize) -> io::Result<Vec<u8>> {
        let pieces: Vec<_> = compressed.chunks(pieces.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let decoded: Vec<Bytes> = decode(futures::stream::iter(pieces))?.try_collect().await?;
        Ok(decoded.concat())
    }

    #[tokio::test]
    async fn any_split_decodes_to_the_same_and_a_cut_is_an_error() {
        let bytes: Vec<u8> = (0..700_000u32).map(|i| (i / 7) as u8).collect();
        let compressed = zstd::bulk::compress(&bytes, 3).unwrap();
        for pieces in [1, 1000, compressed.len()] {
            assert_eq!(decoded(&compressed, pieces).await.unwrap(), bytes);
        }
        assert!(decoded(&compressed[..compressed.len() - 1], 1000).await.is_err());
        assert!(decoded(b"no zstd at all", 5).await.is_err());
        assert_eq!(decoded(b"", 1).await.unwrap(), b"");
    }
    #[tokio::test]
    async fn blocks_of_any_length_come_out_whole() {
        let mut compressed = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        let bytes: Vec<u8> = (0..900_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for block in bytes.chunks(100_000) {
            compressed.write_all(block).unwrap();
            compressed.flush().unwrap();
        }
        let compressed = compressed.finish().unwrap();
        for pieces in [333, 70_000, compressed.len()] {
            assert!(decoded(&compressed, pieces).await.unwrap() == bytes, "in pieces of {pieces}");
        }
    }

    #[test]
    fn a_frame_says_its_length_where_it_was_known() {
        let compressed = zstd::bulk::compress(&[7; 5000], 3).unwrap();
        assert_eq!(stated_length(&compressed), Some(5000));
        assert_eq!(stated_length(&compressed[..3]), None);
        assert_eq!(stated_length(b"no zstd at all"), None);
    }
}
