//! Metadata and blobs of the server.
//!
//! Metadata (workspaces, versions, entries, modules, access) is in SQLite with one writer and group commit; small blobs
//! are in it, larger ones are chunks in pack files, durable before the transaction that names them. Invariants: every
//! call takes a [`Scope`] (or a [`Principal`]), so that what a principal may not see looks as if it did not exist; a
//! blob is visible in a workspace only after its bytes came through it or were made by a replay in it; SQL is in
//! `sqlite` and nowhere else.
//!
//! All calls block but [`Store::put_blob`] and those that end in `_async`.
#![forbid(unsafe_code)]

mod access;
mod blobs;
pub mod check;
mod data_dir;
mod entry;
mod error;
mod failpoint;
mod in_use;
mod module;
mod pack;
mod packs;
mod settings;
mod sqlite;
mod store;
mod tree;
pub mod upkeep;
mod visible;

pub use access::{Principal, Role, Scope, WorkspaceInfo};
pub use blobs::{BlobContent, SMALL_BLOB, Staging};
pub use entry::{Commit, Committed, Ending, EntryDetail, EntryFilter, Event, Finish, StoredEntry};
pub use error::StorageError;
pub use module::{ModuleInfo, STANDARD_PREFIX};
pub use settings::{Rebase, Setting, Settings};
pub use store::{OnDifference, Store};
pub use tree::TreeView;
