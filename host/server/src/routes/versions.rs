//! Versions, their trees and files, and what changed between them.

use super::blobs::{Content, respond};
use crate::auth::Reader;
use crate::body::{CBOR_SEQUENCE, COMPRESSION_LEVEL, accepts_zstd, cbor, json, query, written};
use crate::json;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use opship_record::node::{Kind, Node};
use opship_record::version::Version;
use opship_record::{TreePath, codec};
use opship_storage::{Scope, StorageError, TreeView};
use serde::Deserialize;
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Bytes of a feed of changes that are sent as they are.
const SHORT: usize = 512;

#[derive(Deserialize)]
struct Page {
    before: Option<u64>,
    limit: Option<usize>,
}

/// Newest first.
pub(super) async fn list(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
) -> Result<Response, Problem> {
    let page: Page = query(&uri)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let listed = blocking(move || {
        let versions = state.store.versions(&scope, page.before, limit)?;
        let (first, last) = (versions.last().map_or(0, |v| v.number), versions.first().map_or(0, |v| v.number));
        let forgotten = state.store.forgotten(&scope, first, last)?;
        Ok::<_, StorageError>((versions, forgotten))
    });
    let (versions, forgotten) = listed.await??;
    let shown = versions.iter().map(|version| {
        let mut shown = json::version(version);
        if forgotten.contains(&version.number) {
            shown["forgotten"] = json!(true);
        }
        shown
    });
    let shown: Vec<_> = shown.collect();
    Ok(json(StatusCode::OK, json!({ "versions": shown })))
}

/// One, by number or `head`.
pub(super) async fn show(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let version = blocking(move || find(&state, &scope, &version)).await??;
    Ok(json(StatusCode::OK, json::version(&version)))
}

/// The root directory.
pub(super) async fn root(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version)): Path<(String, String)>,
) -> Result<Response, Problem> {
    listing(state, scope, version, TreePath::root()).await
}

/// A directory.
pub(super) async fn directory(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version, path)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    listing(state, scope, version, TreePath::new(path)?).await
}

async fn listing(state: Arc<Shared>, scope: Arc<Scope>, version: String, path: TreePath) -> Result<Response, Problem> {
    let entries = blocking(move || {
        let (_, view) = tree(&state, &scope, &version)?;
        let is_directory = match view.lookup(&path)? {
            Some(entry) => entry.node.kind() == Kind::Directory,
            None => path.is_root(),
        };
        if !is_directory {
            return Err(Problem::not_found("directory", path.as_str()));
        }
        Ok(view.entries(&path)?)
    });
    let shown: Vec<_> = entries.await??.iter().map(json::tree_entry).collect();
    Ok(json(StatusCode::OK, serde_json::Value::Array(shown)))
}

#[derive(Deserialize)]
struct Of {
    version: Option<String>,
}

/// A file's bytes.
pub(super) async fn file(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, path)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let of: Of = query(&uri)?;
    let version = of.version.unwrap_or_else(|| "head".to_owned());
    let path = TreePath::new(path)?;
    let own = Arc::clone(&state);
    let content = blocking(move || {
        let (_, view) = tree(&own, &scope, &version)?;
        let missing = || Problem::not_found("file", path.as_str());
        let Some(Node::File { hash, .. }) = view.lookup(&path)?.map(|entry| entry.node) else { return Err(missing()) };
        let blob = own.store.open_blob(&scope, &hash)?.ok_or_else(missing)?;
        Ok(Content { hash, blob: Arc::new(blob) })
    });
    let mut response = respond(&state, content.await??, &headers, false);
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}

#[derive(Deserialize)]
struct Since {
    from: u64,
}

/// What differs between a version and the head, as a CBOR sequence: the head, then `[path, node or null]`.
pub(super) async fn changes(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let since: Since = query(&uri)?;
    let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
    let (from, head) = blocking(move || {
        // One that is forgotten is refused here, before anything is answered.
        let (from, _) = tree(&own, &own_scope, &since.from.to_string())?;
        Ok::<_, Problem>((from, own.store.head(&own_scope)?))
    })
    .await??;
    let feed = Feed { state, scope, from, head };
    let (feed, short) = blocking(move || {
        let mut short = Short(Vec::new());
        let written = feed.write(&mut short).is_ok();
        (feed, written.then_some(short.0))
    })
    .await?;
    if let Some(bytes) = short {
        return Ok(cbor(CBOR_SEQUENCE, bytes));
    }
    let kind = (header::CONTENT_TYPE, CBOR_SEQUENCE);
    let writers = Arc::clone(&feed.state.writers);
    if !accepts_zstd(&headers) {
        return Ok((StatusCode::OK, [kind], written(writers, move |pieces| feed.write(pieces))).into_response());
    }
    let body = written(writers, move |pieces| {
        let mut encoder = zstd::stream::write::Encoder::new(pieces, COMPRESSION_LEVEL)?;
        feed.write(&mut encoder)?;
        encoder.finish().map(drop)
    });
    let encoding = (header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    Ok((StatusCode::OK, [kind, encoding], body).into_response())
}

/// What a feed of changes is made from.
struct Feed {
    state: Arc<Shared>,
    scope: Arc<Scope>,
    from: Version,
    head: Version,
}

impl Feed {
    fn write(&self, sink: &mut impl Write) -> io::Result<()> {
        sink.write_all(&self.head.encode())?;
        let mut failed = None;
        let walked = self.state.store.diff(&self.scope, &self.from.root, &self.head.root, &mut |path, _, now| {
            sink.write_all(&codec::encode(&(path, now))).map_err(|error| {
                failed = Some(error);
                StorageError::Closed
            })
        });
        match failed {
            Some(error) => Err(error),
            None => walked.map_err(io::Error::other),
        }
    }
}

/// Takes what is too short to be worth streaming and compressing, and refuses more.
struct Short(Vec<u8>);

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SHORT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A version by number or `head`.
fn find(state: &Shared, scope: &Scope, version: &str) -> Result<Version, Problem> {
    if version == "head" {
        return Ok(state.store.head(scope)?);
    }
    let missing = || Problem::not_found("version", version);
    let number = version.parse().map_err(|_| missing())?;
    state.store.version(scope, number)?.ok_or_else(missing)
}

fn tree(state: &Shared, scope: &Scope, version: &str) -> Result<(Version, TreeView), Problem> {
    let version = find(state, scope, version)?;
    let view = state.store.version_tree(scope, &version)?;
    Ok((version, view))
}
