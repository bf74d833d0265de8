//! The machine that the figures are of.

use std::fs;

/// Cores, kernel, and what else the machine was doing when the benchmark began.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Linux's release.
    pub(crate) kernel: String,
    /// Runnable threads over the last minute.
    pub(crate) load: f64,
}

impl Machine {
    /// Looks at this machine now.
    pub(crate) fn now() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg").split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN);
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load,
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cores, Linux {}, load {:.1} at the start", self.cores, self.kernel, self.load)
    }
}
