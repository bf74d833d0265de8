//! Blobs: upload, download, what is lacking.

use crate::auth::{Reader, Writer};
use crate::body::{
    COMPRESS_FROM, COMPRESSION_LEVEL, Encoding, Pieces, Read, accepts_zstd, binary, compressed, discard, encoding,
    hash, read, read_hashes, stream, written,
};
use crate::contents::read_all;
use crate::problem::Problem;
use crate::range::{Asked, parse};
use crate::state::{State as Shared, blocking};
use crate::zstd_stream;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use minicbor::bytes::ByteVec;
use opship_record::limits::{MAX_INLINE_PART, MAX_REQUEST};
use opship_record::{Hash, codec};
use opship_storage::{Scope, StorageError};
use opship_world::FileContent;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// Most hashes that one question may name.
const MAX_HASHES: usize = 10_000;
/// Largest blob that [`fetch`] gives and [`put_many`] takes, in bytes.
const FETCH_EACH: u64 = MAX_INLINE_PART as u64;
/// Most bytes that [`fetch`] gives.
const FETCH_ALL: u64 = 8 << 20;
/// Small blobs that are being stored at one time: about as many as one transaction takes.
const STORED_AT_ONCE: usize = 256;
const PIECE: u64 = 128 << 10;

/// Takes the bytes of a blob, checked while they come.
pub(super) async fn put(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    Path((_, expected)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let expected = hash(&expected)?;
    let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
    if blocking(move || own.store.missing_blobs(&own_scope, &[expected])).await??.is_empty() {
        return drain(body).await;
    }
    let mut bytes = stream(body).fuse();
    if let Err(problem) = receive(&state, &scope, expected, &headers, &mut bytes).await {
        discard(bytes).await;
        return Err(problem);
    }
    Ok(StatusCode::CREATED.into_response())
}

async fn receive(
    state: &Shared,
    scope: &Scope,
    expected: Hash,
    headers: &HeaderMap,
    bytes: impl Stream<Item = io::Result<Bytes>> + Send + Unpin,
) -> Result<(), Problem> {
    let limit = state.blob_bytes;
    match encoding(headers)? {
        Encoding::Plain => state.store.put_blob(scope, expected, limit, bytes).await?,
        Encoding::Zstd => {
            let decoded = zstd_stream::decode(bytes).map_err(|error| Problem::internal(&error))?;
            state.store.put_blob(scope, expected, limit, decoded).await?
        }
    };
    Ok(())
}

/// Takes many small blobs at once: a CBOR sequence of byte strings. They share the transactions that make them durable.
pub(super) async fn put_many(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_REQUEST).await?;
    store_many(&state, &scope, read, FETCH_EACH).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Stores the blobs of a sequence of byte strings, none longer than `each`.
pub(super) async fn store_many(state: &Arc<Shared>, scope: &Arc<Scope>, read: Read, each: u64) -> Result<(), Problem> {
    let (own, own_scope) = (Arc::clone(state), Arc::clone(scope));
    let blobs = blocking(move || {
        let blobs = blobs_of(&read.bytes, each)?;
        let missing = own.store.missing_blobs(&own_scope, &blobs.keys().copied().collect::<Vec<_>>())?;
        // The memory is held until all are stored.
        Ok::<_, Problem>((blobs, missing, read.memory))
    });
    let (mut blobs, missing, _memory) = blobs.await??;
    let storing = missing.into_iter().filter_map(|hash| {
        let bytes = futures::stream::iter([Ok::<_, io::Error>(blobs.remove(&hash)?)]);
        Some(state.store.put_blob(scope, hash, each, bytes))
    });
    let mut stored = futures::stream::iter(storing).buffer_unordered(STORED_AT_ONCE);
    while stored.try_next().await?.is_some() {}
    Ok(())
}

fn blobs_of(mut sequence: &[u8], each: u64) -> Result<BTreeMap<Hash, Bytes>, Problem> {
    let mut blobs = BTreeMap::new();
    while !sequence.is_empty() {
        let bytes = Vec::from(codec::decode_next::<ByteVec>(&mut sequence, "blob", MAX_REQUEST)?);
        if bytes.len() as u64 > each {
            return Err(Problem::too_large("a blob among many", each));
        }
        blobs.insert(Hash::of(&bytes), Bytes::from(bytes));
    }
    Ok(blobs)
}

/// Reads what need not have been sent: answering before its end would break the sender's connection.
async fn drain(body: Body) -> Result<Response, Problem> {
    let mut bytes = stream(body);
    while let Some(piece) = bytes.next().await {
        piece.map_err(|error| Problem::malformed(format!("the body broke off: {error}; send it again")))?;
    }
    Ok(StatusCode::OK.into_response())
}

/// A content to be sent.
pub(super) struct Content {
    pub(super) hash: Hash,
    pub(super) blob: Arc<dyn FileContent>,
}

/// The bytes of a blob of the workspace, or of a module that it may use.
pub(super) async fn get(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let hash = hash(&name)?;
    let own = Arc::clone(&state);
    let found = blocking(move || open(&own, &scope, &hash)).await??;
    let blob = found.ok_or_else(|| Problem::not_found("blob", &name))?;
    Ok(respond(&state, Content { hash, blob }, &headers, true))
}

fn open(state: &Shared, scope: &Scope, hash: &Hash) -> Result<Option<Arc<dyn FileContent>>, StorageError> {
    let blob = match state.store.open_blob(scope, hash)? {
        Some(blob) => Some(blob),
        None => state.store.module_content(scope, hash)?,
    };
    Ok(blob.map(|blob| Arc::new(blob) as Arc<dyn FileContent>))
}

/// Sends a content: all of it, a range, compressed, or word that the client has it.
pub(super) fn respond(state: &Shared, content: Content, headers: &HeaderMap, may_compress: bool) -> Response {
    let Content { hash, blob } = content;
    let length = blob.length();
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let tag = format!("\"{hash}\"");
    let mut response = Response::new(Body::empty());
    let set = |response: &mut Response, name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(&mut response, header::ETAG, &tag);
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    if may_compress {
        set(&mut response, header::VARY, "accept-encoding");
    }
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut response, header::CONTENT_TYPE, "application/octet-stream");
    if text(header::IF_NONE_MATCH).is_some_and(|have| have.split(',').any(|t| t.trim() == tag || t.trim() == "*")) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    match parse(text(header::RANGE), length) {
        Asked::Outside => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{length}"));
        }
        Asked::Part(part) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut response, header::CONTENT_RANGE, &format!("bytes {}-{}/{length}", part.start, part.end - 1));
            set(&mut response, header::CONTENT_LENGTH, &(part.end - part.start).to_string());
            *response.body_mut() = plain(blob, part);
        }
        Asked::Whole if may_compress && length > COMPRESS_FROM && accepts_zstd(headers) => {
            // The tag is that of the plain bytes; this is another form of them.
            set(&mut response, header::ETAG, &format!("W/{tag}"));
            set(&mut response, header::CONTENT_ENCODING, "zstd");
            *response.body_mut() = packed(state, blob);
        }
        Asked::Whole => {
            set(&mut response, header::CONTENT_LENGTH, &length.to_string());
            *response.body_mut() = plain(blob, 0..length);
        }
    }
    response
}

