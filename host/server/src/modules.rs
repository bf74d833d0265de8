//! Modules that are ready to run. Compiling one takes up no place of a replay, and happens once whoever waits for it.

use crate::contents::read_all;
use crate::decide::{Unfinished, refused};
use crate::lists::Halt;
use crate::state::{State, blocking};
use opship_engine::{LoadedModule, ModuleError, ModuleLimits};
use opship_record::Hash;
use opship_record::answer::Need;
use opship_storage::{Role, Scope, StorageError};
use opship_world::{FileContent, SourceError};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Modules kept ready. A module's machine code is shared with the engine's own cache.
const MAX_READY: usize = 128;

/// The modules that are ready.
#[derive(Default)]
pub(crate) struct Modules {
    table: Mutex<Table>,
    loading: Mutex<HashMap<Hash, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Table {
    ready: HashMap<Hash, (u64, LoadedModule)>,
    uses: u64,
}

/// What is known of a module.
pub(crate) enum Known {
    Ready(LoadedModule),
    Refused(ModuleError),
    Unknown,
}

impl Modules {
    /// A module that is ready. The caller has checked that it is visible to whoever asks.
    fn ready(&self, hash: &Hash) -> Option<LoadedModule> {
        let mut table = self.table();
        table.uses += 1;
        let uses = table.uses;
        let (used, module) = table.ready.get_mut(hash)?;
        *used = uses;
        Some(module.clone())
    }

    fn keep(&self, hash: Hash, module: LoadedModule) {
        let mut table = self.table();
        table.uses += 1;
        let uses = table.uses;
        table.ready.insert(hash, (uses, module));
        let oldest = table.ready.iter().min_by_key(|(_, (used, _))| *used).map(|(hash, _)| *hash);
        if table.ready.len() > MAX_READY
            && let Some(oldest) = oldest
        {
            table.ready.remove(&oldest);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a module that is used in a scope may need: an administrator, and what he has registered, is trusted with more.
///
/// # Errors
/// [`StorageError`] if the database fails.
pub(crate) fn limits(state: &State, scope: &Scope, hash: &Hash) -> Result<ModuleLimits, StorageError> {
    let trusted = scope.role() >= Role::Admin || state.store.is_vouched_for(scope, hash)?;
    Ok(if trusted { state.module_limits } else { state.writer_module_limits })
}

/// Looks a module up. The caller has checked that it is visible in the scope.
///
/// # Errors
/// [`StorageError`] if the database fails.
pub(crate) fn known(state: &State, scope: &Scope, hash: &Hash) -> Result<Known, StorageError> {
    if let Some(module) = state.modules.ready(hash) {
        return Ok(Known::Ready(module));
    }
    let refusal = state.engine.refusal(&limits(state, scope, hash)?, hash);
    Ok(refusal.map_or(Known::Unknown, Known::Refused))
}

/// Loads a module, from the engine's cache or by compiling it, so that [`known`] knows it. `inline` are its bytes if they
/// came with the entry.
///
/// # Errors
/// [`Halt`] if it is not here or the server failed. A refusal is no error: it is remembered.
pub(crate) async fn load(
    state: &Arc<State>,
    scope: &Arc<Scope>,
    hash: Hash,
    inline: Option<Arc<[u8]>>,
) -> Result<(), Halt> {
    let turn = {
        let mut loading = state.modules.loading.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(loading.entry(hash).or_default())
    };
    let _turn = turn.lock().await;
    let (own, scope) = (Arc::clone(state), Arc::clone(scope));
    let result = blocking(move || load_now(&own, &scope, &hash, inline.as_deref())).await;
    state.modules.loading.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
    match result.map_err(|problem| Halt::Failed(problem.detail().to_owned()))?? {
        Ok(module) => state.modules.keep(hash, module),
        Err(error) if refused(&error) == Unfinished::Again => return Err(Halt::Failed(error.to_string())),
        Err(_) => {}
    }
    Ok(())
}

fn load_now(
    state: &State,
    scope: &Scope,
    hash: &Hash,
    inline: Option<&[u8]>,
) -> Result<Result<LoadedModule, ModuleError>, Halt> {
    match known(state, scope, hash)? {
        Known::Ready(module) => return Ok(Ok(module)),
        Known::Refused(error) => return Ok(Err(error)),
        Known::Unknown => {}
    }
    let content = match inline {
        Some(_) => None,
        None => match state.store.module_content(scope, hash)? {
            Some(content) => Some(content),
            None => return Err(Halt::Needs(vec![Need::Module { hash: *hash }])),
        },
    };
    let limits = limits(state, scope, hash)?;
    let length = content.as_ref().map_or(0, FileContent::length);
    let mut bytes = || match (&content, inline) {
        (Some(content), _) => read_all(content).map_err(|error: SourceError| io::Error::other(error)),
        (None, inline) => Ok(inline.unwrap_or_default().to_vec()),
    };
    Ok(state.engine.load_within(&limits, hash, length, &mut bytes).map(|(module, _)| module))
}
