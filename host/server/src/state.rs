//! What all requests share.

use crate::failures::Failures;
use crate::inflight::Inflight;
use crate::memory::SharedMemory;
use crate::modules::Modules;
use crate::outcomes::Outcomes;
use crate::problem::Problem;
use crate::shares::Shares;
use crate::transfers::Uploads;
use crate::workers::Workers;
use opship_engine::{Engine, ModuleLimits};
use opship_storage::{ModuleInfo, Store};
use opship_world::{Budget, Spill};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of request bodies that the server holds in memory at one time; more wait.
pub(crate) const REQUEST_MEMORY: usize = 256 << 20;

/// Threads that write responses at one time; more wait.
pub(crate) const WRITERS: usize = 128;

/// The server's state.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) spill: Arc<dyn Spill>,
    pub(crate) workers: Workers,
    pub(crate) inflight: Arc<Inflight>,
    pub(crate) modules: Modules,
    pub(crate) outcomes: Outcomes,
    /// The server's own modules, by hash.
    pub(crate) standard: BTreeMap<opship_record::Hash, ModuleInfo>,
    /// Ends replays when the server stops.
    pub(crate) cancel: Arc<AtomicBool>,
    /// Entries being worked on.
    pub(crate) tasks: TaskTracker,
    /// What each principal may take of [`REQUEST_MEMORY`], of [`WRITERS`], and of the documents that are made.
    pub(crate) shares: Shares,
    /// Permits for threads that write responses.
    pub(crate) writers: Arc<Semaphore>,
    /// Uploads that are not complete.
    pub(crate) uploads: Uploads,
    pub(crate) replay: bool,
    pub(crate) module_limits: ModuleLimits,
    pub(crate) writer_module_limits: ModuleLimits,
    /// What replays share.
    pub(crate) memory: SharedMemory,
    pub(crate) budget: Budget,
    pub(crate) deadline: Duration,
    pub(crate) blob_bytes: u64,
    pub(crate) answer_within: Duration,
    /// Permits for those who follow events, each of whom keeps a connection.
    pub(crate) streams: Arc<Semaphore>,
    /// Invites that were tried in vain.
    pub(crate) failed_invites: Failures,
    /// Do tokens and contents travel unencrypted beyond this machine?
    pub(crate) insecure: bool,
    /// Cancelled when the server stops: ends what would go on for ever.
    pub(crate) stopping: CancellationToken,
}

/// Does work that may wait for a disk on a thread that is there for it.
///
/// # Errors
/// [`Problem`] if the work panicked.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))
}
