//! Bodies of requests and responses.

use crate::pace::Paced;
use crate::problem::Problem;
use crate::shares::Reserved;
use crate::state::State;
use crate::zstd_stream;
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a sender may be silent within a body.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the receiver of a streamed response may not read.
const STALLED: Duration = Duration::from_secs(60);
/// Most bytes of a refused body that are read.
const MAX_DISCARDED: usize = 64 << 20;
/// Most bytes of a JSON body.
const MAX_JSON: usize = 1 << 20;
/// Below this length compressing a response is not worth it.
pub(crate) const COMPRESS_FROM: u64 = 256;
/// zstd's level for responses: its fast default.
pub(crate) const COMPRESSION_LEVEL: i32 = 3;
/// Bytes that a streamed response gathers before it passes them on: each such piece takes nine more on the wire.
const PIECE: usize = 256 << 10;

/// A body that was read whole, and its share of the server's memory for them.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) memory: Reserved,
    /// Bytes that it took on the wire.
    pub(crate) wire: u64,
}

/// How a body is encoded.
pub(crate) enum Encoding {
    Plain,
    Zstd,
}

/// The encoding of a request's body.
///
/// # Errors
/// [`Problem`] for one that is not known here.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Encoding::Plain),
        Some(b"zstd") => Ok(Encoding::Zstd),
        Some(_) => {
            let detail = "the body's encoding is not known; send it as it is or with Content-Encoding: zstd";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoding", detail))
        }
    }
}

/// Reads a body of at most `limit` bytes, on the wire and decoded. Memory for it is set aside as it comes.
///
/// # Errors
/// [`Problem`]: too large, broken off, no zstd, silent for half a minute, or slower than any link.
pub(crate) async fn read(state: &State, headers: &HeaderMap, body: Body, limit: usize) -> Result<Read, Problem> {
    let mut data = Paced::new(stream(body)).stream().fuse();
    let read = read_from(state, headers, &mut data, limit).await;
    if read.is_err() {
        discard(data).await;
    }
    read
}

async fn read_from(
    state: &State,
    headers: &HeaderMap,
    data: &mut (impl Stream<Item = io::Result<Bytes>> + Send + Unpin),
    limit: usize,
) -> Result<Read, Problem> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if announced.is_some_and(|announced| announced > limit as u64) {
        return Err(Problem::too_large("the request's body", limit as u64));
    }
    match encoding(headers)? {
        Encoding::Plain => {
            let (bytes, memory) = gather(state, data, announced, limit).await?;
            let wire = bytes.len() as u64;
            Ok(Read { bytes, memory, wire })
        }
        Encoding::Zstd => unpack(state, data, limit).await,
    }
}

/// Reads zstd frames that hold at most `limit` bytes. Memory for them is set aside as they come.
///
/// # Errors
/// [`Problem`]: too large, broken off, no zstd.
pub(crate) async fn unpack(
    state: &State,
    data: &mut (impl Stream<Item = io::Result<Bytes>> + Send + Unpin),
    limit: usize,
) -> Result<Read, Problem> {
    let first = data.next().await.transpose().map_err(|error| unreadable(&error))?.unwrap_or_default();
    // What a frame states is believed for the memory that is set aside, and then is the bound.
    let stated = zstd_stream::stated_length(&first);
    let wire = AtomicU64::new(0);
    let whole = futures::stream::iter([Ok(first)]).chain(data).inspect(|piece| {
        let length = piece.as_ref().map_or(0, Bytes::len);
        wire.fetch_add(length as u64, Ordering::Relaxed);
    });
    let mut decoded = zstd_stream::decode(whole).map_err(|error| Problem::internal(&error))?;
    let (bytes, memory) = gather(state, &mut decoded, stated, limit).await?;
    drop(decoded);
    Ok(Read { bytes, memory, wire: wire.into_inner() })
}

