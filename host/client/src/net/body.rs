//! Bodies: what is sent, in memory or streamed, and what comes back, read item by item.

use crate::ClientError;
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use opship_record::codec;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};
use tokio::sync::{mpsc, watch};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// Bytes in memory, sent once.
    Bytes(Option<Bytes>),
    /// Pieces that a producer makes while they are sent, and their bytes together if that is known.
    Stream(mpsc::Receiver<io::Result<Bytes>>, Option<u64>),
    /// The same, wanted only if the server says so (`Expect: 100-continue`, RFC 9110 §10.1.1): then the flag is set, and the
    /// producer may begin.
    Expected(mpsc::Receiver<io::Result<Bytes>>, Option<u64>, Arc<watch::Sender<bool>>),
}

impl RequestBody {
    /// A body in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> RequestBody {
        RequestBody::Bytes(Some(bytes.into()))
    }

    /// Is it made while it is sent?
    pub(super) fn is_streamed(&self) -> bool {
        !matches!(self, RequestBody::Bytes(_))
    }

    /// May it be sent already?
    pub(super) fn is_wanted(&self) -> bool {
        match self {
            RequestBody::Expected(.., wanted) => *wanted.borrow(),
            _ => true,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            RequestBody::Bytes(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            RequestBody::Stream(pieces, _) | RequestBody::Expected(pieces, ..) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|p| p.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, RequestBody::Bytes(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            RequestBody::Bytes(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            RequestBody::Stream(_, length) | RequestBody::Expected(_, length, _) => {
                length.map_or_else(http_body::SizeHint::default, http_body::SizeHint::with_exact)
            }
        }
    }
}

/// Reads a response's body piece by piece, or item by item of a CBOR sequence, decoded where it is compressed.
#[derive(Debug)]
pub struct BodyReader {
    body: Incoming,
    buffer: BytesMut,
    inflater: Option<Inflater>,
}

/// Largest item of a sequence that a client takes.
const MAX_ITEM: usize = 16 << 20;
/// Largest zstd window taken, as a power of two: 32 MiB. It bounds the memory that decoding takes.
const MAX_WINDOW_LOG: u32 = 25;
/// Most bytes decoded at one time.
const PIECE: usize = 128 << 10;

impl BodyReader {
    /// Wraps a response's body, sent with these headers.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] for an encoding that was not asked for.
    pub fn new(headers: &HeaderMap, body: Incoming) -> Result<BodyReader, ClientError> {
        let inflater = match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity") => None,
            Some(b"zstd") => Some(Inflater::new().map_err(|error| undecodable(&error))?),
            Some(_) => {
                let detail = "the response has an encoding that was not asked for".to_owned();
                return Err(ClientError::Protocol { detail });
            }
        };
        Ok(BodyReader { body, buffer: BytesMut::new(), inflater })
    }

    /// The next piece, `None` at the end.
    ///
    /// # Errors
    /// [`ClientError::Connection`] if the connection broke, [`ClientError::Protocol`] for what cannot be decoded.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(inflater) = &mut self.inflater {
                let piece = inflater.next().map_err(|error| undecodable(&error))?;
                if piece.is_some() {
                    return Ok(piece);
                }
            }
            match (self.received().await?, &mut self.inflater) {
                (Some(received), None) => return Ok(Some(received)),
                (Some(received), Some(inflater)) => inflater.input = received,
                (None, Some(inflater)) if !inflater.whole => return Err(ended_early()),
                (None, _) => return Ok(None),
            }
        }
    }

    /// The next bytes as they were sent, never none.
    async fn received(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The bytes of the next CBOR item, `None` at the end.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] for bytes that are no sequence, [`ClientError::Connection`].
    pub async fn item(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let length =
                codec::item_length(&self.buffer).map_err(|e| ClientError::Protocol { detail: e.to_string() })?;
            if let Some(length) = length {
                return Ok(Some(self.buffer.split_to(length).freeze()));
            }
            if self.buffer.len() > MAX_ITEM {
                return Err(ClientError::Protocol { detail: "an item of the response is too large".to_owned() });
            }
            match self.piece().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(ended_early()),
            }
        }
    }

    /// All bytes, at most `limit`.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if there are more, [`ClientError::Connection`].
    pub async fn all(&mut self, limit: usize) -> Result<Bytes, ClientError> {
        while let Some(piece) = self.piece().await? {
            self.buffer.extend_from_slice(&piece);
            if self.buffer.len() > limit {
                return Err(ClientError::Protocol { detail: format!("the response is longer than {limit} bytes") });
            }
        }
        Ok(self.buffer.split().freeze())
    }
}

/// A connection's error, in the words of the socket where that is what ended it.
pub(super) fn broken(error: &hyper::Error) -> ClientError {
    let socket = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let silent = socket.filter(|error| error.kind() == io::ErrorKind::TimedOut);
    ClientError::Connection { detail: silent.map_or_else(|| error.to_string(), io::Error::to_string) }
}

fn ended_early() -> ClientError {
    ClientError::Connection { detail: "the response ended early".to_owned() }
}

fn undecodable(error: &io::Error) -> ClientError {
    ClientError::Protocol { detail: format!("the response cannot be decoded: {error}") }
}

/// Decodes a zstd stream (RFC 8878) that comes in pieces.
struct Inflater {
    decoder: Decoder<'static>,
    input: Bytes,
    /// Did the last piece of output leave no room, so that the decoder may hold more?
    held_back: bool,
    /// Is what came so far a whole number of frames?
    whole: bool,
}

impl Inflater {
    fn new() -> io::Result<Inflater> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
        Ok(Inflater { decoder, input: Bytes::new(), held_back: false, whole: true })
    }

    /// What the input so far decodes to, in pieces; `None` when more input is wanted.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut output = Vec::new();
        while !self.input.is_empty() || self.held_back {
            output.resize(PIECE, 0);
            let status = self.decoder.run_on_buffers(&self.input, &mut output)?;
            self.input.advance(status.bytes_read);
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

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("waiting", &self.input.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    fn inflated(compressed: &[u8], pieces: usize) -> io::Result<(Vec<u8>, bool)> {
        let (mut inflater, mut all) = (Inflater::new()?, Vec::new());
        for piece in compressed.chunks(pieces) {
            inflater.input = Bytes::copy_from_slice(piece);
            while let Some(decoded) = inflater.next()? {
                assert!(decoded.len() <= PIECE);
                all.extend_from_slice(&decoded);
            }
        }
        Ok((all, inflater.whole))
    }

    #[test]
    fn blocks_of_any_length_come_out_whole_and_a_cut_shows() {
        let mut compressed = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        let bytes: Vec<u8> = (0..900_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for block in bytes.chunks(100_000) {
            compressed.write_all(block).unwrap();
            compressed.flush().unwrap();
        }
        let compressed = compressed.finish().unwrap();
        for pieces in [1, 70_000, compressed.len()] {
            assert!(inflated(&compressed, pieces).unwrap() == (bytes.clone(), true), "in pieces of {pieces}");
        }
        assert!(!inflated(&compressed[..compressed.len() - 1], 1000).unwrap().1);
        assert!(inflated(b"no zstd at all", 5).is_err());
    }

    #[test]
    fn a_window_over_the_bound_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(26).unwrap();
        encoder.write_all(&[7; 1 << 20]).unwrap();
        assert!(inflated(&encoder.finish().unwrap(), 1000).is_err());
    }
}
