//! How much memory a large input takes.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Bytes of the large input.
const LARGE: u64 = 2_000_000_000;
/// How often the process is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Measures and adds the table.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let copy = place.path("memory");
    let lay = |name: &str, bytes: u64| File::create(copy.join(name)).and_then(|file| file.set_len(bytes));
    let laid = fs::create_dir_all(&copy).and_then(|()| lay("small", 1)).and_then(|()| lay("large", LARGE));
    laid.map_err(BenchError::io("make the inputs"))?;
    let url = format!("http://{}", server.address);
    succeed(place.command(&copy).args(["init", "--server", &url, "--workspace", "memory"]))?;
    // Compiles the module.
    peak(place, &copy, "small")?;
    let (small, large) = (peak(place, &copy, "small")?, peak(place, &copy, "large")?);
    let mut table = Table::new("Memory of 'opship run' at its peak", &["reads", "MB"]);
    table.row("1 byte", [Cell::fine(small)]);
    table.row("2,000,000,000 bytes", [Cell::fine(large)]);
    table.note(
        "Of the whole process, the module's own memory included. The file is new: the run keeps a copy of it as well.",
    );
    report.table(table);
    report.goal(Goal {
        what: "reading 2 GB, memory beyond that of reading 1 byte, MB",
        figure: large - small,
        goal: 64.0,
        more_is_better: false,
    });
    Ok(())
}

/// Most resident memory of a run that reads `input`, in megabytes.
fn peak(place: &Place, copy: &Path, input: &str) -> Result<f64> {
    let mut command = place.command(copy);
    command.arg("run").arg(place.guest_file("ioprobe")).args(["--", "read", input]).stdout(Stdio::null());
    let mut child = command.spawn().map_err(BenchError::io("start opship"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        // The mark only rises; what happens after the last look is missed.
        peak = fs::read_to_string(&status).ok().and_then(|text| high_water(&text)).unwrap_or(peak);
        match child.try_wait().map_err(BenchError::io("wait for opship"))? {
            Some(ended) => break ended,
            None => thread::sleep(LOOK),
        }
    };
    if !ended.success() {
        return Err(BenchError::Failed(format!("opship run on the {input} input ended with {ended}")));
    }
    Ok(peak as f64 * 1024.0 / 1e6)
}

/// `VmHWM` of proc(5), in KiB.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_among_the_other_lines() {
        assert_eq!(high_water("VmPeak:\t  90 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"), Some(1234));
        assert_eq!(high_water("State:\tZ (zombie)\n"), None);
    }
}