/// Gathers at most `stated` or else `limit` bytes.
async fn gather(
    state: &State,
    data: &mut (impl Stream<Item = io::Result<Bytes>> + Send + Unpin),
    stated: Option<u64>,
    limit: usize,
) -> Result<(Bytes, Reserved), Problem> {
    let too_large = || Problem::too_large("the request's body", limit as u64);
    let most = stated.map_or(Ok(limit), usize::try_from).unwrap_or(usize::MAX);
    if most > limit {
        return Err(too_large());
    }
    let mut memory = state.shares.memory();
    let mut bytes = BytesMut::new();
    while let Some(piece) = data.next().await {
        let piece = piece.map_err(|error| unreadable(&error))?;
        if bytes.len() + piece.len() > limit {
            return Err(too_large());
        }
        if bytes.len() + piece.len() > most {
            return Err(Problem::malformed(format!("the body is longer than the {most} bytes it states; mend it")));
        }
        memory.hold(bytes.len() + piece.len()).await;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes.freeze(), memory))
}

fn unreadable(error: &io::Error) -> Problem {
    Problem::malformed(format!("the body could not be read: {error}; send it again"))
}

/// A body's bytes as they come; an error if its sender is silent for half a minute.
pub(crate) fn stream(body: Body) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
    stream_within(body, SILENCE)
}

/// As [`stream`], for a sender that may be silent for longer.
pub(crate) fn stream_within(body: Body, silence: Duration) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
    Box::pin(futures::stream::unfold(Some(body), move |body| async move {
        let mut body = body?;
        loop {
            let frame = match tokio::time::timeout(silence, body.frame()).await {
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
pub(crate) async fn discard(mut data: impl Stream<Item = io::Result<Bytes>> + Unpin) {
    let mut read = 0;
    while let Some(Ok(piece)) = data.next().await {
        read += piece.len();
        if read > MAX_DISCARDED {
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

/// A response in binary: what it is of is said by the address, and so no header takes room for that.
pub(crate) fn binary(body: impl Into<Body>) -> Response {
    Response::new(body.into())
}

/// Does the sender of these headers take zstd?
pub(crate) fn accepts_zstd(headers: &HeaderMap) -> bool {
    let value = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    value.unwrap_or_default().split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("zstd"))
            && !parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.trim_end_matches(['0', '.']).is_empty()))
    })
}

/// A response of one CBOR item or sequence, compressed for who takes that and where it makes it smaller. Takes its time.
pub(crate) fn compressed(bytes: Vec<u8>, accepts_zstd: bool) -> Response {
    if accepts_zstd
        && bytes.len() as u64 > COMPRESS_FROM
        && let Ok(packed) = zstd::bulk::compress(&bytes, COMPRESSION_LEVEL)
        && packed.len() < bytes.len()
    {
        return zstd_encoded(packed);
    }
    binary(bytes)
}

/// As [`binary`], of a body that is compressed.
pub(crate) fn zstd_encoded(body: impl Into<Body>) -> Response {
    let mut response = binary(body);
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    response
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: serde_json::Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

/// A body that a blocking thread writes while it is sent. How many there are is bounded, of all and of each principal. An
/// error breaks the connection off, so that the receiver cannot take what came for the whole.
pub(crate) fn written(state: &State, write: impl FnOnce(&mut Pieces) -> io::Result<()> + Send + 'static) -> Body {
    let (threads, share) = (Arc::clone(&state.writers), state.shares.own());
    let begun = async move {
        let own = Arc::clone(&share.writers).acquire_owned().await;
        let permit = (own, threads.acquire_owned().await, share);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zstd_is_used_only_for_who_accepts_it() {
        let accepts = |value: &'static str| {
            accepts_zstd(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        for yes in ["zstd", "gzip, zstd", "gzip;q=1.0, ZSTD;q=0.5"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "gzip", "zstd;q=0", "gzip, zstd; q=0.0"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_zstd(&HeaderMap::new()));
    }
}
