//! From a module's bytes to one that can run: from memory, else from disk, else compiled; each module once.

use crate::cache;
use crate::engine::Inner;
use crate::error::{DETAIL, printable};
use crate::places::{Place, Places};
use crate::refusals::Refusals;
use crate::run::RunState;
use crate::{Compiler, Engine, ModuleError, ModuleLimits, compile};
use opship_record::Hash;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::{Instance, InstancePre, Store};

/// Most modules kept in memory, and most bytes of their code.
const KEPT_MODULES: usize = 256;
const KEPT_BYTES: usize = 512 << 20;
/// A module of more bytes counts as slow to compile from the start.
const LARGE: usize = 8 << 20;

/// A compiled module, linked and ready to be instantiated. Cheap to clone.
#[derive(Clone)]
pub struct LoadedModule(Arc<Ready>);

struct Ready {
    hash: Hash,
    instance: InstancePre<RunState>,
    memory_pages: u64,
    code_bytes: usize,
}

impl LoadedModule {
    /// The hash of its bytes.
    pub fn hash(&self) -> Hash {
        self.0.hash
    }

    /// Bytes of its compiled form.
    pub fn compiled_bytes(&self) -> u64 {
        self.0.code_bytes as u64
    }

    /// Pages of memory that it starts with.
    pub(crate) fn memory_pages(&self) -> u64 {
        self.0.memory_pages
    }

    pub(crate) fn instance(&self, store: &mut Store<RunState>) -> wasmtime::Result<Instance> {
        self.0.instance.instantiate(store)
    }
}

impl std::fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LoadedModule").field(&self.0.hash).finish()
    }
}

/// Where a module came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadedFrom {
    /// It was in memory.
    Memory,
    /// Its compiled form was on disk.
    Disk,
    /// It was compiled.
    Compiled,
}

/// Modules in memory, those being loaded, those refused, and places for compiling.
pub(crate) struct Loading {
    kept: Mutex<Kept>,
    refusals: Refusals,
    places: Places,
}

#[derive(Default)]
struct Kept {
    /// Least recently used first.
    modules: Vec<LoadedModule>,
    loading: HashMap<Hash, Arc<Mutex<Slot>>>,
}

/// The result of a load under way, and the limits that it was under, for all that wait for it.
type Slot = Option<(ModuleLimits, Result<LoadedModule, ModuleError>)>;

impl Loading {
    pub(crate) fn new(compiles_at_once: usize) -> Loading {
        Loading { kept: Mutex::default(), refusals: Refusals::default(), places: Places::new(compiles_at_once) }
    }
}

impl Kept {
    fn find(&mut self, hash: &Hash) -> Option<LoadedModule> {
        let index = self.modules.iter().position(|module| module.hash() == *hash)?;
        let module = self.modules.remove(index);
        self.modules.push(module.clone());
        Some(module)
    }

    fn keep(&mut self, module: LoadedModule) {
        self.modules.push(module);
        let mut bytes: usize = self.modules.iter().map(|module| module.0.code_bytes).sum();
        while self.modules.len() > 1 && (self.modules.len() > KEPT_MODULES || bytes > KEPT_BYTES) {
            bytes -= self.modules.remove(0).0.code_bytes;
        }
    }
}

impl Engine {
    /// Makes the module `hash` ready to run, within the limits of the engine's settings. `bytes` gives its bytes and is
    /// called only if the module must be compiled. Loads of one module at the same time compile it once.
    ///
    /// # Errors
    /// [`ModuleError`] if the bytes cannot be had, are others, or may not run here.
    pub fn load(
        &self,
        hash: &Hash,
        bytes: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
        self.load_within(&self.inner().config.limits, hash, 0, bytes)
    }

