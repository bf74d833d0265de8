//! What is fuzzed: any bytes as a module. Shared with `fuzz/`.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use opship_engine::{Compiler, Engine, EngineConfig, ModuleError};
use std::sync::LazyLock;
use wasmparser::{Validator, WasmFeatures};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineConfig::new(Compiler::InProcess)).unwrap());

/// The proposals of engine profile 1.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::GC_TYPES);

/// Is this a module of the profile, whatever it imports and exports?
pub(crate) fn is_valid(data: &[u8]) -> bool {
    Validator::new_with_features(FEATURES).validate_all(data).is_ok()
}

/// The check of a module before it is compiled: it never panics, says of an accepted module what is so, and calls only
/// what is malformed malformed. Says whether the module was accepted.
pub(crate) fn module_check(data: &[u8]) -> bool {
    match ENGINE.inspect(data) {
        Ok(info) => {
            assert_eq!(info.bytes, data.len() as u64);
            assert!(info.imports.iter().all(|(module, _)| ["wasi_snapshot_preview1", "opship_1"].contains(&&**module)));
            true
        }
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            assert!(!(matches!(error, ModuleError::Malformed { .. }) && is_valid(data)), "{error}");
            false
        }
    }
}
