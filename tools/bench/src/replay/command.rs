//! The whole command as a user sees it: `opship run`, then `opship sync`, as processes.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Report, Table};
use crate::stats::repeat;
use crate::text;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands that a median is of.
const RUNS: usize = 15;

/// Measures and adds the table.
pub(super) fn measure(place: &Place, server: &Server, files: &[(String, Vec<u8>)], report: &mut Report) -> Result<()> {
    let copy = place.path("copy");
    fs::create_dir_all(&copy).map_err(BenchError::io("make a folder"))?;
    let piece = text::joined(files, 1024);
    fs::write(copy.join("in"), piece).map_err(BenchError::io("write a file"))?;
    let url = format!("http://{}", server.address);
    let opship = |arguments: &[&str]| succeed(place.command(&copy).args(arguments));
    opship(&["init", "--server", &url, "--workspace", "commands"])?;
    opship(&["sync"])?;
    let operation = |name: String| opship(&["run", "sort", "--", "-o", &name, "in"]);
    // Compiles the module.
    operation("warm".to_owned())?;
    opship(&["sync"])?;

    let run = repeat(RUNS, |run| Ok(format!("run-{run}")), operation)?;
    opship(&["sync"])?;
    let sync = repeat(RUNS, |run| operation(format!("sync-{run}")), |()| opship(&["sync"]))?;
    let native = |name: String| sort(place, &copy, &name);
    let by_hand = repeat(RUNS, |run| Ok(format!("hand-{run}")), native)?;
    opship(&["sync"])?;
    let by_value = repeat(RUNS, |run| native(format!("value-{run}")), |()| opship(&["sync"]))?;

    let columns = ["1 KiB", "run ms", "sync ms", "both ms"];
    let mut table = Table::new("The whole command, as processes", &columns);
    let row = |run: f64, sync: f64| [run, sync, run + sync].map(Cell::fine);
    table.row("opship run sort; opship sync", row(run.median(), sync.median()));
    table.row("native sort; opship sync (by value)", row(by_hand.median(), by_value.median()));
    table.note(format!("Medians of {RUNS}, with a new output each."));
    report.table(table);
    Ok(())
}

fn sort(place: &Place, copy: &Path, name: &str) -> Result<()> {
    succeed(Command::new(place.native("sort")).current_dir(copy).args(["-o", name, "in"]))
}
