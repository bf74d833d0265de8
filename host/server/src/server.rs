//! Start and stop.

use crate::failures::Failures;
use crate::listen::serve;
use crate::memory::SharedMemory;
use crate::register::Registration;
use crate::routes;
use crate::shares::Shares;
use crate::state::{State, WRITERS};
use crate::transfers::Uploads;
use crate::workers::{LONG_PLACES, Workers};
use crate::{ServerConfig, ServerError};
use opship_engine::{Engine, EngineConfig, Target};
use opship_storage::{ModuleInfo, Store};
use opship_world::Budget;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long replays and entries have to end once connections are closed.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A server that listens.
pub struct Server {
    state: Arc<State>,
    listener: TcpListener,
    address: SocketAddr,
    connections: usize,
    registration: Option<Registration>,
}

impl Server {
    /// Opens the data directory and listens. Connections are accepted from here on and served by [`Server::run`].
    /// Modules are compiled when they are first needed.
    ///
    /// # Errors
    /// [`ServerError`]: the address is not loopback and [`ServerConfig::insecure`] is not set, it is in use, or the data
    /// directory cannot be used.
    pub async fn bind(config: ServerConfig) -> Result<Server, ServerError> {
        if !config.listen.ip().is_loopback() && !config.insecure {
            return Err(ServerError::NotLoopback { address: config.listen });
        }
        let listen = |source| ServerError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (data, connections, announce) = (config.data.clone(), config.connections, config.announce.clone());
        let opened = tokio::task::spawn_blocking(move || open(config)).await;
        let state = Arc::new(opened.map_err(|error| ServerError::Workers(std::io::Error::other(error)))??);
        let token = state.store.admin_token_file();
        let announced = announce.map(|folder| Registration::write(&folder, address, &token, &data));
        let registration = announced.transpose()?;
        Ok(Server { state, listener, address, connections, registration })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The file that holds the admin token.
    pub fn admin_token_file(&self) -> PathBuf {
        self.state.store.admin_token_file()
    }

    /// Serves until `shutdown`. Then no new connection is accepted, requests have a few seconds to finish, replays that
    /// have not ended by then are cancelled, and the store is closed; an entry is either committed whole or not at all.
    ///
    /// # Errors
    /// None yet: what happens to single connections and requests is answered and logged there.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Server { state, listener, connections, registration, .. } = self;
        let router = routes::router(Arc::clone(&state));
        serve(listener, router, &state, connections, shutdown).await;
        drop(registration);
        state.tasks.close();
        let stopping = Arc::clone(&state);
        let stopped = tokio::task::spawn_blocking(move || stopping.workers.stop(LAST_WAIT)).await;
        let idle = tokio::time::timeout(LAST_WAIT, state.tasks.wait()).await;
        if !stopped.unwrap_or(false) || idle.is_err() {
            tracing::warn!("some replays did not end in time; their entries were not committed");
        }
        Ok(())
    }
}

fn open(config: ServerConfig) -> Result<State, ServerError> {
    let store = Store::open(&config.data)?;
    let uploads = Uploads::open(&config.data, config.blob_bytes.saturating_mul(2));
    let uploads = uploads.map_err(|source| ServerError::Folder { path: config.data.join("uploads"), source })?;
    let engine = Engine::new(EngineConfig {
        cache: Some(config.data.join("compiled")),
        compiler: config.compiler,
        target: Target::Host,
        limits: config.module_limits,
        compiles_at_once: config.compiles,
        memory_bytes: config.memory_bytes,
    })?;
    let mut standard = BTreeMap::new();
    for (name, bytes) in &config.standard_modules {
        let hash = store.install_standard(name, bytes)?;
        standard.insert(hash, ModuleInfo { standard: true, ..ModuleInfo::new(name, hash, bytes.len() as u64) });
    }
    let spill = Arc::new(store.staging());
    let spilled_files = spilled_files(config.workers, config.budget.spilled_files);
    let run_bytes = config.memory_bytes.saturating_add(config.budget.world_bytes);
    Ok(State {
        store,
        engine,
        spill,
        workers: Workers::new(config.workers).map_err(ServerError::Workers)?,
        inflight: Arc::default(),
        modules: Default::default(),
        outcomes: Default::default(),
        standard,
        cancel: Arc::default(),
        tasks: Default::default(),
        shares: Shares::new(),
        writers: Arc::new(Semaphore::new(WRITERS)),
        uploads,
        replay: config.replay,
        module_limits: config.module_limits,
        writer_module_limits: config.writer_module_limits,
        memory: SharedMemory::new(config.replay_memory_bytes, run_bytes),
        budget: Budget { spilled_files, ..config.budget },
        deadline: config.deadline,
        blob_bytes: config.blob_bytes,
        answer_within: config.answer_within,
        // The others are for requests.
        streams: Arc::new(Semaphore::new((config.connections - config.connections / 4).max(1))),
        failed_invites: Failures::default(),
        insecure: !config.listen.ip().is_loopback(),
        stopping: CancellationToken::new(),
    })
}

/// Files that one replay may have on disk at a time, at most `wanted`: each takes a descriptor, of which all replays together
/// leave half to connections and the store.
fn spilled_files(workers: usize, wanted: u64) -> u64 {
    const FEWEST: u64 = 16;
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let replays = workers.max(1) * (1 + LONG_PLACES);
    (descriptors / 2 / replays as u64).max(FEWEST).min(wanted)
}
