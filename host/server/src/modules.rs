//! Modules that are ready to run. Compiling one takes up no place of a replay, and happens once whoever waits for it.

use crate::contents::read_all;
use crate::decide::{Unfinished, refused};
use crate::lists::Halt;
use crate::state::{State, blocking};
use opship_engine::{LoadedModule, ModuleError};
use opship_record::Hash;
use opship_record::answer::{Need, Reason};
use opship_storage::Scope;
use opship_world::{FileContent, SourceError};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Modules kept ready, and refusals remembered. A module's machine code is shared with the engine's own cache.
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
    refused: HashMap<Hash, (Reason, String)>,
    uses: u64,
}

/// What is known of a module.
pub(crate) enum Known {
    Ready(LoadedModule),
    Refused(Reason, String),
    Unknown,
}

impl Modules {
    /// Looks a module up. The caller has checked that it is visible to whoever asks.
    pub(crate) fn get(&self, hash: &Hash) -> Known {
        let mut table = self.table();
        if let Some((reason, detail)) = table.refused.get(hash) {
            return Known::Refused(*reason, detail.clone());
        }
        table.uses += 1;
        let uses = table.uses;
        match table.ready.get_mut(hash) {
            Some((used, module)) => {
                *used = uses;
                Known::Ready(module.clone())
            }
            None => Known::Unknown,
        }
    }

    fn put(&self, hash: Hash, result: Result<LoadedModule, (Reason, String)>) {
        let mut table = self.table();
        table.uses += 1;
        let uses = table.uses;
        match result {
            Ok(module) => {
                table.ready.insert(hash, (uses, module));
                let oldest = table.ready.iter().min_by_key(|(_, (used, _))| *used).map(|(hash, _)| *hash);
                if table.ready.len() > MAX_READY
                    && let Some(oldest) = oldest
                {
                    table.ready.remove(&oldest);
                }
            }
            Err(refusal) => {
                if table.refused.len() >= MAX_READY {
                    table.refused.clear();
                }
                table.refused.insert(hash, refusal);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads a module, from the engine's cache or by compiling it, so that [`Modules::get`] knows it. `inline` are its bytes
/// if they came with the entry.
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
    if !matches!(state.modules.get(&hash), Known::Unknown) {
        return Ok(());
    }
    let (own, scope) = (Arc::clone(state), Arc::clone(scope));
    let result = blocking(move || load_now(&own, &scope, &hash, inline.as_deref())).await;
    state.modules.loading.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
    match result.map_err(|problem| Halt::Failed(problem.detail().to_owned()))?? {
        Ok(module) => state.modules.put(hash, Ok(module)),
        Err(error) => match refused(&error) {
            Unfinished::ByValue(reason) => state.modules.put(hash, Err((reason, error.to_string()))),
            Unfinished::Again => return Err(Halt::Failed(error.to_string())),
        },
    }
    Ok(())
}

fn load_now(
    state: &State,
    scope: &Scope,
    hash: &Hash,
    inline: Option<&[u8]>,
) -> Result<Result<LoadedModule, ModuleError>, Halt> {
    let content = match inline {
        Some(_) => None,
        None => match state.store.module_content(scope, hash)? {
            Some(content) => Some(content),
            None => return Err(Halt::Needs(vec![Need::Module { hash: *hash }])),
        },
    };
    let length = content.as_ref().map_or(0, FileContent::length);
    if length > state.module_limits.module_bytes {
        let limit = state.module_limits.module_bytes;
        return Ok(Err(ModuleError::TooLarge { what: "size in bytes", actual: length, limit }));
    }
    let mut bytes = || match (&content, inline) {
        (Some(content), _) => read_all(content).map_err(|error: SourceError| io::Error::other(error)),
        (None, inline) => Ok(inline.unwrap_or_default().to_vec()),
    };
    Ok(state.engine.load(hash, &mut bytes).map(|(module, _)| module))
}
