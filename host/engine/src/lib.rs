//! wasmtime around the world: compiles, caches and runs a module in an [`opship_world::World`].
//!
//! Invariants: a module reaches nothing but its world; a host call never panics on what a module passes; compiling
//! untrusted bytes happens in a process of its own ([`Compiler::Child`]); the only unsafe code is the deserialising in
//! `cache.rs`, on bytes that this engine or its compiling process made, checked by a keyed MAC.
//!
//! # Profile 1
//!
//! What a module can observe of the engine. A change of any row raises [`opship_record::plan::PROFILE`].
//!
//! | setting | value |
//! | --- | --- |
//! | NaN bits | canonical (Cranelift's pass) |
//! | relaxed SIMD | its deterministic form; refused by an x86-64 processor without FMA |
//! | threads, shared memory | refused |
//! | SIMD, bulk memory, multi-value, reference types, sign extension, tail calls, exceptions, extended constants | on |
//! | GC types, typed function references, memory64, multi-memory, custom page sizes, wide arithmetic | refused |
//! | `memory.grow` | -1 beyond the record's `memory_pages` or the module's own maximum, and only then |
//! | `table.grow` | -1 beyond [`TABLE_ELEMENTS`] elements in all tables together or the table's own maximum |
//! | imports | the 46 functions of WASI preview 1, and `opship_1` |
//! | returning from `_start` | exit code 0 |
//!
//! Not observable, because a run that meets them is never recorded: traps, stack depth ([`MAX_WASM_STACK`]), the operator's
//! memory limit, time.
#![deny(unsafe_code)]

mod cache;
mod child;
mod compile;
mod config;
mod engine;
mod error;
pub mod failpoint;
mod inspect;
mod limiter;
mod link;
mod load;
mod places;
mod profile;
mod refusals;
mod run;
mod ticker;

pub use child::{compile_child_main, lock_down};
pub use config::{Compiler, EngineConfig, ModuleLimits, Target};
pub use engine::Engine;
pub use error::{EngineError, ModuleError, RunError};
pub use inspect::ModuleInfo;
pub use limiter::Room;
pub use load::{LoadedFrom, LoadedModule};
pub use profile::{MAX_WASM_STACK, RUN_STACK_BYTES, TABLE_ELEMENTS};
pub use run::{Finished, Progress, Run, Slow, Usage};
