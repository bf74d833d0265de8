//! Bodies: what is sent, in memory or streamed, and what comes back, read item by item.

use crate::ClientError;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use opship_record::codec;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// Bytes in memory, sent once.
    Bytes(Option<Bytes>),
    /// Pieces that a producer makes while they are sent.
    Stream(mpsc::Receiver<io::Result<Bytes>>),
}

impl RequestBody {
    /// A body in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> RequestBody {
        RequestBody::Bytes(Some(bytes.into()))
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
            RequestBody::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, RequestBody::Bytes(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            RequestBody::Bytes(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            RequestBody::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// Reads a response's body piece by piece, or item by item of a CBOR sequence.
#[derive(Debug)]
pub struct BodyReader {
    body: Incoming,
    buffer: BytesMut,
}

/// Largest item of a sequence that a client takes.
const MAX_ITEM: usize = 16 << 20;

impl BodyReader {
    /// Wraps a response's body.
    pub fn new(body: Incoming) -> BodyReader {
        BodyReader { body, buffer: BytesMut::new() }
    }

    /// The next piece, `None` at the end.
    ///
    /// # Errors
    /// [`ClientError::Connection`] if the connection broke.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ClientError::Connection { detail: error.to_string() })?;
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
                None => return Err(ClientError::Connection { detail: "the response ended early".to_owned() }),
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
