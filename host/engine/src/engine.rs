//! The engine: one a process and target.

use crate::cache::DiskCache;
use crate::inspect::{self, ModuleInfo};
use crate::load::Loading;
use crate::run::RunState;
use crate::ticker::{Ticker, Ticking};
use crate::{EngineConfig, EngineError, ModuleError, ModuleLimits, link, profile};
use std::io;
use std::sync::Arc;
use wasmtime::Linker;

/// Compiles, keeps and runs modules. One a process and target; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<RunState>,
    pub(crate) config: EngineConfig,
    pub(crate) disk: Option<DiskCache>,
    pub(crate) loading: Loading,
    ticker: Ticker,
}

impl Engine {
    /// Makes an engine.
    ///
    /// # Errors
    /// [`EngineError`] if this machine cannot run it or the cache cannot be made private.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        let host = |error: wasmtime::Error| EngineError::Host { detail: format!("{error:#}") };
        let wasm =
            profile::config(config.target).and_then(|settings| wasmtime::Engine::new(&settings)).map_err(host)?;
        let mut linker = Linker::new(&wasm);
        link::link(&mut linker).map_err(host)?;
        let disk = config.cache.as_deref().map(|folder| DiskCache::open(folder, &wasm)).transpose()?;
        let loading = Loading::new(config.compiles_at_once);
        Ok(Engine(Arc::new(Inner { wasm, linker, config, disk, loading, ticker: Ticker::default() })))
    }

    /// Reads what a module is and whether it may run here, without compiling it.
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with it.
    pub fn inspect(&self, bytes: &[u8]) -> Result<ModuleInfo, ModuleError> {
        self.inspect_within(&self.0.config.limits, bytes)
    }

    /// As [`Engine::inspect`] within limits of the caller's.
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with it.
    pub fn inspect_within(&self, limits: &ModuleLimits, bytes: &[u8]) -> Result<ModuleInfo, ModuleError> {
        inspect::inspect(bytes, limits)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    pub(crate) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0.config.memory_bytes
    }

    /// Lets runs look at their deadline while the result lives.
    pub(crate) fn tick(&self) -> io::Result<Ticking> {
        self.0.ticker.start(&self.0.wasm)
    }
}
