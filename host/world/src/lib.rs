//! The deterministic world: everything that a module can see while it runs.
//!
//! Same module and same world, same effects, byte for byte, on any machine. Invariants: nothing here knows wasmtime,
//! and nothing of the host (clock, random, file system, environment) is reachable from a world but what its sources
//! hold.
#![forbid(unsafe_code)]

mod abi;
mod errno;
mod outcome;
mod source;
mod world;

pub use errno::{Errno, Fault, Trap};
pub use outcome::{Outcome, Produced, ProducedBody, hash_content, read_fully_at};
pub use source::{FileContent, MemoryContent, SourceError, SourceNode, Spill, SpillFile, TreeSource};
pub use world::{Budget, World, WorldConfig};
