//! Where the demonstration happens: temporary folders, a real server, real commands, a relay that counts bytes.

use crate::context::Context;
use crate::error::{Error, Result};
use opship_tap::Tap;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Everything that must be gone at the end.
pub(super) struct Place {
    folder: tempfile::TempDir,
    binary: PathBuf,
    server: Child,
    tap: Tap,
    token: String,
    cache: PathBuf,
    /// Where compiled modules rest, and where the server has them.
    compiled: (PathBuf, PathBuf),
}

/// A measured command.
pub(super) struct Measured {
    /// What it printed, as JSON.
    pub(super) json: serde_json::Value,
    /// Bytes through the relay, both ways.
    pub(super) bytes: u64,
    /// How long it took.
    pub(super) time: Duration,
}

impl Place {
    /// Makes the folders and starts a server.
    pub(super) fn new(context: &Context) -> Result<Place> {
        // In the target folder, so that the cache can be moved in and out.
        let folder = tempfile::tempdir_in(&context.target).map_err(Error::io("make a folder in", &context.target))?;
        let binary = context.target.join("debug/opship");
        // Compiled modules stay from one demonstration to the next, as on a user's machine.
        let cache = context.target.join("demo-cache");
        let data = folder.path().join("server");
        fs::create_dir_all(&data).map_err(Error::io("make", &data))?;
        fs::create_dir_all(&cache).map_err(Error::io("make", &cache))?;
        let compiled = (cache.join("server"), data.join("compiled"));
        if compiled.0.exists() {
            fs::rename(&compiled.0, &compiled.1).map_err(Error::io("move", &compiled.0))?;
        }
        let mut command = clean(&binary, folder.path(), &cache);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).env("OPSHIP_LOG", "error");
        let mut server = command.stdout(Stdio::piped()).spawn().map_err(Error::io("start", &binary))?;
        let mut first = String::new();
        if let Some(stdout) = server.stdout.take() {
            BufReader::new(stdout).read_line(&mut first).map_err(Error::io("read from", &binary))?;
        }
        let address = first.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let Some(address) = address else { return Err(Error::Demo(format!("the server did not start: {first}"))) };
        let token_file = data.join("admin-token");
        let token = fs::read_to_string(&token_file).map_err(Error::io("read", &token_file))?.trim().to_owned();
        let tap = Tap::start(address).map_err(Error::io("start a relay for", &data))?;
        Ok(Place { folder, binary, server, tap, token, cache, compiled })
    }

    /// A path in the place.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// The server's address, through the relay.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.tap.address())
    }

    /// How long a command takes with an empty cache of compiled modules, and then again with that cache.
    pub(super) fn cold_and_warm(&self, directory: &Path, arguments: Vec<String>) -> Result<(Duration, Duration)> {
        let cache = self.path("cold-cache");
        let first = self.timed(directory, &arguments, &cache)?.time;
        Ok((first, self.timed(directory, &arguments, &cache)?.time))
    }

    /// Runs opship, which must succeed; the relay's count and the time go with what it printed.
    pub(super) fn opship(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Measured> {
        self.timed(directory, arguments, &self.cache)
    }

    fn timed(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        cache: &Path,
    ) -> Result<Measured> {
        let mut command = clean(&self.binary, self.folder.path(), cache);
        command.current_dir(directory).env("OPSHIP_TOKEN", &self.token).arg("--json").args(arguments);
        let (start, before) = (Instant::now(), self.tap.count());
        let output = command.output().map_err(Error::io("start", &self.binary))?;
        let (time, bytes) = (start.elapsed(), self.tap.count().total() - before.total());
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(Error::Demo(format!("{command:?} ended with {}: {error}", output.status)));
        }
        Ok(Measured { json: serde_json::from_slice(&output.stdout).unwrap_or_default(), bytes, time })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.server.id().cast_signed()) {
            // It may have ended by itself; then there is nothing to stop.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.server.wait();
        // Without the cache the next demonstration compiles again, which only takes longer.
        let _ = fs::rename(&self.compiled.1, &self.compiled.0);
    }
}

/// A command that sees nothing of the user's own opship.
fn clean(binary: &Path, folder: &Path, cache: &Path) -> Command {
    let mut command = Command::new(binary);
    for variable in ["OPSHIP_TOKEN", "OPSHIP_SERVER", "OPSHIP_DATA", "OPSHIP_LISTEN", "OPSHIP_LOG"] {
        command.env_remove(variable);
    }
    // The demo shows operations. On loopback results are sooner where a run takes long.
    command.env("OPSHIP_SHIP", "operation");
    command.env("HOME", folder).env("XDG_STATE_HOME", folder.join("state")).env("XDG_DATA_HOME", folder.join("share"));
    command.env("XDG_CACHE_HOME", cache).env("XDG_CONFIG_HOME", folder.join("config")).stdin(Stdio::null());
    command
}
