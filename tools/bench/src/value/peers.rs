//! The tools to compare with: rsync against its daemon on loopback, through a relay; restic into a local repository.

use super::content::bytes_below;
use crate::error::{BenchError, Result};
use crate::place::succeed;
use opship_tap::Tap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the daemon may take to listen.
const STARTING: Duration = Duration::from_secs(10);

/// A daemon with one module, and the relay before it.
pub(crate) struct Rsync {
    daemon: Child,
    tap: Tap,
}

impl Rsync {
    /// Starts it with its files in `<base>/rsync`.
    pub(crate) fn start(base: &Path) -> Result<Rsync> {
        let folder = base.join("rsync");
        fs::create_dir_all(&folder).map_err(BenchError::io("make a folder"))?;
        // A port that is free now; the daemon cannot be given one that is open.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(BenchError::io("find a free port"))?;
        let config = base.join("rsyncd.conf");
        let user = if rustix::process::geteuid().is_root() { "uid = 0\ngid = 0\n" } else { "" };
        let text = format!("use chroot = no\n{user}[m]\npath = {}\nread only = no\n", folder.display());
        fs::write(&config, text).map_err(BenchError::io("write rsync's configuration"))?;
        let mut command = Command::new("rsync");
        command.args(["--daemon", "--no-detach", "--address=127.0.0.1"]).arg(format!("--port={}", address.port()));
        command.arg("--config").arg(&config).stdin(Stdio::null());
        let daemon = command.spawn().map_err(BenchError::io("start rsync; install it"))?;
        let tap = Tap::start_tracing(address).map_err(BenchError::io("start the relay"))?;
        let rsync = Rsync { daemon, tap };
        wait_for(address)?;
        Ok(rsync)
    }

    fn url(&self) -> String {
        format!("rsync://127.0.0.1:{}/m/", self.tap.address().port())
    }

    fn counted(&self, from: &str, to: &str) -> Result<u64> {
        let before = self.tap.count().total();
        succeed(Command::new("rsync").args(["-az", "--delete", "--exclude=/.opship", from, to]))?;
        Ok(self.tap.count().total() - before)
    }

    /// The relay before it.
    pub(crate) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Brings a folder to the daemon.
    pub(crate) fn push(&self, folder: &Path) -> Result<u64> {
        self.counted(&format!("{}/", folder.display()), &self.url())
    }

    /// Brings what the daemon has to a folder.
    pub(super) fn pull_to(&self, folder: &Path) -> Result<u64> {
        self.counted(&self.url(), &format!("{}/", folder.display()))
    }
}

impl Drop for Rsync {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn wait_for(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        if start.elapsed() > STARTING {
            return Err(BenchError::Failed("rsync's daemon does not listen".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A repository.
pub(super) struct Restic {
    repository: PathBuf,
    cache: PathBuf,
}

impl Restic {
    /// Makes one in `<base>/restic`.
    pub(super) fn new(base: &Path) -> Result<Restic> {
        let restic = Restic { repository: base.join("restic"), cache: base.join("restic-cache") };
        succeed(restic.command().arg("init"))?;
        Ok(restic)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("restic");
        command.env("RESTIC_PASSWORD", "bench").arg("--quiet").arg("--repo").arg(&self.repository);
        command.arg("--cache-dir").arg(&self.cache);
        command
    }

    /// Backs a folder up and gives the bytes that this adds.
    pub(super) fn back_up(&self, folder: &Path) -> Result<u64> {
        let before = bytes_below(&self.repository)?;
        succeed(self.command().arg("backup").args(["--exclude", ".opship"]).arg(folder))?;
        Ok(bytes_below(&self.repository)? - before)
    }
}

/// rsync's name and version.
pub(crate) fn rsync_version() -> Result<String> {
    version("rsync", "--version")
}

/// restic's name and version.
pub(super) fn restic_version() -> Result<String> {
    version("restic", "version")
}

fn version(program: &str, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output().map_err(BenchError::io(format!("start {program}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
