//! Bodies of requests and responses.

use crate::problem::Problem;
use crate::state::State;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use minicbor::{Decode, Encode};
use opship_record::{Hash, codec};
use serde::de::DeserializeOwned;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How long a sender may be silent within a body.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the receiver of a streamed response may not read.
const STALLED: Duration = Duration::from_secs(60);
/// Most bytes of a refused body that are read.
const MAX_DISCARDED: usize = 64 << 20;
/// Most bytes of a JSON body.
const MAX_JSON: usize = 1 << 20;
/// Bytes that a streamed response gathers before it passes them on.
const PIECE: usize = 128 << 10;

/// A CBOR sequence (RFC 8742).
pub(crate) const CBOR_SEQUENCE: HeaderValue = HeaderValue::from_static("application/cbor-seq");
/// One CBOR item.
pub(crate) const CBOR: HeaderValue = HeaderValue::from_static("application/cbor");

/// A body that was read whole, and its share of the server's memory for them.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) memory: OwnedSemaphorePermit,
}

/// Reads a body of at most `limit` bytes, once there is memory for it.
///
/// # Errors
/// [`Problem`]: too large, broken off, or silent for half a minute.
pub(crate) async fn read(state: &State, headers: &HeaderMap, body: Body, limit: usize) -> Result<Read, Problem> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let most = announced.unwrap_or(limit);
    if most > limit {
        discard(stream(body), MAX_DISCARDED).await;
        return Err(Problem::too_large("the request's body", limit as u64));
    }
    let permits = u32::try_from((most >> 10) + 1).unwrap_or(u32::MAX);
    let memory = Arc::clone(&state.request_memory).acquire_many_owned(permits).await;
    let memory = memory.map_err(|error| Problem::internal(&error))?;
    let mut bytes = BytesMut::new();
    let mut data = stream(body);
    while let Some(piece) = data.next().await {
        let piece = piece.map_err(|error| Problem::malformed(format!("the body broke off: {error}; send it again")))?;
        if bytes.len() + piece.len() > limit {
            discard(data, MAX_DISCARDED).await;
            return Err(Problem::too_large("the request's body", limit as u64));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Read { bytes: bytes.freeze(), memory })
}

/// A body's bytes as they come; an error if its sender is silent for half a minute.
pub(crate) fn stream(body: Body) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + Unpin {
    Box::pin(futures::stream::unfold(Some(body), |body| async {
        let mut body = body?;
        loop {
            let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Some((Err(io::Error::other(error)), None)),
                Ok(None) => return None,
                Err(_) => return Some((Err(io::Error::new(io::ErrorKind::TimedOut, "silent for too long")), None)),
            };
            // Trailers carry nothing here.
            if let Ok(data) = frame.into_data() {
                return Some((Ok(data), Some(body)));
            }
        }
    }))
}

/// Reads on what is refused, up to a bound: answering before its end would break the sender's connection off, and the
/// answer with it.
async fn discard(mut data: impl Stream<Item = Result<Bytes, io::Error>> + Unpin, most: usize) {
    let mut read = 0;
    while let Some(Ok(piece)) = data.next().await {
        read += piece.len();
        if read > most {
            return;
        }
    }
}

/// Reads a JSON body.
pub(crate) async fn read_json<T: DeserializeOwned>(
    state: &State,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    let read = read(state, headers, body, MAX_JSON).await?;
    serde_json::from_slice(&read.bytes).map_err(|error| Problem::malformed(format!("the body: {error}")))
}

/// Reads the body of a list of hashes, a canonical CBOR array.
pub(crate) async fn read_hashes(
    state: &State,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Vec<Hash>, Problem> {
    let read = read(state, headers, body, most * 34 + 16).await?;
    let hashes: Vec<Hash> = decode(&read.bytes)?;
    if hashes.len() > most {
        return Err(Problem::malformed(format!("more than {most} hashes; ask for fewer at once")));
    }
    Ok(hashes)
}

/// Reads one canonical CBOR value.
pub(crate) fn decode<'b, T: Decode<'b, ()> + Encode<()>>(bytes: &'b [u8]) -> Result<T, Problem> {
    Ok(codec::decode(bytes, "body")?)
}

/// The parameters after the `?`.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    axum::extract::Query::<T>::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|error| Problem::malformed(format!("the parameters after '?': {error}")))
}

/// A hash of an address.
pub(crate) fn hash(text: &str) -> Result<Hash, Problem> {
    text.parse().map_err(Problem::from)
}

/// A response of one CBOR item or sequence.
pub(crate) fn cbor(kind: HeaderValue, bytes: Vec<u8>) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], bytes).into_response()
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: serde_json::Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

/// A body that a blocking thread writes while it is sent. `threads` bounds how many there are. An error breaks the
/// connection off, so that the receiver cannot take what came for the whole.
pub(crate) fn written(
    threads: Arc<Semaphore>,
    write: impl FnOnce(&mut Pieces) -> io::Result<()> + Send + 'static,
) -> Body {
    let begun = async move {
        let permit = threads.acquire_owned().await;
        let (sender, receiver) = mpsc::channel(4);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut pieces = Pieces { runtime, sender, gathered: BytesMut::new() };
            let done = write(&mut pieces).and_then(|()| io::Write::flush(&mut pieces));
            if let Err(error) = done {
                // If the receiver has gone or does not read, it need not hear it.
                let _ = pieces.sender.try_send(Err(error));
            }
        });
        futures::stream::unfold(receiver, |mut receiver| async {
            let piece: io::Result<Bytes> = receiver.recv().await?;
            Some((piece, receiver))
        })
    };
    Body::from_stream(futures::stream::once(begun).flatten())
}

/// The writing end of [`written`].
pub(crate) struct Pieces {
    runtime: tokio::runtime::Handle,
    sender: mpsc::Sender<io::Result<Bytes>>,
    gathered: BytesMut,
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// Passes on what was gathered. A receiver that does not read must not hold the thread.
    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = self.gathered.split().freeze();
        let sent = self.runtime.block_on(async { tokio::time::timeout(STALLED, self.sender.send(Ok(piece))).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
