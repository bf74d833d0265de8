//! What the tests of this crate share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its own part")]

pub mod targets;

use opship_engine::{Compiler, Engine, EngineConfig, LoadedFrom, LoadedModule, ModuleError};
use opship_record::Hash;
use std::io;
use std::path::Path;

/// A module that does nothing.
pub const NOTHING: &str = r#"(module (func (export "_start")))"#;

/// An engine that compiles in this process.
pub fn engine() -> Engine {
    Engine::new(EngineConfig::new(Compiler::InProcess)).unwrap()
}

/// An engine that keeps compiled modules in `folder`.
pub fn engine_with_cache(folder: &Path) -> Engine {
    Engine::new(EngineConfig { cache: Some(folder.to_owned()), ..EngineConfig::new(Compiler::InProcess) }).unwrap()
}

/// The bytes of a module in text form.
pub fn bytes(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Loads a module in text form.
pub fn load(engine: &Engine, text: &str) -> Result<(LoadedModule, LoadedFrom), ModuleError> {
    let bytes = bytes(text);
    engine.load(&Hash::of(&bytes), &mut || Ok(bytes.clone()))
}

/// For loads that must not need the module's bytes.
pub fn no_bytes() -> io::Result<Vec<u8>> {
    Err(io::Error::other("the bytes were asked for"))
}
