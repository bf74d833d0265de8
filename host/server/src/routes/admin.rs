//! For administrators of the server: collecting, checking, counting. Work that takes a while is answered with a line of JSON
//! for each bit of progress and a last one with the report or the problem.

use crate::auth::Asking;
use crate::body::{Pieces, json, read_json, written};
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use opship_storage::upkeep::{CheckOptions, CollectOptions, OnProgress, Progress};
use opship_storage::{Principal, StorageError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Progress is told no more often.
const TOLD_EVERY: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Collect {
    #[serde(default)]
    dry_run: bool,
}

/// Forgets what is beyond retention and removes what nothing names.
pub(super) async fn collect(
    State(state): State<Arc<Shared>>,
    Asking(principal): Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let Collect { dry_run } = read_json(&state, &headers, body).await?;
    let store = state.store.clone();
    work(&state, &principal.clone(), move |progress| {
        store.collect(&principal, &CollectOptions { dry_run, ..CollectOptions::default() }, progress)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    #[serde(default)]
    repair: bool,
}

/// Reads everything and tells what is damaged.
pub(super) async fn check(
    State(state): State<Arc<Shared>>,
    Asking(principal): Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let Check { repair } = read_json(&state, &headers, body).await?;
    let store = state.store.clone();
    work(&state, &principal.clone(), move |progress| store.check(&principal, &CheckOptions { repair }, progress))
}

/// What takes room.
pub(super) async fn usage(State(state): State<Arc<Shared>>, Asking(principal): Asking) -> Result<Response, Problem> {
    let usage = blocking(move || state.store.usage(&principal)).await??;
    Ok(json(StatusCode::OK, json!(usage)))
}

/// Answers with progress and report of `work`. It goes on to its end although the asker may have gone.
fn work<T: Serialize>(
    state: &Shared,
    principal: &Principal,
    work: impl FnOnce(&mut OnProgress<'_>) -> Result<T, StorageError> + Send + 'static,
) -> Result<Response, Problem> {
    if !principal.is_admin() {
        return Err(StorageError::AdminOnly.into());
    }
    let body = written(state, move |pieces| {
        let mut told = Told { pieces, last: None };
        let line = match work(&mut |progress| told.progress(progress)) {
            Ok(report) => json!({ "report": report }),
            Err(error) => json!({ "problem": Problem::from(error).as_json() }),
        };
        told.line(&line);
        Ok(())
    });
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok((StatusCode::OK, [kind], body).into_response())
}

struct Told<'a> {
    pieces: &'a mut Pieces,
    last: Option<(Instant, &'static str)>,
}

impl Told<'_> {
    fn progress(&mut self, progress: Progress) {
        let is_soon = |(at, step): (Instant, &str)| step == progress.step && at.elapsed() < TOLD_EVERY;
        if self.last.is_some_and(is_soon) {
            return;
        }
        self.last = Some((Instant::now(), progress.step));
        self.line(&json!({ "step": progress.step, "done": progress.done, "total": progress.total }));
    }

    /// Whoever has gone hears nothing.
    fn line(&mut self, line: &Value) {
        let _ = writeln!(self.pieces, "{line}").and_then(|()| self.pieces.flush());
    }
}
