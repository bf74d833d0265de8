//! A folder of 100,000 files that the server has already.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::timed;
use opship_tap::Tap;
use std::path::Path;
use std::process::Command;

const FILES: u64 = 100_000;

/// Measures and adds table and goal.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let (first, second) = (place.path("adopted"), place.path("adopting"));
    super::many_files(&first, FILES)?;
    let tap = Tap::start(server.address).map_err(BenchError::io("start the relay"))?;
    let url = format!("http://{}", tap.address());
    let opship = |copy: &Path, arguments: &[&str]| {
        succeed(place.command(copy).args(arguments).env("OPSHIP_TOKEN", &server.token))
    };
    // Copied with their times before anything of opship's is in the folder.
    succeed(Command::new("cp").arg("-a").arg(&first).arg(&second))?;
    let mut table = Table::new("100,000 files at both ends", &["first sync", "seconds", "bytes", "bytes a file"]);
    let mut bytes_a_file = 0.0;
    for (copy, what) in [(&first, "to an empty server"), (&second, "to a server that has them")] {
        let before = tap.count().total();
        opship(copy, &["init", "--server", &url, "--workspace", "adopting"])?;
        let seconds = timed(|| opship(copy, &["sync"]))?.as_secs_f64();
        let bytes = (tap.count().total() - before) as f64;
        bytes_a_file = bytes / FILES as f64;
        table.row(what, [Cell::fine(seconds), Cell::whole(bytes), Cell::fine(bytes_a_file)]);
    }
    report.table(table);
    // A hash is 32 bytes and does not compress; a name and its times do.
    let what = "adopting, bytes a file that both ends have";
    report.goal(Goal { what, figure: bytes_a_file, goal: 64.0, more_is_better: false });
    Ok(())
}
