//! From a module's bytes to one that can run: from memory, else from disk, else compiled; each module once.

use crate::cache;
use crate::engine::Inner;
use crate::error::{DETAIL, printable};
use crate::run::RunState;
use crate::{Compiler, Engine, ModuleError, compile};
use opship_record::Hash;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wasmtime::{Instance, InstancePre, Store};

/// Most modules kept in memory, and most bytes of their code.
const KEPT_MODULES: usize = 256;
const KEPT_BYTES: usize = 512 << 20;

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

/// Modules in memory, those being loaded, and how many are being compiled.
pub(crate) struct Loading {
    kept: Mutex<Kept>,
    compiles_free: Mutex<usize>,
    compile_ended: Condvar,
}

#[derive(Default)]
struct Kept {
    /// Least recently used first.
    modules: Vec<LoadedModule>,
    loading: HashMap<Hash, Arc<Mutex<Slot>>>,
}

/// The result of a load under way, for all that wait for it.
type Slot = Option<Result<LoadedModule, ModuleError>>;

impl Loading {
    pub(crate) fn new(compiles_at_once: usize) -> Loading {
        Loading {
            kept: Mutex::default(),
            compiles_free: Mutex::new(compiles_at_once.max(1)),
            compile_ended: Condvar::new(),
        }
    }

    /// Compiles when there is room for one more.
    fn compile<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut free = lock(&self.compiles_free);
        while *free == 0 {
            free = self.compile_ended.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        drop(free);
        let result = work();
        *lock(&self.compiles_free) += 1;
        self.compile_ended.notify_one();
        result
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
    /// Makes the module `hash` ready to run. `bytes` gives its bytes and is called only if the module must be compiled.
    /// Loads of one module at the same time compile it once.
    ///
    /// # Errors
    /// [`ModuleError`] if the bytes cannot be had, are others, or may not run here.
    pub fn load(
        &self,
        hash: &Hash,
        bytes: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
        let loading = &self.inner().loading;
        let slot = {
            let mut kept = lock(&loading.kept);
            if let Some(module) = kept.find(hash) {
                return Ok((module, LoadedFrom::Memory));
            }
            Arc::clone(kept.loading.entry(*hash).or_default())
        };
        let mut result = lock(&slot);
        if let Some(result) = &*result {
            return result.clone().map(|module| (module, LoadedFrom::Memory));
        }
        let loaded = self.inner().load(hash, bytes);
        *result = Some(loaded.as_ref().map(|(module, _)| module.clone()).map_err(Clone::clone));
        let mut kept = lock(&loading.kept);
        kept.loading.remove(hash);
        if let Ok((module, _)) = &loaded {
            kept.keep(module.clone());
        }
        loaded
    }
}

impl Inner {
    fn load(
        &self,
        hash: &Hash,
        bytes: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
        if let Some(module) = self.disk.as_ref().and_then(|disk| disk.get(hash, &self.wasm)) {
            return Ok((self.link(hash, module)?, LoadedFrom::Disk));
        }
        let bytes =
            bytes().map_err(|error| ModuleError::Host { detail: format!("its bytes cannot be read ({error})") })?;
        let actual = Hash::of(&bytes);
        if actual != *hash {
            return Err(ModuleError::HashMismatch { expected: *hash, actual });
        }
        crate::inspect::inspect(&bytes, &self.config.limits)?;
        let artifact = self.loading.compile(|| self.compile(&bytes))?;
        if let Some(disk) = &self.disk {
            disk.put(hash, &artifact);
        }
        let module = cache::deserialize_own(&self.wasm, &artifact).map_err(|error| failed(&error))?;
        Ok((self.link(hash, module)?, LoadedFrom::Compiled))
    }

    fn compile(&self, bytes: &[u8]) -> Result<Vec<u8>, ModuleError> {
        match &self.config.compiler {
            Compiler::InProcess => self.wasm.precompile_module(bytes).map_err(|error| failed(&error)),
            Compiler::Child { program, arguments } => {
                compile::in_child(program, arguments, self.config.target, &self.config.limits, bytes)
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
