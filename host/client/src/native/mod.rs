//! Native runs: a program of the user's own runs in the place of the module that stands for it.
//!
//! Before the program starts, what it may destroy is captured ([`Before`]). When it has ended ([`Ended`]), the module is run
//! on the tree as the log and the capture have it ([`source`]), and what the module did is compared with what the program
//! left in the folder. Where both agree the log gets an operation. Everything else goes by value with a reason that is kept,
//! and never becomes an error of the user's command.
//!
//! Invariants: nothing is exchanged, the files are in place; an operation is appended only if the log's own state of the
//! tree, run through the module, gives what is in the folder, so nothing depends on who wrote a file when; nothing here
//! starts a program.

mod api;
mod append;
mod capture;
mod compare;
mod config;
mod job;
mod notes;
mod pending;
mod record;
mod replay;
mod residual;
mod source;
mod words;

pub use api::{Record, serve_records};
pub use capture::Before;
pub(crate) use config::WORKSPACE_FILE;
pub use config::{Chosen, NativeProgram, Workspace};
pub use job::{Ended, Exit};
pub use notes::NativeNote;
pub use pending::Recording;
pub use record::{Recorded, Recorder};
pub use words::{NativeCommand, typed};
