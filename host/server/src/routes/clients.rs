//! What people call their clients.

use super::entries::client_id;
use crate::auth::Writer;
use crate::body::{json, read_json};
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Gives a client a name, for the entries that this principal ships from it. Answers with the principal's own.
pub(super) async fn name(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    Path((_, client)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let client = client_id(&client).ok_or_else(|| Problem::malformed("a client is 32 hexadecimal digits"))?;
    let named: Named = read_json(&state, &headers, body).await?;
    let author = blocking(move || state.store.name_client(&scope, &client, &named.name)).await??;
    Ok(json(StatusCode::OK, json!({ "author_name": author })))
}
