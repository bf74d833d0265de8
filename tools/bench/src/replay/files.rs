//! Many bytes and many files: the same module in the world and under wasmtime's own WASI, on the same disk.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::{Times, timed};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs that a median is of.
const RUNS: usize = 3;
/// Bytes of the large file.
const LARGE: &str = "1073741824";
/// How many small files, and the bytes of each.
const SMALL: [&str; 2] = ["100000", "100"];
/// Names in the directory that is listed: the peer's time grows with their square.
const LISTED: &str = "10000";

/// What the module does, and a folder that it makes, which goes before each run.
struct Job {
    name: &'static str,
    arguments: &'static [&'static str],
    makes: Option<&'static str>,
    goal: Option<&'static str>,
}

const JOBS: [Job; 5] = [
    Job {
        name: "write 1 GiB",
        arguments: &["write", "large", LARGE],
        makes: None,
        goal: Some("writing 1 GiB, time in the world by wasmtime's own WASI"),
    },
    Job {
        name: "read 1 GiB",
        arguments: &["read", "large"],
        makes: None,
        goal: Some("reading 1 GiB, time in the world by wasmtime's own WASI"),
    },
    Job {
        name: "make 100,000 files",
        arguments: &["make", "small", SMALL[0], SMALL[1]],
        makes: Some("small"),
        goal: Some("making 100,000 files, time in the world by wasmtime's own WASI"),
    },
    Job {
        name: "read 100,000 files",
        arguments: &["sum", "small", SMALL[0]],
        makes: None,
        goal: Some("reading 100,000 files, time in the world by wasmtime's own WASI"),
    },
    Job { name: "list 10,000 names", arguments: &["list", "names"], makes: None, goal: None },
];

/// Where the module runs: a working copy, and a plain folder for the peer.
struct Bench<'a> {
    place: &'a Place,
    module: PathBuf,
    copy: PathBuf,
    plain: PathBuf,
}

/// Measures and adds the table.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let bench =
        Bench { place, module: place.guest_file("ioprobe"), copy: place.path("files"), plain: place.path("plain") };
    let url = format!("http://{}", server.address);
    fs::create_dir_all(&bench.copy)
        .and_then(|()| fs::create_dir_all(&bench.plain))
        .map_err(BenchError::io("make a folder"))?;
    bench.opship(&["init", "--server", &url, "--workspace", "files"])?;
    bench.world(&["make", "names", LISTED, "1"])?;
    bench.peer(&["make", "names", LISTED, "1"])?;
    let columns = ["", "world ms", "wasmtime ms", "world / wasmtime", "opship run ms"];
    let mut table = Table::new("Many bytes and many files: in the world and under wasmtime's own WASI", &columns);
    for job in &JOBS {
        let [world, whole, peer] = bench.job(job)?;
        table.row(job.name, [Cell::fine(world), Cell::fine(peer), Cell::fine(world / peer), Cell::fine(whole)]);
        if let Some(what) = job.goal {
            report.goal(Goal { what, figure: world / peer, goal: 1.0, more_is_better: false });
        }
    }
    table.note(format!("Medians of {RUNS}, by turns, each with the module loaded. world: the module's run over the working copy; what it"));
    table.note("writes is hashed, what it reads has its hash in the index. opship run: the whole command, with its results in place and durable.");
    table.note(
        "wasmtime: the newest one for Python, on a plain folder of the same disk; nothing is hashed or made durable.",
    );
    report.table(table);
    Ok(())
}

impl Bench<'_> {
    /// Median milliseconds: in the world, the whole command, the peer.
    fn job(&self, job: &Job) -> Result<[f64; 3]> {
        let (mut world, mut whole, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            if let Some(folder) = job.makes {
                self.clear(folder)?;
            }
            let mut run = Duration::ZERO;
            // What one of them has left to be written back must not meet the other.
            rustix::fs::sync();
            whole.push(timed(|| {
                run = self.world(job.arguments)?;
                Ok(())
            })?);
            world.push(run);
            rustix::fs::sync();
            peer.push(self.peer(job.arguments)?);
        }
        // What is read next is known to the server, as inputs mostly are.
        self.opship(&["sync"])?;
        Ok([world, whole, peer].map(|times| Times::new(times).median()))
    }

    fn clear(&self, folder: &str) -> Result<()> {
        for path in [self.copy.join(folder), self.plain.join(folder)] {
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(BenchError::io(format!("remove '{}'", path.display()))(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn opship(&self, arguments: &[&str]) -> Result<()> {
        succeed(self.place.command(&self.copy).args(arguments))
    }

    /// Runs the module as an operation, and gives the time of the run itself.
    fn world(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = self.place.command(&self.copy);
        command.args(["--json", "run"]).arg(&self.module).arg("--").args(arguments);
        let output = command.output().map_err(BenchError::io("start opship"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let report: Option<Value> = text.lines().find_map(|line| serde_json::from_str(line).ok());
        let micros = report.as_ref().and_then(|report| report["micros"].as_u64());
        match micros {
            Some(micros) if output.status.success() => Ok(Duration::from_micros(micros)),
            _ => Err(BenchError::Failed(format!("opship run {arguments:?}: {text}"))),
        }
    }

    fn peer(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::new(self.place.peer_python());
        let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer/host.py");
        command.arg("-I").arg(host).arg(&self.module).arg(&self.plain).args(arguments);
        let output = command.output().map_err(BenchError::io("start the peer's Python"))?;
        let nanos = String::from_utf8_lossy(&output.stdout).lines().last().and_then(|line| line.parse().ok());
        match nanos {
            Some(nanos) if output.status.success() => Ok(Duration::from_nanos(nanos)),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(BenchError::Failed(format!("the peer ended with {}: {said}", output.status)))
            }
        }
    }
}
