//! Versions, their trees and files, and what changed between them.

use super::blobs::{Content, respond};
use crate::auth::Reader;
use crate::body::{CBOR_SEQUENCE, json, query, written};
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
    let versions = blocking(move || state.store.versions(&scope, page.before, limit)).await??;
    let shown: Vec<_> = versions.iter().map(json::version).collect();
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
) -> Result<Response, Problem> {
    let since: Since = query(&uri)?;
    let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
    let (from, head) = blocking(move || {
        let from = find(&own, &own_scope, &since.from.to_string())?;
        Ok::<_, Problem>((from, own.store.head(&own_scope)?))
    })
    .await??;
    let body = written(Arc::clone(&state.writers), move |pieces| {
        pieces.write_all(&head.encode())?;
        let mut failed = None;
        let walked = state.store.diff(&scope, &from.root, &head.root, &mut |path, _, now| {
            pieces.write_all(&codec::encode(&(path, now))).map_err(|error| {
                failed = Some(error);
                StorageError::Closed
            })
        });
        match (failed, walked) {
            (Some(error), _) => Err(error),
            (None, walked) => walked.map_err(io::Error::other),
        }
    });
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, CBOR_SEQUENCE)], body).into_response())
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
    let view = state.store.tree(scope, &version.root)?;
    let view = view.ok_or_else(|| Problem::internal(&format!("version {} has no tree", version.number)))?;
    Ok((version, view))
}
