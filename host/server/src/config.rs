//! Settings of a server: the operator's.

use opship_engine::{Compiler, ModuleLimits};
use opship_world::Budget;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a [`crate::Server`].
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The data directory: metadata, blobs, compiled modules, the admin token. Made with mode 0700.
    pub data: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where modules are compiled.
    pub compiler: Compiler,
    /// Are operations replayed? If not, all that ships does so by value.
    pub replay: bool,
    /// Replays at one time, not counting long ones, which run beside them at low priority.
    pub workers: usize,
    /// The server's own modules, by name without `std/`.
    pub standard_modules: Vec<(String, Vec<u8>)>,
    /// What a module may need that an administrator brings or has registered, or that is the server's own.
    pub module_limits: ModuleLimits,
    /// What any other module may need.
    pub writer_module_limits: ModuleLimits,
    /// Modules compiled at one time, at least 2; more wait.
    pub compiles: usize,
    /// Most bytes of one replay's memory.
    pub memory_bytes: u64,
    /// What a replay may produce.
    pub budget: Budget,
    /// Longest time that one replay may take.
    pub deadline: Duration,
    /// Most bytes of one uploaded blob.
    pub blob_bytes: u64,
    /// An entry that takes longer is answered with an address to ask at.
    pub answer_within: Duration,
    /// Folder in which a server on this machine says where its admin token is, as `<folder>/<ip>_<port>`, so that
    /// clients of the same user find it. `None`: nobody is told.
    pub announce: Option<PathBuf>,
    /// Connections at one time; more wait to be accepted.
    pub connections: usize,
    /// Listen beyond loopback although tokens and content then travel unencrypted.
    pub insecure: bool,
}

impl ServerConfig {
    /// Settings with their defaults: one worker a core, ten minutes a replay, blobs up to 64 GiB, announced in
    /// `opship/servers` of the user's state folder.
    pub fn new(data: impl Into<PathBuf>, listen: SocketAddr, compiler: Compiler) -> ServerConfig {
        ServerConfig {
            data: data.into(),
            listen,
            compiler,
            replay: true,
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            standard_modules: Vec::new(),
            module_limits: ModuleLimits::default(),
            writer_module_limits: ModuleLimits::narrow(),
            compiles: 2,
            memory_bytes: 4 << 30,
            budget: Budget::default(),
            deadline: Duration::from_secs(600),
            blob_bytes: 64 << 30,
            answer_within: Duration::from_secs(20),
            announce: state_dir().map(|dir| dir.join("opship").join("servers")),
            connections: 1024,
            insecure: false,
        }
    }
}

/// `$XDG_STATE_HOME`, or `~/.local/state` (XDG base directory specification 0.8).
fn state_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
}
