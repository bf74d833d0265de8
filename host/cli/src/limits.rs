//! Options that set limits: of a run here, and of what a server does for others.

use clap::Args;
use opship_client::RunRequest;
use opship_engine::{EngineConfig, ModuleLimits};
use opship_server::ServerConfig;
use opship_world::Budget;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Limits of `opship run` and `opship module check`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct RunLimits {
    /// Longest time that the module may run, in seconds [default: none; 600 when it is checked]
    #[arg(long, value_name = "SECONDS", env = "OPSHIP_TIME_LIMIT")]
    time_limit: Option<u64>,
    /// Most memory of the module, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4096, env = "OPSHIP_MEMORY_LIMIT")]
    memory_limit: u64,
    /// Most that it may write to files and streams, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 65_536, env = "OPSHIP_OUTPUT_LIMIT")]
    output_limit: u64,
    /// Most files, folders and links that it may look at or make
    #[arg(long, value_name = "N", default_value_t = 4_000_000, env = "OPSHIP_FILES_LIMIT")]
    files_limit: u64,
    /// Most memory for the files, names and listings that it makes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, env = "OPSHIP_FILES_MEMORY_LIMIT")]
    files_memory_limit: u64,
}

impl RunLimits {
    /// Sets what the run itself limits.
    pub(crate) fn apply(&self, request: &mut RunRequest) {
        (request.deadline, request.budget) = (self.time(), self.budget());
    }

    /// Sets what the engine limits.
    pub(crate) fn apply_to_engine(&self, config: &mut EngineConfig) {
        config.memory_bytes = self.memory_bytes();
    }

    /// The longest time, if there is a limit.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.time_limit.map(Duration::from_secs)
    }

    /// What the world limits.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            produced_bytes: self.output_limit.saturating_mul(MIB),
            inodes: self.files_limit,
            world_bytes: self.files_memory_limit.saturating_mul(MIB),
            ..Budget::default()
        }
    }

    /// Most bytes of a module's memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_limit.saturating_mul(MIB)
    }
}

/// Limits of `opship serve`. What is not given keeps the server's default.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits of replays and modules")]
pub(crate) struct ServeLimits {
    /// Longest time that a replay may take, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS", env = "OPSHIP_REPLAY_LIMIT")]
    replay_limit: Option<u64>,
    /// Most memory of one replay's module, in MiB [default: 4096]
    #[arg(long, value_name = "MIB", env = "OPSHIP_REPLAY_MEMORY")]
    replay_memory: Option<u64>,
    /// Most memory of all replays together, in MiB [default: half of the machine's]
    #[arg(long, value_name = "MIB", env = "OPSHIP_REPLAY_MEMORY_ALL")]
    replay_memory_all: Option<u64>,
    /// Most memory for the files, names and listings that one replay makes, in MiB [default: 2048]
    #[arg(long, value_name = "MIB", env = "OPSHIP_REPLAY_FILES_MEMORY")]
    replay_files_memory: Option<u64>,
    /// Most files, folders and links that one replay may look at or make [default: 4000000]
    #[arg(long, value_name = "N", env = "OPSHIP_REPLAY_FILES")]
    replay_files: Option<u64>,
    /// Most that one replay may write to files and streams, in MiB [default: 16384]
    #[arg(long, value_name = "MIB", env = "OPSHIP_REPLAY_OUTPUT")]
    replay_output: Option<u64>,
    /// Largest module, in MiB [default: 16]
    #[arg(long, value_name = "MIB", env = "OPSHIP_MODULE_LIMIT")]
    module_limit: Option<u64>,
    /// Largest module that an administrator brings, in MiB [default: 128]
    #[arg(long, value_name = "MIB", env = "OPSHIP_ADMIN_MODULE_LIMIT")]
    admin_module_limit: Option<u64>,
    /// Most processor time for compiling a module, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", env = "OPSHIP_COMPILE_LIMIT")]
    compile_limit: Option<u64>,
    /// Most processor time for compiling an administrator's module, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS", env = "OPSHIP_ADMIN_COMPILE_LIMIT")]
    admin_compile_limit: Option<u64>,
    /// Most memory for compiling a module, in MiB of addresses [default: 3072]
    #[arg(long, value_name = "MIB", env = "OPSHIP_COMPILE_MEMORY")]
    compile_memory: Option<u64>,
    /// Most memory for compiling an administrator's module, in MiB of addresses [default: 8192]
    #[arg(long, value_name = "MIB", env = "OPSHIP_ADMIN_COMPILE_MEMORY")]
    admin_compile_memory: Option<u64>,
    /// Modules compiled at once, at least 2 [default: 2]
    #[arg(long, value_name = "N", env = "OPSHIP_COMPILES")]
    compiles: Option<usize>,
}

impl ServeLimits {
    /// Sets what was given.
    pub(crate) fn apply(&self, config: &mut ServerConfig) {
        let bytes = |to: &mut u64, mib: Option<u64>| *to = mib.map_or(*to, |mib| mib.saturating_mul(MIB));
        config.deadline = self.replay_limit.map_or(config.deadline, Duration::from_secs);
        config.compiles = self.compiles.unwrap_or(config.compiles);
        bytes(&mut config.memory_bytes, self.replay_memory);
        bytes(&mut config.replay_memory_bytes, self.replay_memory_all);
        bytes(&mut config.budget.world_bytes, self.replay_files_memory);
        bytes(&mut config.budget.produced_bytes, self.replay_output);
        config.budget.inodes = self.replay_files.unwrap_or(config.budget.inodes);
        let module = |limits: &mut ModuleLimits, size, seconds: Option<u64>, memory| {
            bytes(&mut limits.module_bytes, size);
            bytes(&mut limits.compile_memory_bytes, memory);
            if let Some(seconds) = seconds {
                // A busy machine takes longer than the processor does.
                (limits.compile_cpu_seconds, limits.compile_wall_seconds) = (seconds, seconds.saturating_mul(10));
            }
        };
        let own = (self.module_limit, self.compile_limit, self.compile_memory);
        module(&mut config.writer_module_limits, own.0, own.1, own.2);
        let admin = (self.admin_module_limit, self.admin_compile_limit, self.admin_compile_memory);
        module(&mut config.module_limits, admin.0, admin.1, admin.2);
    }
}
