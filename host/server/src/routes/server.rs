//! What the server says of itself.

use crate::auth::Asking;
use crate::body::json;
use crate::json;
use crate::problem::Problem;
use crate::state::State as Shared;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use opship_record::FORMAT_VERSION;
use opship_record::limits::{MAX_INLINE_PART, MAX_REQUEST};
use opship_record::plan::PROFILE;
use serde_json::json;
use std::sync::Arc;

/// It runs.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// It takes requests.
pub(super) async fn ready(State(state): State<Arc<Shared>>) -> Response {
    if state.tasks.is_closed() {
        return Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping; try again in a moment",
        )
        .into_response();
    }
    "ready\n".into_response()
}

/// Versions, profiles, limits: those of whoever asks, where they differ.
pub(super) async fn about(State(state): State<Arc<Shared>>, Asking(principal): Asking) -> Response {
    let limits = if principal.is_admin() { state.module_limits } else { state.writer_module_limits };
    let about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "format": FORMAT_VERSION,
        "profiles": [PROFILE],
        "limits": {
            "request_bytes": MAX_REQUEST,
            "inline_part_bytes": MAX_INLINE_PART,
            "module_bytes": limits.module_bytes,
        },
        "replay": state.replay,
    });
    json(StatusCode::OK, about)
}

/// The server's own modules.
pub(super) async fn standard_modules(State(state): State<Arc<Shared>>, _: Asking) -> Response {
    let modules: Vec<_> = state.standard.values().map(json::module).collect();
    json(StatusCode::OK, json!({ "modules": modules }))
}
