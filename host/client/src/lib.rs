//! Working copies: folders whose changes are recorded as operations and values, and kept in sync with a server.
//!
//! Two halves. This one is local: it runs modules on the folder, records what they did, applies it so that nothing is
//! ever lost, and finds what changed by other means. [`net`] and [`sync`] ship the log and pull what others did.
//!
//! Invariants: no byte that somebody wrote is replaced before it is kept or known to the server; the index is the state
//! of the tree after all entries of the log; below the root nothing is reached through a link.
#![forbid(unsafe_code)]

mod adopt;
pub mod budget;
pub mod bundle;
mod capture;
mod check;
mod choice;
mod conflict;
mod cut;
mod db;
mod error;
pub mod examine;
mod exchange;
mod folder;
mod fs;
mod identity;
mod invite;
mod layout;
mod ledger;
mod left;
mod log;
mod mend;
pub mod modules;
mod mounts;
mod names;
pub mod native;
pub mod net;
mod outside;
mod own;
mod put;
mod refused;
mod release;
mod remote;
mod request;
mod resolve;
mod run;
mod scan;
mod shipping;
mod source;
mod stage;
mod staging;
mod steady;
mod steps;
pub mod sync;
mod transfer;
mod tree;
mod usage;
mod values;
pub mod watch;
mod working_copy;

pub use adopt::Unindexed;
pub use choice::{Cost, Prediction, Ship};
pub use conflict::date;
pub use error::ClientError;
pub use folder::FolderTree;
pub use invite::InviteLine;
pub use layout::{Config, ReplayOnPull, UserCache, find_root};
pub use log::{Deferred, EntryState, LogEntry, Origin, Traffic};
pub use mounts::{MountStore, MountTree};
pub use remote::{RemoteChange, Skipped};
pub use resolve::{Conflict, ConflictCopy};
pub use run::{RunReport, RunRequest, StdinRequest, StepRequest};
pub use scan::{Scan, Unsupported};
pub use sync::TreeDifference;
pub use tree::RuleTrouble;
pub use usage::Purpose;
pub use working_copy::WorkingCopy;
