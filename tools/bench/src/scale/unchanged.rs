//! 200,000 files: the import, then commands that find nothing to do.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::{Times, repeat, timed};
use opship_tap::Tap;
use std::process::Command;

const FILES: u64 = 200_000;
/// Commands that a median is of.
const RUNS: usize = 9;

/// Measures and adds table and goals.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let copy = place.path("large");
    super::many_files(&copy, FILES)?;
    let tap = Tap::start(server.address).map_err(BenchError::io("start the relay"))?;
    let url = format!("http://{}", tap.address());
    let opship = |arguments: &[&str]| succeed(place.command(&copy).args(arguments).env("OPSHIP_TOKEN", &server.token));
    opship(&["init", "--server", &url, "--workspace", "large"])?;
    let import = timed(|| opship(&["sync"]))?;
    opship(&["status"])?;
    let status = repeat(RUNS, |_| Ok(()), |()| opship(&["status"]))?;
    let before = tap.count().total();
    let sync = repeat(RUNS, |_| Ok(()), |()| opship(&["sync"]))?;
    let bytes = (tap.count().total() - before) as f64 / RUNS as f64;
    let find =
        repeat(RUNS, |_| Ok(()), |()| succeed(Command::new("find").arg(&copy).args(["-newermt", "2100-01-01"])))?;

    let columns = ["200,000 files", "median ms", "p95 ms"];
    let mut table = Table::new("Looking at files that did not change", &columns);
    let row = |times: &Times| [times.median(), times.percentile(95)].map(Cell::fine);
    table.row("find, which asks for the time of each file", row(&find));
    table.row("opship status", row(&status));
    table.row("opship sync", row(&sync));
    table.row("the first sync, which ships all", row(&Times::new(vec![import])));
    table.note(format!("Medians of {RUNS}, as processes, with the names in the system's cache."));
    report.table(table);
    let goal = |what, figure, goal| Goal { what, figure, goal, more_is_better: false };
    report.goal(goal("status of 200,000 unchanged files, ms", status.median(), 1000.0));
    report.goal(goal("bytes of a sync with nothing to do, both ways with headers", bytes, 400.0));
    Ok(())
}
