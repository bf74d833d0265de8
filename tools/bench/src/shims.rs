//! `shims`: what a shim adds to the time of a program, elsewhere and in a working copy.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::{Times, repeat};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs of each.
const RUNS: usize = 200;
/// Files beside those that are worked on.
const FILES: u32 = 1000;
/// The program: it is on every machine, and a standard operation stands for it.
const PROGRAM: &str = "sort";

/// Measures and reports.
pub(crate) fn run() -> Result<()> {
    let place = Place::new()?;
    let server = place.serve()?;
    let elsewhere = place.path("elsewhere");
    fs::create_dir_all(&elsewhere).map_err(BenchError::io("make a folder"))?;
    let copy = working_copy(&place, &server)?;
    for folder in [&elsewhere, &copy] {
        fs::write(folder.join("in"), "b\na\n").map_err(BenchError::io("make a file"))?;
    }
    succeed(place.command(&copy).args(["shims", "enable", PROGRAM]))?;
    let shim = place.path("home/data/opship/shims").join(PROGRAM);
    let mut report = Report::begin("shims");
    let direct = times(&place, &elsewhere, Path::new(PROGRAM))?;
    let outside = times(&place, &elsewhere, &shim)?;
    let inside = times(&place, &copy, &shim)?;
    let mut table =
        Table::new("the time of 'sort -o out in' with two lines", &["called", "median ms", "95 % ms", "added ms"]);
    for (name, times) in
        [("directly", &direct), ("by a shim, elsewhere", &outside), ("by a shim, in a working copy", &inside)]
    {
        let added = times.median() - direct.median();
        table.row(name, [Cell::fine(times.median()), Cell::fine(times.percentile(95)), Cell::fine(added)]);
    }
    table.note(format!(
        "{RUNS} runs each; the working copy has {FILES} files more; the shell waits at most 50 ms for a recording"
    ));
    report.table(table);
    let figure = outside.median() - direct.median();
    report.goal(Goal { what: "a shim elsewhere adds, ms", figure, goal: 5.0, more_is_better: false });
    report.finish(&place.results())
}

fn working_copy(place: &Place, server: &Server) -> Result<PathBuf> {
    let copy = place.path("copy");
    fs::create_dir_all(&copy).map_err(BenchError::io("make a folder"))?;
    for number in 0..FILES {
        fs::write(copy.join(number.to_string()), number.to_string()).map_err(BenchError::io("make the files"))?;
    }
    let url = format!("http://{}", server.address);
    succeed(place.command(&copy).args(["init", "--workspace", "shims", "--server", &url]))?;
    succeed(place.command(&copy).arg("sync"))?;
    Ok(copy)
}

fn times(place: &Place, folder: &Path, program: &Path) -> Result<Times> {
    let command = |_| {
        let mut command = Command::new(program);
        for (name, value) in place.command(folder).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["-o", "out", "in"]).current_dir(folder);
        Ok(command)
    };
    repeat(RUNS, command, |mut command| succeed(&mut command))
}
