//! 1,000 operations recorded while the server was away, shipped over a link with a round trip of 600 ms.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::timed;
use opship_tap::Tap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const RECORDS: usize = 1000;
/// Half a round trip.
const DELAY: Duration = Duration::from_millis(300);

/// Measures and adds table and goal.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let near = format!("http://{}", server.address);
    let copy = place.path("offline");
    fs::create_dir_all(&copy).map_err(BenchError::io("make a folder"))?;
    fs::write(copy.join("in"), "b\na\n").map_err(BenchError::io("write a file"))?;
    let opship = |arguments: &[&str]| succeed(place.command(&copy).args(arguments).env("OPSHIP_TOKEN", &server.token));
    opship(&["init", "--server", &near, "--workspace", "offline"])?;
    opship(&["sync"])?;
    for number in 0..RECORDS {
        opship(&["run", "sort", "--", "-o", &format!("out{number}"), "in"])?;
    }
    let tap = Tap::start_delaying(server.address, DELAY).map_err(BenchError::io("start the relay"))?;
    point_to(&copy, &near, &tap)?;
    let records = timed(|| opship(&["sync"]))?.as_secs_f64();
    let (requests, bytes) = (count_requests(&tap), tap.count().total() as f64);

    // The same files by value.
    for number in 0..RECORDS {
        fs::copy(copy.join("out0"), copy.join(format!("value{number}"))).map_err(BenchError::io("copy a file"))?;
    }
    let before = tap.count().total();
    let value = timed(|| opship(&["sync"]))?.as_secs_f64();
    let value_bytes = (tap.count().total() - before) as f64;

    let columns = ["600 ms round trip", "seconds", "requests", "bytes"];
    let mut table = Table::new("1,000 small entries after work offline", &columns);
    table.row("1,000 operations", [Cell::fine(records), Cell::whole(requests as f64), Cell::whole(bytes)]);
    let all = (count_requests(&tap) - requests) as f64;
    table.row("their results as values", [Cell::fine(value), Cell::whole(all), Cell::whole(value_bytes)]);
    report.table(table);
    let goal = Goal { what: "1,000 small records at 600 ms, s", figure: records, goal: 60.0, more_is_better: false };
    report.goal(goal);
    Ok(())
}

fn point_to(copy: &Path, near: &str, tap: &Tap) -> Result<()> {
    let file = copy.join(".opship/config.toml");
    let text = fs::read_to_string(&file).map_err(BenchError::io("read the configuration"))?;
    let text = text.replace(near, &format!("http://{}", tap.address()));
    fs::write(&file, text).map_err(BenchError::io("write the configuration"))
}

/// Requests that went through a relay.
fn count_requests(tap: &Tap) -> usize {
    let end = b" HTTP/1.1\r\nhost: ";
    tap.kept().windows(end.len()).filter(|window| window == end).count()
}
