//! Uploads that go on where they were cut (draft-ietf-httpbis-resumable-upload), and documents.

use super::blobs::store_many;
use crate::auth::{Reader, Writer};
use crate::body::{
    accepts_zstd, binary, compressed, decode, discard, hash, query, read, stream, stream_within, unpack, written,
};
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use crate::transfers::{Appended, Composed, Name, Refused, Turn, compose, small_document, take_document, take_packed};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, RawPathParams, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use minicbor::bytes::ByteVec;
use opship_record::limits::{MAX_INLINE_PART, MAX_REQUEST};
use opship_record::{Hash, codec};
use opship_residual::packed;
use opship_storage::Scope;
use opship_world::FileContent;
use serde::Deserialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
/// A compressed document may be this much longer than its content: bytes that do not compress, and lists of copies.
const DOCUMENT_MORE: u64 = 1 << 20;
/// How long the sender of an upload may be silent: it may have to read on for long where nothing changed, or let others pass.
const SILENCE: Duration = Duration::from_secs(600);
/// Most bytes of a content in a parcel.
const MAX_IN_PARCEL: u64 = 4 << 20;
/// Bytes of a received parcel that are read at one time.
const PIECE: u64 = 128 << 10;
/// Most chunks that one question may name.
const MAX_CHUNKS: usize = 1 << 20;
/// Bytes of a chunk's hash that name it in a question.
const CHUNK_PREFIX: usize = 8;
/// Most documents that one question may name.
const MAX_DOCUMENTS: usize = 10_000;
/// Most bytes of contents that one question's documents make.
const FETCH_ALL: u64 = 8 << 20;
/// Documents of one request that are worked on at one time.
const DOCUMENTS_AT_ONCE: usize = 4;

/// An upload that a request is about.
pub(super) struct Asked {
    state: Arc<Shared>,
    scope: Arc<Scope>,
    /// The content that it brings; `None` for a parcel of several.
    content: Option<Hash>,
    name: Name,
}

impl FromRequestParts<Arc<Shared>> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Shared>) -> Result<Asked, Problem> {
        let Writer(scope) = Writer::from_request_parts(parts, state).await?;
        let path = RawPathParams::from_request_parts(parts, state).await;
        let path = path.map_err(|_| Problem::malformed("the address is not UTF-8; encode it"))?;
        let part = |name| path.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        let (content, name) = match (part("parcel"), part("hash")) {
            (Some(parcel), _) => (None, Name::of_parcel(&scope, parcel)),
            (None, content) => {
                let content = hash(content.unwrap_or_default())?;
                (Some(content), Name::new(&scope, &content, part("document").unwrap_or_default()))
            }
        };
        let wrong = "an upload's name is lower-case hexadecimal digits: 32 of a document, 8 to 32 of a parcel";
        let name = name.ok_or_else(|| Problem::malformed(wrong))?;
        Ok(Asked { state: Arc::clone(state), scope, content, name })
    }
}

/// How an upload is answered.
#[derive(Clone, Copy)]
struct Answer {
    status: StatusCode,
    /// Of a whole one with as few bytes as there can be: the request did not say `Upload-Complete` either.
    is_bare: bool,
}

impl Answer {
    fn complete(self) -> Response {
        if self.is_bare {
            return StatusCode::NO_CONTENT.into_response();
        }
        respond(self.status, None, true)
    }
}

/// Begins an upload, and takes its first bytes.
pub(super) async fn create(asked: Asked, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let is_bare = !headers.contains_key(UPLOAD_COMPLETE);
    let complete = is_bare || is_complete(&headers)?;
    let answer = |status| Answer { status, is_bare };
    if let Some(content) = asked.content {
        let (store, scope) = (asked.state.store.clone(), Arc::clone(&asked.scope));
        if blocking(move || store.missing_blobs(&scope, &[content])).await??.is_empty() {
            // Answering before the body's end breaks the sender's connection, unless it waits for this answer to send it.
            if !headers.contains_key(header::EXPECT) {
                discard(stream(body)).await;
            }
            return Ok(answer(StatusCode::OK).complete());
        }
    }
    let turn = asked.state.uploads.turn(&asked.name).await;
    let (state, name) = (Arc::clone(&asked.state), asked.name.clone());
    let begun = blocking(move || state.uploads.begin(&name, &turn).map(|()| turn)).await?;
    let turn = begun.map_err(|error| Problem::disk(&error))?;
    receive(asked, turn, complete, answer(StatusCode::CREATED), body).await
}

