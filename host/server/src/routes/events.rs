//! What happens in a workspace, as it happens: server-sent events (HTML Living Standard, "Server-sent events").

use crate::auth::{Reader, bearer};
use crate::body::query;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use opship_storage::{Role, Scope};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Seconds between signs of life, unless asked for otherwise: under what keeps most address translators from forgetting
/// an idle connection.
const BEAT: u64 = 240;
/// Most seconds between them.
const MAX_BEAT: u64 = 3600;
/// How long one stream lasts. Asking again shows that the token is still good.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Shortest time between two events of a stream: a burst of versions is one event.
const PAUSE: Duration = Duration::from_millis(200);
/// A sign of life: a comment.
const ALIVE: &[u8] = b":\n";

#[derive(Deserialize)]
struct Asked {
    after: Option<u64>,
    beat: Option<u64>,
}

/// An event whenever the head moves, `id` and `data` its number, first of all if it is not `after`.
pub(super) async fn stream(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked: Asked = query(&uri)?;
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let token = text(header::AUTHORIZATION).and_then(bearer).unwrap_or_default().to_owned();
    let last = text(header::HeaderName::from_static("last-event-id")).and_then(|id| id.parse().ok());
    let place = Arc::clone(&state.streams).try_acquire_owned().map_err(|_| {
        let detail = "too many follow the server's events at once; ask for versions from time to time instead";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    })?;
    let follower = Follower {
        ended: state.store.watch(),
        state,
        token,
        scope,
        told: last.or(asked.after),
        beat: Duration::from_secs(asked.beat.unwrap_or(BEAT).clamp(1, MAX_BEAT)),
        end: Instant::now() + LIFETIME,
        look: true,
        _place: place,
    };
    let events = futures::stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok((StatusCode::OK, [kind], Body::from_stream(events)).into_response())
}

/// One stream.
struct Follower {
    state: Arc<Shared>,
    token: String,
    scope: Arc<Scope>,
    ended: tokio::sync::watch::Receiver<i64>,
    /// The head that was told last.
    told: Option<u64>,
    beat: Duration,
    end: Instant,
    /// May the head have moved since it was looked at?
    look: bool,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// The next event or sign of life; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let alive = Instant::now() + self.beat;
        loop {
            if self.look {
                self.look = false;
                self.ended.borrow_and_update();
                let head = self.head().await?;
                if self.told != Some(head) {
                    self.told = Some(head);
                    return Some(Bytes::from(format!("id: {head}\ndata: {head}\n\n")));
                }
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => return None,
                () = tokio::time::sleep_until(self.end) => return None,
                () = tokio::time::sleep_until(alive) => {
                    // Somebody whose access was taken away is told no more, not even that all is quiet.
                    self.head().await?;
                    return Some(Bytes::from_static(ALIVE));
                }
                changed = self.ended.changed() => {
                    changed.ok()?;
                    self.look = true;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// The number of the head, while the token gives access to it.
    async fn head(&self) -> Option<u64> {
        let (state, token, scope) = (Arc::clone(&self.state), self.token.clone(), Arc::clone(&self.scope));
        let head = blocking(move || {
            let principal = state.store.authenticate(&token).ok()??;
            let scope = state.store.scope(&principal, scope.workspace(), Role::Read).ok()?;
            Some(state.store.head(&scope).ok()?.number)
        });
        head.await.ok()?
    }
}
