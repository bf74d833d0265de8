//! Who asks: every request under `/v1` has a principal, every one in a workspace a scope.

use crate::problem::Problem;
use crate::state::State;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use opship_storage::{Principal, Role, Scope};
use std::sync::Arc;

/// Lets a request through only with a valid token, and puts its principal beside it.
pub(crate) async fn require(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).and_then(bearer);
    let Some(token) = token else {
        let detail = "this needs 'Authorization: Bearer TOKEN'; log in, or use the admin token of the data directory";
        return Problem::new(StatusCode::UNAUTHORIZED, "no-token", detail).into_response();
    };
    match state.store.authenticate(token) {
        Ok(Some(principal)) => {
            let id = principal.id();
            request.extensions_mut().insert(Arc::new(principal));
            state.shares.within(id, next.run(request)).await
        }
        Ok(None) => {
            let detail = "the token is unknown or has expired; ask the server's administrator for a new one";
            Problem::new(StatusCode::UNAUTHORIZED, "bad-token", detail).into_response()
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

/// The token of an `Authorization` header (RFC 6750).
pub(crate) fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= 512).then_some(token)
}

/// The principal of a request.
pub(crate) struct Asking(pub(crate) Arc<Principal>);

impl FromRequestParts<Arc<State>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<State>) -> Result<Asking, Problem> {
        let principal = parts.extensions.get::<Arc<Principal>>().cloned();
        principal.map(Asking).ok_or_else(|| Problem::internal(&"a handler without authentication"))
    }
}

/// A principal who may read the workspace that the address names.
pub(crate) struct Reader(pub(crate) Arc<Scope>);

/// A principal who may change the workspace that the address names.
pub(crate) struct Writer(pub(crate) Arc<Scope>);

/// A principal who may give access to the workspace that the address names.
pub(crate) struct Administrator(pub(crate) Arc<Scope>);

impl FromRequestParts<Arc<State>> for Administrator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Administrator, Problem> {
        scope(parts, state, Role::Admin).await.map(Administrator)
    }
}

impl FromRequestParts<Arc<State>> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, Problem> {
        scope(parts, state, Role::Read).await.map(Reader)
    }
}

impl FromRequestParts<Arc<State>> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Writer, Problem> {
        scope(parts, state, Role::Write).await.map(Writer)
    }
}

async fn scope(parts: &mut Parts, state: &Arc<State>, needed: Role) -> Result<Arc<Scope>, Problem> {
    let Asking(principal) = Asking::from_request_parts(parts, state).await?;
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Problem::malformed("the address is not UTF-8; encode it"))?;
    let name = params.iter().find(|(key, _)| *key == "ws").map(|(_, value)| value);
    let name = name.ok_or_else(|| Problem::internal(&"a workspace handler without a workspace"))?;
    Ok(Arc::new(state.store.scope(&principal, name, needed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_are_taken() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for refused in ["abc", "Basic abc", "Bearer ", "Bearer", &format!("Bearer {}", "x".repeat(513))] {
            assert_eq!(bearer(refused), None, "{refused}");
        }
    }
}