/// Takes further bytes.
pub(super) async fn append(asked: Asked, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let complete = is_complete(&headers)?;
    let given = number(&headers, &UPLOAD_OFFSET)?;
    let turn = asked.state.uploads.turn(&asked.name).await;
    let found = turn.offset().map_err(|error| Problem::internal(&error))?;
    let refusal = match found {
        None => Some(Problem::not_found("upload", asked.name.document())),
        Some(found) if Some(found) != given => Some(mismatch(found, given)),
        Some(_) => None,
    };
    if let Some(problem) = refusal {
        drop(turn);
        discard(stream(body)).await;
        return Err(problem);
    }
    receive(asked, turn, complete, Answer { status: StatusCode::NO_CONTENT, is_bare: false }, body).await
}

/// How far an upload is.
pub(super) async fn offset(asked: Asked) -> Result<Response, Problem> {
    let turn = asked.state.uploads.turn(&asked.name).await;
    let found = turn.offset().map_err(|error| Problem::internal(&error))?;
    let found = found.ok_or_else(|| Problem::not_found("upload", asked.name.document()))?;
    let mut response = respond(StatusCode::NO_CONTENT, Some(found), false);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Drops an upload.
pub(super) async fn remove(asked: Asked) -> Result<Response, Problem> {
    let turn = asked.state.uploads.turn(&asked.name).await;
    turn.drop_upload().map_err(|error| Problem::internal(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn receive(asked: Asked, turn: Turn, complete: bool, answer: Answer, body: Body) -> Result<Response, Problem> {
    let most = asked.content.map_or(MAX_REQUEST as u64, |_| asked.state.blob_bytes);
    let limit = most.saturating_add(DOCUMENT_MORE);
    let mut bytes = stream_within(body, SILENCE).fuse();
    match turn.append(limit, &mut bytes).await.map_err(|error| Problem::disk(&error))? {
        Appended::Whole(_) if complete => finish(asked, turn, answer).await,
        Appended::Whole(length) => Ok(respond(answer.status, Some(length), false)),
        Appended::Cut(length) => {
            let detail = format!("the upload broke off at byte {length}; ask for its offset and go on there");
            Err(Problem::new(StatusCode::BAD_REQUEST, "upload", detail))
        }
        Appended::TooLong(_) => {
            turn.drop_upload().map_err(|error| Problem::internal(&error))?;
            drop(turn);
            discard(bytes).await;
            Err(Problem::too_large("an upload", limit))
        }
    }
}

/// Makes the content of what was received. It goes on if the sender is gone: it would have to come again for nothing.
async fn finish(asked: Asked, turn: Turn, answer: Answer) -> Result<Response, Problem> {
    let state = Arc::clone(&asked.state);
    let finishing = state.tasks.spawn(async move {
        let document = turn.open().map_err(|error| Problem::internal(&error))?;
        let taken = match asked.content {
            Some(content) => take_packed(&asked.state, &asked.scope, content, document).await,
            None => take_parcel(&asked.state, &asked.scope, document).await,
        };
        if !matches!(taken, Err(Refused::Server(_))) {
            turn.drop_upload().map_err(|error| Problem::internal(&error))?;
        }
        taken.map_err(Refused::problem)
    });
    finishing.await.map_err(|error| Problem::internal(&error))??;
    Ok(answer.complete())
}

/// Stores the contents of a parcel.
async fn take_parcel(state: &Arc<Shared>, scope: &Arc<Scope>, document: File) -> Result<(), Refused> {
    let mut bytes = Box::pin(pieces_of(document));
    let taken = match unpack(state, &mut bytes, MAX_REQUEST).await {
        Ok(read) => store_many(state, scope, read, MAX_IN_PARCEL).await,
        Err(problem) => Err(problem),
    };
    taken.map_err(|problem| {
        if !problem.is_refusal() {
            return Refused::Server(problem);
        }
        let detail = format!("{}; send its contents one by one", problem.detail());
        Refused::Document(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "document", detail))
    })
}

/// Reads a file on other threads than those of requests.
fn pieces_of(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    futures::stream::try_unfold(file, |file| async move {
        let reading = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::new();
            (&file).take(PIECE).read_to_end(&mut piece)?;
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
        });
        reading.await.map_err(io::Error::other)?
    })
}

fn respond(status: StatusCode, offset: Option<u64>, complete: bool) -> Response {
    let mut response = status.into_response();
    let headers = response.headers_mut();
    if let Some(offset) = offset {
        headers.insert(UPLOAD_OFFSET, HeaderValue::from(offset));
    }
    headers.insert(UPLOAD_COMPLETE, HeaderValue::from_static(if complete { "?1" } else { "?0" }));
    response
}

/// `Upload-Complete`: does the upload end with this body? A structured field, a Boolean (RFC 9651).
fn is_complete(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(UPLOAD_COMPLETE).map(HeaderValue::as_bytes) {
        Some(b"?1") => Ok(true),
        Some(b"?0") => Ok(false),
        _ => Err(Problem::malformed("'Upload-Complete' must be ?0 or ?1")),
    }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Problem::malformed(format!("'{name}' is not a number of bytes")))
}

