//! Trees of mounts, and single paths of the head.

use crate::auth::{Reader, Writer};
use crate::body::{binary, decode, hash, json, query, read, written};
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use minicbor::bytes::ByteVec;
use opship_record::limits::MAX_REQUEST;
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Node};
use opship_record::{TreePath, codec};
use opship_storage::StorageError;
use serde::Deserialize;
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;

/// Most paths that one question may name.
const MAX_PATHS: usize = 10_000;

/// Takes a tree's nodes, children before parents, the root last.
pub(super) async fn put(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_REQUEST).await?;
    let root = blocking(move || {
        let mut rest = &read.bytes[..];
        let mut nodes = Vec::new();
        while !rest.is_empty() {
            nodes.push(Vec::from(codec::decode_next::<ByteVec>(&mut rest, "tree node", MAX_REQUEST)?));
        }
        if nodes.is_empty() {
            return Err(Problem::malformed("the tree has no node; send at least the root's"));
        }
        Ok(state.store.put_tree(&scope, nodes)?)
    });
    Ok(json(StatusCode::CREATED, json!({"root": root.await??.to_string()})))
}

/// A tree's nodes as [`put`] takes them.
pub(super) async fn get(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, root)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let hash = hash(&root)?;
    let own = Arc::clone(&state);
    let view = blocking(move || own.store.tree(&scope, &hash)).await??;
    let view = view.ok_or_else(|| Problem::not_found("tree", &root))?;
    let body = written(&state, move |pieces| {
        let mut failed = None;
        let exported = view.export(&mut |_, node| {
            pieces.write_all(&codec::encode(&ByteVec::from(node))).map_err(|error| {
                failed = Some(error);
                StorageError::Closed
            })
        });
        failed.map_or_else(|| exported.map_err(io::Error::other), Err)
    });
    Ok(binary(body))
}

#[derive(Deserialize)]
struct At {
    version: Option<u64>,
}

/// What the head holds at these paths: for a CBOR array of paths a CBOR sequence of `[path, node or null]`.
pub(super) async fn nodes(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let At { version } = query(&uri)?;
    let read = read(&state, &headers, body, MAX_REQUEST).await?;
    let paths: Vec<TreePath> = decode(&read.bytes)?;
    if paths.len() > MAX_PATHS {
        return Err(Problem::malformed(format!("more than {MAX_PATHS} paths; ask for fewer at once")));
    }
    let sequence = blocking(move || {
        let version = match version {
            None => state.store.head(&scope)?,
            Some(number) => {
                let found = state.store.version(&scope, number)?;
                found.ok_or_else(|| Problem::not_found("version", &number.to_string()))?
            }
        };
        let view = state.store.version_tree(&scope, &version)?;
        let mut sequence = Vec::new();
        for path in paths {
            let node = match view.lookup(&path)? {
                Some(entry) => Some(entry.node),
                None => path.is_root().then_some(Node::Directory { mode: DEFAULT_DIRECTORY_MODE }),
            };
            sequence.extend(codec::encode(&(path, node)));
        }
        Ok::<_, Problem>(sequence)
    });
    Ok(binary(sequence.await??))
}
