//! Workspaces.

use crate::auth::{Asking, Reader};
use crate::body::{json, read_json};
use crate::json;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use opship_storage::{Setting, Settings, StorageError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those that the principal may see.
pub(super) async fn list(State(state): State<Arc<Shared>>, Asking(principal): Asking) -> Result<Response, Problem> {
    let workspaces = blocking(move || state.store.workspaces(&principal)).await??;
    let shown: Vec<_> = workspaces
        .iter()
        .map(|w| json!({"name": w.name, "head": w.head, "role": w.role.name(), "created": w.created}))
        .collect();
    Ok(json(StatusCode::OK, json!({ "workspaces": shown })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    name: String,
}

/// Makes one.
pub(super) async fn create(
    State(state): State<Arc<Shared>>,
    Asking(principal): Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let new: New = read_json(&state, &headers, body).await?;
    let made = blocking(move || {
        let scope = state.store.create_workspace(&principal, &new.name)?;
        state.store.head(&scope).map(|head| (new.name, head))
    });
    let (name, head) = made.await??;
    Ok(json(StatusCode::CREATED, json!({"name": name, "head": json::version(&head)})))
}

/// One with its head and settings.
pub(super) async fn show(State(state): State<Arc<Shared>>, Reader(scope): Reader) -> Result<Response, Problem> {
    let name = scope.workspace().to_owned();
    let shown = blocking(move || Ok::<_, StorageError>((state.store.head(&scope)?, state.store.settings(&scope)?)));
    let (head, settings) = shown.await??;
    let shown = json!({"name": name, "head": json::version(&head), "settings": shown_settings(&settings)});
    Ok(json(StatusCode::OK, shown))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    settings: BTreeMap<String, Value>,
}

/// Changes settings, all that are named or none.
pub(super) async fn change(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let change: Change = read_json(&state, &headers, body).await?;
    let set = change.settings.iter().map(|(name, value)| match value {
        Value::String(text) => Setting::parse(name, text),
        other => Setting::parse(name, &other.to_string()),
    });
    let set = set.collect::<Result<Vec<Setting>, _>>()?;
    let changed = blocking(move || {
        state.store.set_settings(&scope, &set)?;
        state.store.settings(&scope)
    });
    Ok(json(StatusCode::OK, json!({"settings": shown_settings(&changed.await??)})))
}

fn shown_settings(settings: &Settings) -> Value {
    settings.each().iter().map(|setting| (setting.name().to_owned(), json!(setting.to_string()))).collect()
}