fn mismatch(found: u64, given: Option<u64>) -> Problem {
    let detail = format!("the upload is at byte {found}; go on there");
    Problem::new(StatusCode::CONFLICT, "mismatching-upload-offset", detail)
        .with("expected-offset", json!(found))
        .with("provided-offset", json!(given))
}

/// Takes documents of contents, many at once: a sequence of `[hash, document]`. Answers with the hashes of those of which
/// the content could not be made.
pub(super) async fn documents(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_REQUEST).await?;
    let mut sequence = read.bytes.as_ref();
    let mut documents = Vec::new();
    while !sequence.is_empty() {
        let (hash, bytes): (Hash, ByteVec) = codec::decode_next(&mut sequence, "document", MAX_REQUEST)?;
        if bytes.len() > MAX_INLINE_PART {
            return Err(Problem::too_large("a document among many", MAX_INLINE_PART as u64));
        }
        documents.push((hash, Bytes::from(Vec::from(bytes))));
    }
    let taking = documents.into_iter().map(|(hash, document)| {
        let (state, scope) = (Arc::clone(&state), Arc::clone(&scope));
        async move {
            match take_document(&state, &scope, hash, document).await {
                Ok(()) => Ok(None),
                Err(Refused::Document(_)) => Ok(Some(hash)),
                Err(Refused::Server(problem)) => Err(problem),
            }
        }
    });
    let mut taken = futures::stream::iter(taking).buffer_unordered(DOCUMENTS_AT_ONCE);
    let mut refused = Vec::new();
    while let Some(result) = taken.next().await {
        refused.extend(result?);
    }
    Ok(binary(codec::encode(&refused)))
}

/// Which chunks does the workspace have? Asked for by the first 8 bytes of their hashes, one after the other; answered by a
/// bit for each, the lowest of a byte first.
pub(super) async fn chunks(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_CHUNKS * CHUNK_PREFIX).await?;
    let (prefixes, rest) = read.bytes.as_chunks::<CHUNK_PREFIX>();
    if !rest.is_empty() {
        return Err(Problem::malformed("the body is not a whole number of beginnings of hashes, 8 bytes each"));
    }
    let prefixes = prefixes.to_vec();
    let found = blocking(move || state.store.find_chunks(&scope, &prefixes)).await??;
    let byte = |eight: &[Option<Hash>]| {
        eight.iter().enumerate().fold(0u8, |byte, (bit, found)| byte | u8::from(found.is_some()) << bit)
    };
    let bits: Vec<u8> = found.chunks(8).map(byte).collect();
    Ok(binary(bits))
}

