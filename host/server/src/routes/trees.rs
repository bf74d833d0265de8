//! Trees of mounts.

use crate::auth::Writer;
use crate::body::{json, read};
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use minicbor::bytes::ByteVec;
use opship_record::codec;
use opship_record::limits::MAX_REQUEST;
use serde_json::json;
use std::sync::Arc;

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
