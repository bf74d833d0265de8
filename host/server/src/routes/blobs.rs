//! Blobs: upload, download, what is lacking.

use crate::auth::{Reader, Writer};
use crate::body::{CBOR, CBOR_SEQUENCE, Pieces, cbor, hash, read_hashes, stream, written};
use crate::contents::read_all;
use crate::problem::Problem;
use crate::range::{Asked, parse};
use crate::state::{State as Shared, blocking};
use crate::zstd_stream;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use minicbor::bytes::ByteVec;
use opship_record::{Hash, codec};
use opship_storage::{Scope, StorageError};
use opship_world::FileContent;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// Most hashes that one question may name.
const MAX_HASHES: usize = 10_000;
/// Largest blob that [`fetch`] gives, in bytes.
const FETCH_EACH: u64 = 64 << 10;
/// Most bytes that [`fetch`] gives.
const FETCH_ALL: u64 = 8 << 20;
/// Below this length compressing is not worth it.
const COMPRESS_FROM: u64 = 256;
const COMPRESSION_LEVEL: i32 = 3;
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
    if blocking(move || own.store.blob_length(&own_scope, &expected)).await??.is_some() {
        return drain(body).await;
    }
    let bytes = stream(body);
    let limit = state.blob_bytes;
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    match encoding {
        None | Some(b"identity") => state.store.put_blob(&scope, expected, limit, bytes).await?,
        Some(b"zstd") => {
            let decoded = zstd_stream::decode(bytes).map_err(|error| Problem::internal(&error))?;
            state.store.put_blob(&scope, expected, limit, decoded).await?
        }
        Some(_) => {
            let detail = "the body's encoding is not known; send it as it is or with Content-Encoding: zstd";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoding", detail));
        }
    };
    Ok(StatusCode::CREATED.into_response())
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
    set(&mut response, header::VARY, "accept-encoding");
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
        Asked::Whole if may_compress && length > COMPRESS_FROM && accepts_zstd(text(header::ACCEPT_ENCODING)) => {
            // The tag is that of the plain bytes; this is another form of them.
            set(&mut response, header::ETAG, &format!("W/{tag}"));
            set(&mut response, header::CONTENT_ENCODING, "zstd");
            *response.body_mut() = compressed(state, blob);
        }
        Asked::Whole => {
            set(&mut response, header::CONTENT_LENGTH, &length.to_string());
            *response.body_mut() = plain(blob, 0..length);
        }
    }
    response
}

fn accepts_zstd(value: Option<&str>) -> bool {
    value.unwrap_or_default().split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("zstd"))
            && !parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.trim_end_matches(['0', '.']).is_empty()))
    })
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

fn compressed(state: &Shared, blob: Arc<dyn FileContent>) -> Body {
    written(Arc::clone(&state.writers), move |pieces: &mut Pieces| {
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
    Ok(cbor(CBOR, codec::encode(&missing)))
}

/// Small blobs, many at once; those that are not here or too large are left out.
pub(super) async fn fetch(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let hashes = read_hashes(&state, &headers, body, MAX_HASHES).await?;
    let sequence = blocking(move || {
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
        Ok::<_, Problem>(sequence)
    });
    Ok(cbor(CBOR_SEQUENCE, sequence.await??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zstd_is_used_only_for_who_accepts_it() {
        for yes in ["zstd", "gzip, zstd", "gzip;q=1.0, ZSTD;q=0.5"] {
            assert!(accepts_zstd(Some(yes)), "{yes}");
        }
        for no in ["", "gzip", "zstd;q=0", "gzip, zstd; q=0.0"] {
            assert!(!accepts_zstd(Some(no)), "{no}");
        }
        assert!(!accepts_zstd(None));
    }
}