/// Documents of small contents, many at once: asked for as an array of `[hash, base]`. What is not here, too large, or of
/// which the document is no shorter is left out.
pub(super) async fn fetch(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_DOCUMENTS * 70 + 16).await?;
    let wanted: Vec<(Hash, Hash)> = decode(&read.bytes)?;
    if wanted.len() > MAX_DOCUMENTS {
        return Err(Problem::malformed(format!("more than {MAX_DOCUMENTS} documents; ask for fewer at once")));
    }
    let accepts_zstd = accepts_zstd(&headers);
    let response = blocking(move || {
        let (mut sequence, mut total) = (Vec::new(), 0);
        for (hash, base) in wanted {
            let opened = (state.store.open_blob(&scope, &hash)?, state.store.open_blob(&scope, &base)?);
            let (Some(content), Some(old)) = opened else { continue };
            let is_small = content.length().max(old.length()) <= MAX_INLINE_PART as u64;
            if !is_small || total + content.length() > FETCH_ALL {
                continue;
            }
            total += content.length();
            let document = small_document(&content, (base, &old)).map_err(|error| Problem::internal(&error))?;
            if (document.len() as u64) < content.length() {
                sequence.extend(codec::encode(&(hash, ByteVec::from(document))));
            }
        }
        Ok::<_, Problem>(compressed(sequence, accepts_zstd))
    });
    response.await?
}

/// What is asked of a document.
#[derive(Deserialize)]
pub(super) struct Wanted {
    /// A content that the client has.
    base: Option<String>,
    /// The first byte that it lacks.
    #[serde(default)]
    from: u64,
}

/// The compressed document of a content, from a byte on. It is made while it is sent, the same each time.
pub(super) async fn document(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, name)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Wanted { base, from } = query(&uri)?;
    let (content, base) = (hash(&name)?, base.as_deref().map(hash).transpose()?);
    let store = state.store.clone();
    let opened = blocking(move || {
        let blob = store.open_blob(&scope, &content)?;
        let base = base.map(|base| store.open_blob(&scope, &base).map(|found| found.map(|found| (base, found))));
        Ok::<_, Problem>((blob, base.transpose()?.flatten()))
    });
    let (blob, base) = opened.await??;
    let blob = blob.ok_or_else(|| Problem::not_found("blob", &name))?;
    // A base that is not here is left out, and so the tag is another.
    let base_name = base.as_ref().map_or("none".to_owned(), |(base, _)| base.short());
    let tag = format!("\"{}-{}-{base_name}\"", packed::encoder_name(), content.short());
    let wanted = headers.get(header::IF_MATCH).map(HeaderValue::as_bytes);
    if wanted.is_some_and(|wanted| wanted != tag.as_bytes()) {
        let detail = "the document would be another now; ask for it from its beginning";
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail));
    }
    let share = state.shares.own();
    let own = Arc::clone(&share.documents).acquire_owned().await.map_err(|error| Problem::internal(&error))?;
    let permit = Arc::clone(&state.uploads.made).acquire_owned().await.map_err(|error| Problem::internal(&error))?;
    let composed = Composed {
        content: Arc::new(blob) as Arc<dyn FileContent>,
        base: base.map(|(hash, base)| (hash, Arc::new(base) as Arc<dyn FileContent>)),
    };
    let body = written(&state, move |pieces| {
        let _permits = (own, permit, share);
        compose(&composed, from, pieces).map_err(|error| io::Error::new(error.kind(), error.to_string()))
    });
    let mut response = binary(body);
    let tag = HeaderValue::from_str(&tag).map_err(|error| Problem::internal(&error))?;
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}
