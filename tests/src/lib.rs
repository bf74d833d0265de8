//! Help for end-to-end tests: a place of its own for each test, real servers and real `opship` processes in it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on stops here")]

pub mod conformance;
pub mod corpus;
mod cutter;
mod disk;
mod guests;
mod http;
mod impostor;
pub mod languages;
mod reference;
mod relay;
mod server;
pub mod soak;
mod tree;
mod watch;
mod world_run;

pub use cutter::Cutter;
pub use disk::{SharingDisk, SmallDisk};
pub use guests::{guest, python_module};
pub use http::claim;
pub use impostor::Lies;
pub use reference::run_in_reference;
pub use relay::{noise, point, requests, run_through};
pub use server::Server;
pub use tree::{assert_same_tree, snapshot};
pub use watch::{Watch, eventually, until};
pub use world_run::{Guest, Seen};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A place for one test: home folder, caches, data, working copies; all removed at the end.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Printed {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Place {
    /// A place of its own.
    pub fn new() -> Place {
        let binary = target_folder().join("debug/opship");
        assert!(binary.is_file(), "{} is missing: run the tests by 'cargo xtask test'", binary.display());
        Place { folder: tempfile::tempdir().unwrap(), binary }
    }

    /// A path in the place.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Makes a folder in the place.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Leaves all that is in the place where it is.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// A command that runs `opship` in `directory`, seeing nothing of the real user.
    pub fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(directory).stdin(Stdio::null());
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"OPSHIP_") {
                command.env_remove(variable);
            }
        }
        // What came of a choice would depend on how fast the machine is just now; tests of the choice say so.
        command.env("OPSHIP_SHIP", "operation");
        command.env("HOME", self.folder("home"));
        command.env("XDG_STATE_HOME", self.folder("home/state"));
        command.env("XDG_CACHE_HOME", self.folder("home/cache"));
        command.env("XDG_DATA_HOME", self.folder("home/data"));
        command.env("XDG_CONFIG_HOME", self.folder("home/config"));
        command
    }

    /// Runs `opship` in `directory` and gives what it printed.
    pub fn run(&self, directory: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Printed {
        self.command(directory).args(arguments).output().unwrap().into()
    }

    /// Runs `opship`, which must succeed, and gives its standard output.
    pub fn ok(&self, directory: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let printed = self.run(directory, &arguments);
        assert_eq!(printed.code, Some(0), "opship {arguments:?}: {printed}");
        String::from_utf8_lossy(&printed.stdout).into_owned()
    }

    /// Runs `opship --json`, which must succeed, and gives what it printed.
    pub fn json(&self, directory: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> serde_json::Value {
        let mut all = vec![OsStr::new("--json").to_owned()];
        all.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        let text = self.ok(directory, &all);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("opship {all:?} printed no JSON ({error}): {text}"))
    }

    /// A working copy of `workspace` in a folder of that name, made by `init`.
    pub fn init(&self, server: &Server, folder: &str, workspace: &str) -> PathBuf {
        let path = self.folder(folder);
        self.ok(&path, ["init", "--server", &server.url(), "--workspace", workspace]);
        path
    }

    /// Two working copies of one workspace, `here` and `there`, that hold these files.
    pub fn pair(&self, server: &Server, files: &[(&str, &str)]) -> (PathBuf, PathBuf) {
        let here = self.init(server, "here", "main");
        for (name, text) in files {
            std::fs::write(here.join(name), text).unwrap();
        }
        self.ok(&here, ["sync"]);
        (here, self.there(server))
    }

    /// Another working copy of the workspace `main`, `there`.
    pub fn there(&self, server: &Server) -> PathBuf {
        self.ok(&self.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
        self.path("there")
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl From<Output> for Printed {
    fn from(output: Output) -> Printed {
        Printed { stdout: output.stdout, stderr: output.stderr, code: output.status.code() }
    }
}

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr));
        write!(f, "exit code {:?}\nstdout: {out}\nstderr: {err}", self.code)
    }
}

/// The verdicts of all entries of a working copy, oldest first.
pub fn verdicts(place: &Place, directory: &Path) -> Vec<String> {
    let log = place.json(directory, ["log", "-n", "100000"]);
    let mut entries: Vec<_> = log["entries"].as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["sequence"].as_u64().unwrap());
    entries.iter().map(|entry| entry["verdict"].as_str().unwrap_or("pending").to_owned()).collect()
}

/// Cargo's target folder, which this program was built in.
pub fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // <target>/<profile>/<program>, and <target>/<profile>/deps/<test>
    let folder = program.parent().unwrap();
    let profile = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
    profile.parent().unwrap().to_owned()
}

/// The number of an entry of a working copy that is parked, if there is one.
pub fn first_parked(place: &Place, copy: &Path) -> Option<String> {
    let status = place.json(copy, ["status"]);
    let pending = status["pending"].as_array().unwrap();
    pending.iter().find(|entry| entry["parked"] == true).map(|entry| entry["number"].to_string())
}
