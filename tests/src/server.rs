//! A real server process.

use crate::Place;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running `opship serve`; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    data: PathBuf,
}

impl Server {
    /// Starts a server on a free port of loopback, with its data in `<place>/data`.
    pub fn start(place: &Place) -> Server {
        Server::start_with(place, "data", |command| command)
    }

    /// Starts a server with its data in `<place>/<data>`; `adjust` may add arguments and variables.
    pub fn start_with(place: &Place, data: &str, adjust: impl FnOnce(&mut Command) -> &mut Command) -> Server {
        let data = place.path(data);
        let mut command = place.command(&place.path(""));
        command.args(["serve", "--data"]).arg(&data).env("OPSHIP_LISTEN", "127.0.0.1:0");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = adjust(&mut command).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let Some(url) = first.strip_prefix("listening on ") else {
            let mut error = String::new();
            child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("the server did not start: {first}{error}");
        };
        let url = url.to_owned();
        // What it prints later must not fill the pipes.
        std::thread::spawn(move || lines.for_each(drop));
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| eprintln!("server: {line}"))
        });
        Server { child, url, data }
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    /// The folder of its data.
    pub fn data(&self) -> &PathBuf {
        &self.data
    }

    /// Its admin token.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.data.join("admin-token")).unwrap().trim().to_owned()
    }

    /// The most memory that it had so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        peak_of(self.child.id()).unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process took at most so far; `None`: it has ended.
pub(crate) fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}
