//! Registered modules.

use crate::auth::{Reader, Writer};
use crate::body::{hash, json, read_json};
use crate::contents::read_all;
use crate::json;
use crate::modules::limits;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use opship_engine::ModuleError;
use opship_record::TreePath;
use opship_record::limits::MAX_MOUNTS;
use opship_record::plan::Mount;
use opship_storage::{ModuleInfo, Scope};
use opship_world::FileContent;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Those of the workspace and the server's own.
pub(super) async fn list(State(state): State<Arc<Shared>>, Reader(scope): Reader) -> Result<Response, Problem> {
    let modules = blocking(move || state.store.modules(&scope)).await??;
    let shown: Vec<_> = modules.iter().map(json::module).collect();
    Ok(json(StatusCode::OK, json!({ "modules": shown })))
}

/// One by name.
pub(super) async fn show(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let found = blocking(move || {
        let module = state.store.resolve_module(&scope, &name)?;
        module.ok_or_else(|| Problem::not_found("module", &name))
    });
    Ok(json(StatusCode::OK, json::module(&found.await??)))
}

/// What a client says of a module; whatever else it says (its own name and length) is known here.
#[derive(Deserialize)]
struct Manifest {
    hash: String,
    #[serde(default)]
    mounts: Vec<MountAt>,
    argv0: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MountAt {
    path: String,
    tree: String,
}

/// Registers one whose bytes and trees were uploaded.
pub(super) async fn register(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let manifest: Manifest = read_json(&state, &headers, body).await?;
    let module = blocking(move || {
        let module = checked(&state, &scope, name, &manifest)?;
        state.store.register_module(&scope, &module)?;
        Ok::<_, Problem>(module)
    });
    Ok(json(StatusCode::OK, json::module(&module.await??)))
}

fn checked(state: &Shared, scope: &Scope, name: String, manifest: &Manifest) -> Result<ModuleInfo, Problem> {
    let hash = hash(&manifest.hash)?;
    let Some(content) = state.store.module_content(scope, &hash)? else {
        return Err(Problem::not_found("blob", &manifest.hash));
    };
    let limits = limits(state, scope, &hash)?;
    let limit = limits.module_bytes;
    if content.length() > limit {
        return Err(refused(&ModuleError::TooLarge { what: "size in bytes", actual: content.length(), limit }));
    }
    let bytes = read_all(&content).map_err(|error| Problem::internal(&error))?;
    state.engine.inspect_within(&limits, &bytes).map_err(|error| refused(&error))?;
    if manifest.mounts.len() > MAX_MOUNTS {
        return Err(Problem::malformed(format!("more than {MAX_MOUNTS} mounts; put them in one tree")));
    }
    let mut mounts = manifest.mounts.iter().map(mount).collect::<Result<Vec<_>, _>>()?;
    mounts.sort_by(|a, b| a.path.cmp(&b.path));
    for mount in &mounts {
        if mount.path.is_root() {
            return Err(Problem::malformed("a mount cannot stand at the root; give it a folder"));
        }
        if !state.store.has_tree(scope, &mount.tree)? {
            return Err(Problem::not_found("tree", &mount.tree.to_string()));
        }
    }
    let length = content.length();
    Ok(ModuleInfo { mounts, argv0: manifest.argv0.clone(), ..ModuleInfo::new(name, hash, length) })
}

fn mount(at: &MountAt) -> Result<Mount, Problem> {
    Ok(Mount { path: TreePath::new(at.path.trim_start_matches('/'))?, tree: hash(&at.tree)? })
}

/// The module's fault, with what it wanted.
fn refused(error: &ModuleError) -> Problem {
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "module-refused", error.to_string());
    match error {
        ModuleError::Imports { wanted, .. } => {
            let wanted: Vec<String> =
                wanted.iter().take(100).map(|(module, name)| format!("{module}.{name}")).collect();
            problem.with("wanted", json!(wanted))
        }
        ModuleError::Host { .. } => Problem::internal(error),
        _ => problem,
    }
}

/// Forgets a name. Entries that used the module keep it.
pub(super) async fn remove(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    Path((_, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let own = name.clone();
    if blocking(move || state.store.remove_module(&scope, &own)).await?? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(Problem::not_found("module", &name))
}
