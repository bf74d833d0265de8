//! What the client keeps beside a large file that is edited again and again.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use opship_tap::Tap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const LARGE: usize = 1_000_000_000;
const EDITS: u64 = 100;
/// Bytes of an edit.
const EDIT: usize = 4096;

/// Measures and adds table and goal.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let copy = place.path("edits");
    fs::create_dir_all(&copy).map_err(BenchError::io("make a folder"))?;
    let opship = |arguments: &[&str]| succeed(place.command(&copy).args(arguments).env("OPSHIP_TOKEN", &server.token));
    let tap = Tap::start(server.address).map_err(BenchError::io("start the relay"))?;
    let url = format!("http://{}", tap.address());
    opship(&["init", "--server", &url, "--workspace", "edits"])?;
    let large = copy.join("large");
    super::noise_file(&large, LARGE)?;
    opship(&["sync"])?;
    let (first, begun) = (own_bytes(&copy)?, tap.count().total());
    for edit in 0..EDITS {
        let file = fs::OpenOptions::new().write(true).open(&large).map_err(BenchError::io("open the file"))?;
        let place = edit.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (LARGE - EDIT) as u64;
        file.write_all_at(&[edit as u8; EDIT], place).map_err(BenchError::io("edit the file"))?;
        drop(file);
        opship(&["sync"])?;
    }
    let (own, sent) = (own_bytes(&copy)?, tap.count().total() - begun);
    let share = |bytes: u64| 100.0 * bytes as f64 / LARGE as f64;
    let mut table = Table::new("What is kept beside a file of 1 GB", &["allocated", "bytes", "percent"]);
    table.row("after its first sync", [Cell::whole(first as f64), Cell::fine(share(first))]);
    table.row("after 100 edits of 4 KiB, each with a sync", [Cell::whole(own as f64), Cell::fine(share(own))]);
    table.note(format!("An edit took {} bytes on the wire.", sent / EDITS));
    report.table(table);
    let goal = Goal {
        what: "client overhead of 1 GB after 100 edits, %",
        figure: share(own),
        goal: 5.0,
        more_is_better: false,
    };
    report.goal(goal);
    Ok(())
}

/// Bytes allocated below `.opship`.
fn own_bytes(copy: &Path) -> Result<u64> {
    let (mut bytes, mut folders) = (0, vec![copy.join(".opship")]);
    let failed = || BenchError::io("look at what the client keeps");
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let metadata = fs::symlink_metadata(&path).map_err(failed())?;
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(bytes)
}
