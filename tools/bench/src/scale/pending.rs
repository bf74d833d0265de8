//! A gigabyte that is on its way over 1 Mbit/s, and small operations that come later.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::repeat;
use opship_tap::Tap;
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LARGE: usize = 1_000_000_000;
/// 1 Mbit/s, in bytes a second.
const RATE: u64 = 125_000;
/// Bytes of the upload after which the first operation comes, and operations.
const UNDER_WAY: u64 = 1_000_000;
const RUNS: usize = 9;
/// How often the log is looked at, and how long at most.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures and adds table and goal.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let copy = place.path("pending");
    fs::create_dir_all(&copy).map_err(BenchError::io("make a folder"))?;
    fs::write(copy.join("in"), "b\na\n").map_err(BenchError::io("write a file"))?;
    let command = |arguments: &[&str]| {
        let mut command = place.command(&copy);
        command.args(arguments).env("OPSHIP_TOKEN", &server.token);
        command
    };
    let tap = Tap::start_paced(server.address, RATE).map_err(BenchError::io("start the relay"))?;
    let url = format!("http://{}", tap.address());
    succeed(&mut command(&["init", "--server", &url, "--workspace", "pending"]))?;
    // The module is known, so that what is measured is the way of the operation alone.
    succeed(&mut command(&["run", "sort", "--", "-o", "out", "in"]))?;
    succeed(&mut command(&["sync"]))?;
    super::noise_file(&copy.join("large"), LARGE)?;
    let before = tap.count().sent;
    let mut sync = command(&["sync"]);
    let mut sync = Ended(sync.stdout(Stdio::null()).spawn().map_err(BenchError::io("start a sync"))?);
    until("the upload", || Ok(tap.count().sent > before + UNDER_WAY))?;
    let times = repeat(
        RUNS,
        |run| Ok(format!("out{run}")),
        |name| {
            succeed(&mut command(&["run", "sort", "--", "-o", &name, "in"]))?;
            until("the match", || is_matched(command(&["--json", "log", "-n", "1"])))
        },
    )?;
    let is_under_way = sync.0.try_wait().map_err(BenchError::io("look at a sync"))?.is_none();
    if !is_under_way || tap.count().sent > before + LARGE as u64 / 2 {
        return Err(BenchError::Failed("the gigabyte was through before the operations were".to_owned()));
    }
    let mut table =
        Table::new("A small operation while 1 GB goes over 1 Mbit/s", &["from its start", "median ms", "longest ms"]);
    table.row("run to matched", [Cell::whole(times.median()), Cell::whole(times.percentile(100))]);
    table.note(format!("Of {RUNS}, recorded by 'opship run' beside the sync, which ships them."));
    report.table(table);
    let figure = times.percentile(100) / 1e3;
    report.goal(Goal { what: "1 GB pending, an operation matched, s", figure, goal: 10.0, more_is_better: false });
    Ok(())
}

/// A process that is not left running.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to stop.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_matched(mut log: std::process::Command) -> Result<bool> {
    let output = log.output().map_err(BenchError::io("read the log"))?;
    let log: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(log["entries"][0]["verdict"] == "matched")
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > PATIENCE {
            return Err(BenchError::Failed(format!("{what} does not come")));
        }
        sleep(LOOK);
    }
    Ok(())
}
