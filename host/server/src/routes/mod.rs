//! The HTTP surface (docs/wire-format.md, "HTTP"). One file for each family of addresses.

mod admin;
mod blobs;
mod clients;
mod entries;
mod events;
mod invites;
mod modules;
mod origins;
mod server;
mod transfers;
mod trees;
mod versions;
mod workspaces;

use crate::auth;
use crate::problem::Problem;
use crate::state::State;
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{delete, get, head, post, put};
use http::StatusCode;
use std::sync::Arc;

/// Every address that the server answers.
pub(crate) fn router(state: Arc<State>) -> Router {
    let guarded = Router::new()
        .route("/v1/server", get(server::about))
        .route("/v1/admin/gc", post(admin::collect))
        .route("/v1/admin/fsck", post(admin::check))
        .route("/v1/admin/du", get(admin::usage))
        .route("/v1/modules", get(server::standard_modules))
        .route("/v1/workspaces", get(workspaces::list).post(workspaces::create))
        .route("/v1/workspaces/{ws}", get(workspaces::show).patch(workspaces::change))
        .route("/v1/workspaces/{ws}/versions", get(versions::list))
        .route("/v1/workspaces/{ws}/versions/{version}", get(versions::show))
        .route("/v1/workspaces/{ws}/versions/{version}/tree", get(versions::root))
        .route("/v1/workspaces/{ws}/versions/{version}/tree/{*path}", get(versions::directory))
        .route("/v1/workspaces/{ws}/files/{*path}", get(versions::file))
        .route("/v1/workspaces/{ws}/changes", get(versions::changes))
        .route("/v1/workspaces/{ws}/operations", get(versions::operations))
        .route("/v1/workspaces/{ws}/entries", get(entries::list).post(entries::ship))
        .route("/v1/workspaces/{ws}/entries:state", post(entries::state))
        .route("/v1/workspaces/{ws}/entries:resolve", post(entries::resolve))
        .route("/v1/workspaces/{ws}/entries/{client}/{sequence}", get(entries::show))
        .route("/v1/workspaces/{ws}/blobs/{hash}", put(blobs::put).get(blobs::get))
        .route("/v1/workspaces/{ws}/blobs:missing", post(blobs::missing))
        .route("/v1/workspaces/{ws}/blobs:fetch", post(blobs::fetch))
        .route("/v1/workspaces/{ws}/blobs:put", post(blobs::put_many))
        .route("/v1/workspaces/{ws}/blobs/{hash}/document", get(transfers::document))
        .route("/v1/workspaces/{ws}/chunks:known", post(transfers::chunks))
        .route("/v1/workspaces/{ws}/documents", post(transfers::documents))
        .route("/v1/workspaces/{ws}/documents:fetch", post(transfers::fetch))
        .route(
            "/v1/workspaces/{ws}/uploads/{hash}/{document}",
            head(transfers::offset).post(transfers::create).patch(transfers::append).delete(transfers::remove),
        )
        .route(
            "/v1/workspaces/{ws}/uploads/{parcel}",
            head(transfers::offset).post(transfers::create).patch(transfers::append).delete(transfers::remove),
        )
        .route("/v1/workspaces/{ws}/trees", post(trees::put))
        .route("/v1/workspaces/{ws}/trees/{root}", get(trees::get))
        .route("/v1/workspaces/{ws}/nodes", post(trees::nodes))
        .route("/v1/workspaces/{ws}/modules", get(modules::list))
        .route("/v1/workspaces/{ws}/modules/{*name}", get(modules::show).put(modules::register).delete(modules::remove))
        .route("/v1/workspaces/{ws}/clients/{client}", put(clients::name))
        .route("/v1/workspaces/{ws}/origins/{*path}", get(origins::show))
        .route("/v1/workspaces/{ws}/events", get(events::stream))
        .route("/v1/workspaces/{ws}/invites", get(invites::list).post(invites::create))
        .route("/v1/workspaces/{ws}/invites/{id}", delete(invites::revoke))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&state), auth::require));
    Router::new()
        .route("/healthz", get(server::health))
        .route("/readyz", get(server::ready))
        // Whoever has an invite has no token yet.
        .route("/v1/join", post(invites::join).fallback(not_allowed))
        .merge(guarded)
        .with_state(state)
}

async fn unknown() -> impl IntoResponse {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "there is nothing at this address; check it")
}

async fn not_allowed() -> impl IntoResponse {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this address does not take this method")
}
