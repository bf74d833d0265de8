//! Metadata and blobs of the server.
#![forbid(unsafe_code)]
#![allow(dead_code)]

mod access;
mod entry;
mod error;
mod module;
mod signatures;

pub use access::{Principal, Role, Scope, WorkspaceInfo};
pub use entry::{Commit, Committed, Ending, EntryDetail, EntryFilter, Event, Finish, StoredEntry};
pub use error::StorageError;
pub use module::{ModuleInfo, STANDARD_PREFIX};
pub use signatures::{BlobContent, SMALL_BLOB, Staging, Store, TreeView};
