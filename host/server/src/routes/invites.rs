//! Invites: made and revoked by administrators of a workspace, used by whoever has the secret.

use crate::auth::Administrator;
use crate::body::{json, read_json};
use crate::listen::Peer;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, header};
use opship_record::token::is_token;
use opship_storage::{Invite, Role, StorageError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Longest time that an invite may be valid, in seconds: a year.
const LONGEST: u64 = 366 * 24 * 3600;
/// Most bytes of the body of somebody who has no token yet.
const MAX_JOIN: u64 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    name: String,
    role: String,
    /// For how long it is valid, in seconds.
    expires: u64,
}

/// Makes one; the secret is told this once.
pub(super) async fn create(
    State(state): State<Arc<Shared>>,
    Administrator(scope): Administrator,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let new: New = read_json(&state, &headers, body).await?;
    let role = Role::named(&new.role).ok_or_else(|| Problem::malformed("a role is 'read', 'write' or 'admin'"))?;
    if new.expires == 0 || new.expires > LONGEST {
        return Err(Problem::malformed(format!("'expires' is 1 to {LONGEST} seconds")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(new.expires * 1000);
    let insecure = state.insecure;
    let name = new.name.clone();
    let (id, secret) = blocking(move || state.store.create_invite(&scope, &name, role, expires)).await??;
    let made = json!({
        "id": id, "name": new.name, "role": role.name(), "expires": expires, "secret": secret, "encrypted": !insecure,
    });
    Ok(json(StatusCode::CREATED, made))
}

/// All of the workspace, newest first.
pub(super) async fn list(
    State(state): State<Arc<Shared>>,
    Administrator(scope): Administrator,
) -> Result<Response, Problem> {
    let invites = blocking(move || state.store.invites(&scope)).await??;
    Ok(json(StatusCode::OK, json!({ "invites": invites.iter().map(shown).collect::<Vec<_>>() })))
}

fn shown(invite: &Invite) -> Value {
    json!({
        "id": invite.id, "name": invite.name, "role": invite.role.name(), "invited_by": invite.invited_by,
        "created": invite.created, "expires": invite.expires, "used": invite.used, "state": invite.state.name(),
    })
}

/// Voids one, and the token that it gave.
pub(super) async fn revoke(
    State(state): State<Arc<Shared>>,
    Administrator(scope): Administrator,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let number = id.parse().map_err(|_| Problem::not_found("invite", &id))?;
    let token = blocking(move || state.store.revoke_invite(&scope, number)).await??;
    Ok(json(StatusCode::OK, json!({ "id": number, "token_revoked": token })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    workspace: String,
    secret: String,
    /// The token that the client has made for itself, so that the same request again gives the same answer.
    token: String,
}

/// Uses one.
pub(super) async fn join(
    State(state): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    if state.failed_invites.too_many(peer, Instant::now()) {
        let detail = "too many invites were tried in vain from your address; wait a minute, then try again";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-failures", detail));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if length.is_none_or(|length| length > MAX_JOIN) {
        return Err(Problem::malformed(format!("state a Content-Length of at most {MAX_JOIN} bytes")));
    }
    let join: Join = read_json(&state, &headers, body).await?;
    if !is_token(&join.token) {
        return Err(Problem::malformed("a token is 27 to 64 letters, digits, '-' and '_', from a random source"));
    }
    let (own, workspace) = (Arc::clone(&state), join.workspace.clone());
    let accepted = blocking(move || own.store.accept_invite(&join.workspace, &join.secret, &join.token)).await?;
    if matches!(accepted, Err(StorageError::Invite)) {
        state.failed_invites.count(peer, Instant::now());
        tracing::warn!(%peer, "an invite was tried that is not valid");
    }
    let invited = accepted?;
    tracing::info!(%peer, name = invited.name, role = invited.role.name(), "an invite was used");
    Ok(json(StatusCode::OK, json!({ "workspace": workspace, "name": invited.name, "role": invited.role.name() })))
}
