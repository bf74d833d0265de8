//! The engine profile: every setting that a module can observe. See the table in the crate's documentation.

use crate::Target;
use std::num::NonZeroUsize;
use wasmtime::{Collector, Config, OptLevel, Strategy};

/// Most bytes of native stack that a module's calls may use. Overflowing it ends the run, so that no record depends on it.
pub const MAX_WASM_STACK: usize = 4 << 20;
/// Stack that a thread needs which calls [`crate::Engine::run`]: the module's and the host calls'. With less, a module that
/// recurses deeply can end the process.
pub const RUN_STACK_BYTES: usize = 8 << 20;
/// Most elements of all a module's tables together; `table.grow` beyond gives -1. Part of profile 1.
pub const TABLE_ELEMENTS: usize = 1 << 20;
/// The processor that this program is built for, in the compiler's words.
const BASELINE: &str = match (cfg!(target_arch = "aarch64"), cfg!(target_env = "musl")) {
    (false, false) => "x86_64-unknown-linux-gnu",
    (false, true) => "x86_64-unknown-linux-musl",
    (true, false) => "aarch64-unknown-linux-gnu",
    (true, true) => "aarch64-unknown-linux-musl",
};
/// The interpreter's machine: 64 bits, little end first, as every processor that opship is built for.
const INTERPRETER: &str = "pulley64";
/// Bytes of a page of memory.
pub(crate) const PAGE_BYTES: u64 = 64 << 10;

/// The settings of profile 1, the same whatever the target. The compiling process and the running one use the same.
///
/// # Errors
/// wasmtime's, for a target that this build of it does not know.
pub(crate) fn config(target: Target) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // Without a target, wasmtime asks the processor what it offers; a target that is named has its least only.
    match target {
        Target::Host => {}
        Target::Baseline => drop(config.target(BASELINE)?),
        Target::Interpreter => drop(config.target(INTERPRETER)?),
    }
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
        .wasm_relaxed_simd(fuses_in_hardware(target))
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
    Ok(config)
}

/// Does every relaxed vector instruction give its deterministic result there? On x86-64 without FMA, wasmtime 48 calls a
/// library function for a fused multiply and add, and the bits of a NaN from it are not canonical. A module that may do that
/// is refused there, which is better than other bytes.
fn fuses_in_hardware(target: Target) -> bool {
    match target {
        Target::Host => processor_fuses(),
        Target::Baseline => cfg!(not(target_arch = "x86_64")),
        Target::Interpreter => true,
    }
}

#[cfg(target_arch = "x86_64")]
fn processor_fuses() -> bool {
    std::is_x86_feature_detected!("avx") && std::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_fuses() -> bool {
    true
}
