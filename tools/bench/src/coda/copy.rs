//! A working copy with a server of its own, all traffic through a relay that keeps what happens.

use super::cases::{Case, Source};
use super::inputs::Files;
use super::trace::Trace;
use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::value::content;
use opship_tap::{Link, Tap};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The working copy; below it a folder for each measurement, in which the commands run.
pub(super) struct Copy<'a> {
    place: &'a Place,
    server: Server,
    tap: Tap,
    folder: PathBuf,
    /// What making the workspace and the working copy took.
    pub(super) set_up: Trace,
    /// Bytes that adding the modules took, which takes them to the server.
    pub(super) module_bytes: u64,
}

/// How a sync is told to ship.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ship {
    Operation,
    Value,
}

/// What would be chosen at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Operation,
    Value,
    /// Of several operations some this way and some that.
    Mixed,
}

impl Ship {
    fn name(self) -> &'static str {
        match self {
            Ship::Operation => "operation",
            Ship::Value => "value",
        }
    }

    /// Did an operation end as it must, of what this ships?
    fn is_of(self, entry: &Value) -> bool {
        match self {
            Ship::Operation => entry["verdict"] == "matched",
            Ship::Value => entry["verdict"] == "shipped" && entry["reason"] == "cheaper-by-value",
        }
    }
}

impl Copy<'_> {
    /// Starts a server and makes the working copy, with the modules of the case.
    pub(super) fn start<'a>(place: &'a Place, case: &Case, name: &str) -> Result<Copy<'a>> {
        let base = format!("{}/{name}", case.name);
        let folder = place.path(&base).join("copy");
        std::fs::create_dir_all(&folder).map_err(BenchError::io("make a folder"))?;
        let server = place.serve_with(&format!("{base}/server"), &[])?;
        let tap = Tap::start_tracing(server.address).map_err(BenchError::io("start the relay"))?;
        let set_up = Trace::new(&[], Duration::ZERO);
        let mut copy = Copy { place, server, tap, folder, set_up, module_bytes: 0 };
        let url = format!("http://{}", copy.tap.address());
        let start = Instant::now();
        let top = copy.folder.clone();
        succeed(copy.command(&top).args(["init", "--server", &url, "--workspace", "bench"]))?;
        copy.set_up = Trace::new(&copy.tap.take_events(), start.elapsed());
        if case.source != Source::Standard {
            for (module, file) in case.modules.iter().zip(modules_of(place, case)?) {
                succeed(copy.command(&top).args(["module", "add", "--name", module]).arg(file))?;
            }
        }
        copy.module_bytes = Trace::new(&copy.tap.take_events(), Duration::ZERO).bytes();
        Ok(copy)
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = self.place.command(directory);
        command.env("OPSHIP_TOKEN", &self.server.token);
        command
    }

    /// The working copy's own folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes inputs into a folder below, a day old.
    pub(super) fn lay(&self, below: &str, files: &Files) -> Result<()> {
        let folder = self.folder.join(below);
        for (name, bytes) in files {
            content::write(&folder.join(name), bytes)?;
        }
        content::age(&folder)
    }

    /// Runs the case's commands in that folder.
    pub(super) fn run(&self, case: &Case, below: &str) -> Result<()> {
        let folder = self.folder.join(below);
        case.runs.iter().try_for_each(|arguments| succeed(self.command(&folder).arg("run").args(*arguments)))
    }

    /// Ships what waits, of which so many are operations, and checks how those ended.
    pub(super) fn sync(&self, ship: Ship, operations: usize) -> Result<Trace> {
        self.tap.take_events();
        let start = Instant::now();
        let printed = self.json(&["--json", "sync", "--ship", ship.name()])?;
        let trace = Trace::new(&self.tap.take_events(), start.elapsed());
        let entries = printed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ended = entries.iter().filter(|entry| ship.is_of(entry)).count();
        if ended == operations {
            return Ok(trace);
        }
        Err(BenchError::Failed(format!(
            "of a sync by {} not all operations ended as they must: {printed}",
            ship.name()
        )))
    }

    /// Ships what waits over a link, in real time: how long that takes.
    pub(super) fn sync_over(&self, link: Link, ship: Ship, operations: usize) -> Result<Duration> {
        self.tap.set_link(Some(link));
        let ended = self.sync(ship, operations);
        self.tap.set_link(None);
        // Of a trace over a link this is the whole time.
        ended.map(|trace| trace.computing)
    }

    /// What the client would do now, if this were the link that it measured at its last sync; and how long it thinks.
    pub(super) fn choice(&self, link: Link) -> Result<(Way, Duration)> {
        self.pretend(link)?;
        let start = Instant::now();
        let printed = self.json(&["--json", "sync", "--dry-run", "--ship", "auto"])?;
        let time = start.elapsed();
        let entries = printed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let slowest = |bytes: u64| bytes * 1_000_000 / link.rate.max(1);
        if entries
            .iter()
            .any(|entry| entry["predicted_micros"].as_u64() < entry["predicted_bytes"].as_u64().map(slowest))
        {
            return Err(BenchError::Failed(format!(
                "the client does not predict for the link that was set: {printed}"
            )));
        }
        let by_operation = entries.iter().filter(|entry| entry["way"] == "operation").count();
        let way = match by_operation {
            0 => Way::Value,
            count if count == entries.len() => Way::Operation,
            _ => Way::Mixed,
        };
        Ok((way, time))
    }

    fn pretend(&self, link: Link) -> Result<()> {
        let failed = |error: rusqlite::Error| BenchError::Failed(format!("cannot set the link's figures: {error}"));
        let database = rusqlite::Connection::open(self.folder.join(".opship/state.db")).map_err(failed)?;
        let set = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        let round_trip = (link.delay * 2).as_micros().to_string();
        let rate = i64::try_from(link.rate).unwrap_or(i64::MAX);
        database.execute(set, rusqlite::params!["net.round-trip", round_trip]).map_err(failed)?;
        database.execute(set, rusqlite::params!["net.rate", rate]).map(drop).map_err(failed)
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.command(&self.folder);
        let output = command.args(arguments).output().map_err(BenchError::io("start opship"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Failed(format!("'opship {}' failed: {said}", arguments.join(" "))));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| BenchError::Failed(format!("not JSON: {error}")))
    }
}

/// The files of a case's modules.
pub(super) fn modules_of(place: &Place, case: &Case) -> Result<Vec<PathBuf>> {
    case.modules.iter().map(|name| module_file(place, case.source, name)).collect()
}

fn module_file(place: &Place, source: Source, name: &str) -> Result<PathBuf> {
    let file = match source {
        Source::Standard => place.guest_file(name),
        Source::Own => place.own_tool(name),
        Source::Public(path) => match std::env::var_os("OPSHIP_PYMODULES") {
            Some(folder) => PathBuf::from(folder).join(path),
            None => return Err(BenchError::Failed("OPSHIP_PYMODULES names no folder of public modules".to_owned())),
        },
    };
    if file.is_file() {
        return Ok(file);
    }
    Err(BenchError::Failed(format!("'{}' is missing: run this by 'cargo xtask bench coda'", file.display())))
}
