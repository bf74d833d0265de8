//! Where a path's state comes from.

use crate::auth::Reader;
use crate::body::json;
use crate::json;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use opship_record::TreePath;
use opship_record::node::Node;
use opship_record::version::Version;
use opship_storage::Scope;
use std::sync::Arc;

/// How many versions are looked through.
const FARTHEST: usize = 10_000;
/// How many are read at a time.
const PAGE: usize = 500;

/// The version that brought a path to what it is at the head, with the names of its author; `not-found` for a path that is
/// not there, and for one whose state is older than what is looked through or kept.
pub(super) async fn show(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, path)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let path = TreePath::new(path)?;
    let shown = blocking(move || {
        let found = origin(&state, &scope, &path)?.ok_or_else(|| Problem::not_found("origin of", path.as_str()))?;
        let keys: Vec<_> = found.author.zip(found.sequence).into_iter().collect();
        let author = state.store.authors(&scope, &keys)?.pop().flatten();
        Ok::<_, Problem>(json::authored(json::version(&found), author.as_ref()))
    });
    Ok(json(StatusCode::OK, shown.await??))
}

/// Walks back from the head while the path stays what it is.
fn origin(state: &Shared, scope: &Scope, path: &TreePath) -> Result<Option<Version>, Problem> {
    let at = |version: &Version| -> Result<Option<Option<Node>>, Problem> {
        let Some(tree) = state.store.tree(scope, &version.root)? else { return Ok(None) };
        Ok(Some(tree.lookup(path)?.map(|entry| entry.node)))
    };
    let mut candidate = state.store.head(scope)?;
    let Some(Some(wanted)) = at(&candidate)? else { return Ok(None) };
    for _ in 0..FARTHEST / PAGE {
        let older = state.store.versions(scope, Some(candidate.number), PAGE)?;
        if older.is_empty() {
            return Ok(None);
        }
        for version in older {
            match at(&version)? {
                // What is not kept any more cannot be compared.
                None => return Ok(None),
                Some(node) if node.as_ref() == Some(&wanted) => candidate = version,
                Some(_) => return Ok(Some(candidate)),
            }
        }
    }
    Ok(None)
}