/// The bytes as they are. No thread waits for a slow receiver.
fn plain(blob: Arc<dyn FileContent>, part: Range<u64>) -> Body {
    Body::from_stream(futures::stream::try_unfold((blob, part), |(blob, part)| async move {
        if part.is_empty() {
            return Ok(None);
        }
        let reading = move || {
            let bytes = piece(&*blob, part.clone());
            bytes.map(|bytes| (part.start + bytes.len() as u64..part.end, blob, bytes))
        };
        let (rest, blob, bytes) = tokio::task::spawn_blocking(reading).await.map_err(io::Error::other)??;
        Ok::<_, io::Error>(Some((Bytes::from(bytes), (blob, rest))))
    }))
}

fn packed(state: &Shared, blob: Arc<dyn FileContent>) -> Body {
    written(state, move |pieces: &mut Pieces| {
        let mut encoder = zstd::stream::write::Encoder::new(pieces, COMPRESSION_LEVEL)?;
        let mut at = 0;
        while at < blob.length() {
            let bytes = piece(&*blob, at..blob.length())?;
            encoder.write_all(&bytes)?;
            at += bytes.len() as u64;
        }
        encoder.finish().map(drop)
    })
}

/// The first bytes of a part that is not empty.
fn piece(blob: &dyn FileContent, part: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from((part.end - part.start).min(PIECE)).unwrap_or_default()];
    let count = blob.read_at(part.start, &mut bytes).map_err(io::Error::other)?;
    if count == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a blob is shorter than it should be"));
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// Which of these blobs are not in the workspace?
pub(super) async fn missing(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let hashes = read_hashes(&state, &headers, body, MAX_HASHES).await?;
    let missing = blocking(move || state.store.missing_blobs(&scope, &hashes)).await??;
    Ok(binary(codec::encode(&missing)))
}

/// Small blobs, many at once; those that are not here or too large are left out.
pub(super) async fn fetch(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let hashes = read_hashes(&state, &headers, body, MAX_HASHES).await?;
    let accepts_zstd = accepts_zstd(&headers);
    let response = blocking(move || {
        let mut sequence = Vec::new();
        let mut total = 0;
        for hash in hashes {
            let Some(blob) = open(&state, &scope, &hash)? else { continue };
            if blob.length() > FETCH_EACH || total + blob.length() > FETCH_ALL {
                continue;
            }
            total += blob.length();
            let bytes = read_all(&*blob).map_err(|error| Problem::internal(&error))?;
            sequence.extend(codec::encode(&(hash, ByteVec::from(bytes))));
        }
        Ok::<_, Problem>(compressed(sequence, accepts_zstd))
    });
    response.await?
}
