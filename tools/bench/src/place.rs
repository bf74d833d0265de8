//! Where a benchmark happens: a folder that goes at its end, and a real server.

use crate::error::{BenchError, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder of its own below cargo's target folder, so that it is on the disk that people work on.
#[derive(Debug)]
pub(crate) struct Place {
    folder: tempfile::TempDir,
    target: PathBuf,
}

/// A running `opship serve`; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its admin token.
    pub(crate) token: String,
}

impl Place {
    /// Makes the folder.
    pub(crate) fn new() -> Result<Place> {
        let program = std::env::current_exe().map_err(BenchError::io("find this program"))?;
        // <target>/<profile>/opship-bench
        let target = program.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned();
        let bench = target.join("bench");
        let made = fs::create_dir_all(&bench).and_then(|()| tempfile::tempdir_in(&bench));
        let folder = made.map_err(BenchError::io(format!("make a folder in '{}'", bench.display())))?;
        Ok(Place { folder, target })
    }

    /// A path in the place.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Where results are kept.
    pub(crate) fn results(&self) -> PathBuf {
        self.target.join("bench")
    }

    /// The program that users have.
    pub(crate) fn opship(&self) -> PathBuf {
        self.target.join("release/opship")
    }

    /// A standard operation's code built for this machine.
    pub(crate) fn native(&self, name: &str) -> PathBuf {
        self.target.join("guest-native/release").join(name)
    }

    /// A module of guest-ops.
    pub(crate) fn guest_file(&self, name: &str) -> PathBuf {
        self.target.join(format!("guests/{name}.wasm"))
    }

    /// A tool of the benchmark's own, as a module.
    pub(crate) fn own_tool(&self, name: &str) -> PathBuf {
        self.target.join(format!("bench-guests/{name}.wasm"))
    }

    /// The Python that has wasmtime.
    pub(crate) fn peer_python(&self) -> PathBuf {
        self.target.join("tools/reference/bin/python")
    }

    /// A peer's program.
    pub(crate) fn peer(&self, name: &str) -> PathBuf {
        self.target.join("peer/release").join(name)
    }

    /// A module's bytes.
    pub(crate) fn guest(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.guest_file(name);
        fs::read(&file).map_err(BenchError::io(format!("read '{}'; 'cargo xtask guests' makes it", file.display())))
    }

    /// `opship` in a directory, seeing nothing of the user's own; it finds the place's server by itself.
    pub(crate) fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(self.opship());
        for variable in ["OPSHIP_TOKEN", "OPSHIP_SERVER", "OPSHIP_DATA", "OPSHIP_LISTEN", "OPSHIP_LOG"] {
            command.env_remove(variable);
        }
        let home = self.path("home");
        // What is measured is the operation, also where its results would be sooner here.
        command.env("OPSHIP_SHIP", "operation");
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("state")).env("XDG_CACHE_HOME", home.join("cache"));
        command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
        command.current_dir(directory).stdin(Stdio::null());
        command
    }

    /// Starts a server on a free port of loopback.
    pub(crate) fn serve(&self) -> Result<Server> {
        self.serve_with("server", &[])
    }

    /// Starts one with its data in a folder of this name, and with further arguments.
    pub(crate) fn serve_with(&self, folder: &str, arguments: &[&str]) -> Result<Server> {
        let data = self.path(folder);
        let mut command = self.command(self.folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::io("start the server"))?;
        let mut first = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut first).map_err(BenchError::io("read from the server"))?;
        }
        let address = first.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            return Err(BenchError::Failed(format!("the server did not start: {first}")));
        };
        let token = fs::read_to_string(data.join("admin-token")).map_err(BenchError::io("read the server's token"))?;
        Ok(Server { child, address, token: token.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended by itself; then there is nothing to stop.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Runs a program, which must succeed.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let output = command.output().map_err(BenchError::io(format!("start '{}'", program.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let arguments = command.get_args().collect::<Vec<_>>().join(OsStr::new(" "));
    let said = format!("{}{}", stdout, stderr);
    Err(BenchError::Failed(format!(
        "'{} {}' ended with {}: {said}",
        program.display(),
        arguments.display(),
        output.status
    )))
}
