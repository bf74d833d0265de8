//! The deterministic world: everything that a module can see while it runs.
//!
//! Same module and same world, same effects, byte for byte, on any machine. Invariants: nothing here knows wasmtime,
//! and nothing of the host (clock, random, file system, environment) is reachable from a world but what its sources
//! hold.
#![forbid(unsafe_code)]

mod abi;
mod body;
mod calls;
mod clock;
mod descriptors;
mod effects;
mod errno;
mod inode;
pub mod limits;
mod memory;
mod memory_tree;
mod observe;
mod outcome;
mod pieces;
mod resolve;
mod seeing;
mod source;
mod step;
mod store;
mod tree;
mod world;

pub use errno::{Errno, Fault, Trap};
pub use memory_tree::MemoryTree;
pub use outcome::{Outcome, Produced, ProducedBody, hash_content, read_fully_at};
pub use source::{FileContent, MemoryContent, SPILL_PIECE, SourceError, SourceNode, Spill, SpillFile, TreeSource};
pub use world::{Asked, Budget, Fixtures, Look, World, WorldConfig};
