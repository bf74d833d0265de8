//! The engine profile: every setting that a module can observe. See the table in the crate's documentation.

use std::num::NonZeroUsize;
use wasmtime::{Collector, Config, OptLevel, Strategy};

/// Most bytes of native stack that a module's calls may use. Overflowing it ends the run, so that no record depends on it.
pub const MAX_WASM_STACK: usize = 4 << 20;
/// Stack that a thread needs which calls [`crate::Engine::run`]: the module's and the host calls'. With less, a module that
/// recurses deeply can end the process.
pub const RUN_STACK_BYTES: usize = 8 << 20;
/// Most elements of all a module's tables together; `table.grow` beyond gives -1. Part of profile 1.
pub const TABLE_ELEMENTS: usize = 1 << 20;
/// Bytes of a page of memory.
pub(crate) const PAGE_BYTES: u64 = 64 << 10;

/// The settings of profile 1. The compiling process and the running one use the same.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_nan_canonicalization(true)
        .epoch_interruption(true)
        .consume_fuel(false)
        .max_wasm_stack(MAX_WASM_STACK)
        // Not used, but wasmtime wants it no smaller.
        .async_stack_size(MAX_WASM_STACK)
        .collector(Collector::DeferredReferenceCounting)
        .wasm_backtrace_max_frames(NonZeroUsize::new(64));
    config
        .wasm_simd(true)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true)
        .wasm_bulk_memory(true)
        .wasm_multi_value(true)
        .wasm_reference_types(true)
        .wasm_tail_call(true)
        .wasm_extended_const(true)
        .wasm_exceptions(true)
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false);
    config
}