    /// As [`Engine::load`] within limits of the caller's. They are for compiling: a module that is compiled already, in
    /// memory or on disk, loads whatever they are. A refusal is remembered for a while, for these limits and lower ones.
    /// Where `length` is over its limit the bytes are not asked for; 0 if it is not known.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_within(
        &self,
        limits: &ModuleLimits,
        hash: &Hash,
        length: u64,
        bytes: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
        let loading = &self.inner().loading;
        loop {
            let slot = {
                let mut kept = lock(&loading.kept);
                if let Some(module) = kept.find(hash) {
                    return Ok((module, LoadedFrom::Memory));
                }
                if let Some(error) = loading.refusals.get(hash, limits) {
                    return Err(error);
                }
                Arc::clone(kept.loading.entry(*hash).or_default())
            };
            let mut result = lock(&slot);
            match &*result {
                Some((_, Ok(module))) => return Ok((module.clone(), LoadedFrom::Memory)),
                Some((tried, Err(error))) if tried.covers(limits) => return Err(error.clone()),
                // Refused under lower limits than these.
                Some(_) => continue,
                None => {}
            }
            let loaded = self.inner().load(limits, hash, length, bytes);
            *result = Some((*limits, loaded.as_ref().map(|(module, _)| module.clone()).map_err(Clone::clone)));
            let mut kept = lock(&loading.kept);
            kept.loading.remove(hash);
            match &loaded {
                Ok((module, _)) => kept.keep(module.clone()),
                Err(error) => loading.refusals.put(hash, limits, error),
            }
            return loaded;
        }
    }

    /// Is the module `hash` compiled already, in memory or on disk? Only a guess: what is on disk may turn out damaged.
    pub fn is_compiled(&self, hash: &Hash) -> bool {
        let in_memory = lock(&self.inner().loading.kept).modules.iter().any(|module| module.hash() == *hash);
        in_memory || self.inner().disk.as_ref().is_some_and(|disk| disk.holds(hash))
    }

    /// Why the module `hash` was refused a while ago, if it would be under `limits` too.
    pub fn refusal(&self, limits: &ModuleLimits, hash: &Hash) -> Option<ModuleError> {
        self.inner().loading.refusals.get(hash, limits)
    }
}

impl Inner {
    fn load(
        &self,
        limits: &ModuleLimits,
        hash: &Hash,
        length: u64,
        bytes: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
        if let Some(module) = self.disk.as_ref().and_then(|disk| disk.get(hash, &self.wasm)) {
            return Ok((self.link(hash, module)?, LoadedFrom::Disk));
        }
        crate::inspect::check_length(length, limits)?;
        let bytes =
            bytes().map_err(|error| ModuleError::Host { detail: format!("its bytes cannot be read ({error})") })?;
        let actual = Hash::of(&bytes);
        if actual != *hash {
            return Err(ModuleError::HashMismatch { expected: *hash, actual });
        }
        crate::inspect::inspect(&bytes, limits)?;
        let artifact = self.compile(limits, &bytes)?;
        if let Some(disk) = &self.disk {
            disk.put(hash, &artifact);
        }
        let module = cache::deserialize_own(&self.wasm, &artifact).map_err(|error| failed(&error))?;
        Ok((self.link(hash, module)?, LoadedFrom::Compiled))
    }

    /// Compiles when there is room for one more, and again where slow ones are done if it turns out to be one.
    fn compile(&self, limits: &ModuleLimits, bytes: &[u8]) -> Result<Vec<u8>, ModuleError> {
        let mut place = self.loading.places.take(bytes.len() > LARGE);
        loop {
            match self.compile_at(&place, limits, bytes) {
                Some(result) => return result,
                None => {
                    drop(place);
                    place = self.loading.places.take(true);
                }
            }
        }
    }

    /// `None`: it is slow, and there are as many slow ones as may be.
    fn compile_at(
        &self,
        place: &Place<'_>,
        limits: &ModuleLimits,
        bytes: &[u8],
    ) -> Option<Result<Vec<u8>, ModuleError>> {
        match &self.config.compiler {
            Compiler::InProcess => Some(self.wasm.precompile_module(bytes).map_err(|error| failed(&error))),
            Compiler::Child { program, arguments } => {
                compile::in_child(program, arguments, self.config.target, limits, bytes, &|| place.turn_slow())
            }
        }
    }

    fn link(&self, hash: &Hash, module: wasmtime::Module) -> Result<LoadedModule, ModuleError> {
        let memory_pages = module.exports().find_map(|export| Some(export.ty().memory()?.minimum())).unwrap_or(0);
        let code = module.image_range();
        let code_bytes = (code.end as usize).saturating_sub(code.start as usize);
        let instance = self.linker.instantiate_pre(&module).map_err(|error| failed(&error))?;
        Ok(LoadedModule(Arc::new(Ready { hash: *hash, instance, memory_pages, code_bytes })))
    }
}

fn failed(error: &wasmtime::Error) -> ModuleError {
    ModuleError::CompileFailed { detail: printable(&format!("{error:#}"), DETAIL) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
