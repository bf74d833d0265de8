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
    /// Most bytes of the memory that one replay's module has.
    pub memory_bytes: u64,
    /// Most bytes of memory that all replays have together, of which each has 64 MiB without asking. A replay for which there
    /// is none ends and starts again when there is.
    pub replay_memory_bytes: u64,
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
    /// Settings with their defaults: one worker a core, ten minutes a replay, half of the machine's memory for all replays,
    /// blobs up to 64 GiB, announced in `opship/servers` of the user's state folder.
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
            replay_memory_bytes: half_of_the_memory().unwrap_or(8 << 30),
            budget: Budget { produced_bytes: 16 << 30, ..Budget::default() },
            deadline: Duration::from_secs(600),
            blob_bytes: 64 << 30,
            answer_within: Duration::from_secs(20),
            announce: state_dir().map(|dir| dir.join("opship").join("servers")),
            connections: 1024,
            insecure: false,
        }
    }
}

/// Half of the machine's memory in bytes, as Linux tells it.
fn half_of_the_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 512)
}

/// `$XDG_STATE_HOME`, or `~/.local/state` (XDG base directory specification 0.8).
fn state_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
}
