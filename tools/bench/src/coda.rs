//! `coda`: sixteen tests as of the Coda file system's paper on operation shipping (Lee, Leung, Satyanarayanan, USENIX 1999):
//! bytes and times by value and by operation over slow links, and which of them is chosen.

mod cases;
mod copy;
mod inputs;
mod measure;
mod plot;
mod tables;
mod trace;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::{Cell as Field, Goal, Report, Table};
use crate::value::peers;
use cases::{Case, Source, cases};
use copy::Ship;
use measure::{Bench, Cell, link};
use std::fs;
use std::time::Duration;
use tables::SIZES;

/// The tests that are repeated in real time, and the rates in bits a second: eight cells, of the smallest size.
const REPEATED: [&str; 4] = ["compile", "typeset", "compress", "archive"];
const REPEATED_RATES: [u64; 2] = [9_600, 64_000];

/// Runs the tests named, or all of them; a size such as "16KB" among the names leaves the larger ones out.
pub(crate) fn run(named: &[&str]) -> Result<()> {
    let (sizes, tests): (Vec<&str>, Vec<&str>) =
        named.iter().partition(|name| SIZES.iter().any(|size| size.name == **name));
    let cases = cases();
    if let Some(unknown) = tests.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        return Err(BenchError::Failed(format!("no test '{unknown}'; there are: {}", names.join(", "))));
    }
    let largest = sizes.iter().filter_map(|name| SIZES.iter().position(|size| size.name == *name)).max();
    let place = Place::new()?;
    let mut report = Report::begin("coda");
    let mut findings = Findings::new();
    for case in cases.iter().filter(|case| tests.is_empty() || tests.contains(&case.name)) {
        if let (Source::Public(_), Err(error)) = (case.source, copy::modules_of(&place, case)) {
            findings.set_up.note(format!("left out: {}: {error}", case.name));
            continue;
        }
        measure(&place, case, largest.map_or(SIZES.len(), |last| last + 1), &mut findings)?;
    }
    findings.report(&place, &mut report)?;
    report.finish(&place.results())
}

/// What was found so far.
struct Findings {
    cells: Vec<Cell>,
    set_up: Table,
    in_real_time: Table,
    /// The largest share by which real and virtual time differ.
    apart: f64,
}

/// Measures a test at all its sizes.
fn measure(place: &Place, case: &Case, sizes: usize, findings: &mut Findings) -> Result<()> {
    let mut bench = Bench::start(place, case)?;
    findings.add_set_up(case, &bench);
    for size in SIZES.iter().take(sizes) {
        eprintln!("{}, {}", case.name, size.name);
        findings.cells.push(bench.measure(size.bytes)?);
        if size.bytes == SIZES[0].bytes && REPEATED.contains(&case.name) {
            findings.repeat(&mut bench)?;
        }
    }
    drop(bench);
    fs::remove_dir_all(place.path(case.name)).map_err(BenchError::io("remove a folder"))
}

impl Findings {
    fn new() -> Findings {
        let set_up =
            ["test", "init bytes", "round trips", "s at 9.6k", "s at 64k", "to open s at 9.6k", "to open s at 64k"];
        let columns = ["cell", "way", "kbit/s", "virtual s", "real s", "real / virtual"];
        Findings {
            cells: Vec::new(),
            set_up: Table::new("Set-up, once: workspace and working copy; and opening a connection", &set_up),
            in_real_time: Table::new("In real time over an emulated link, opening the connection included", &columns),
            apart: 0.0,
        }
    }

    fn add_set_up(&mut self, case: &Case, bench: &Bench<'_>) {
        let (trace, seconds) = (bench.set_up(), |time: Duration| Field::fine(time.as_secs_f64()));
        let [slow, fast] = REPEATED_RATES.map(link);
        self.set_up.row(
            case.name,
            [
                Field::whole(trace.bytes() as f64),
                Field::Number(trace.round_trips(), 1),
                seconds(trace.time(slow)),
                seconds(trace.time(fast)),
                seconds(trace.opening(slow)),
                seconds(trace.opening(fast)),
            ],
        );
    }

    /// Repeats the cell that was measured last.
    fn repeat(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let Some(cell) = self.cells.last() else { return Ok(()) };
        for rate in REPEATED_RATES {
            for (way, ship) in [("operation", Ship::Operation), ("value", Ship::Value)] {
                let times = bench.in_both_times(cell.size, link(rate), ship)?;
                let [expected, real] = times.map(|time| time.as_secs_f64());
                self.apart = self.apart.max((real / expected - 1.0).abs());
                let head = [Field::from(way), Field::Number(rate as f64 / 1e3, 1)];
                let times = [expected, real, real / expected].map(Field::fine);
                self.in_real_time.row(cell.name, head.into_iter().chain(times));
            }
        }
        Ok(())
    }

    fn report(mut self, place: &Place, report: &mut Report) -> Result<()> {
        tables::add(&self.cells, report);
        for size in &SIZES {
            let cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.size == size.bytes).collect();
            if cells.is_empty() {
                continue;
            }
            let file = place.results().join(format!("coda-{}.svg", size.name.to_lowercase()));
            fs::write(&file, plot::svg(&cells)).map_err(BenchError::io(format!("write '{}'", file.display())))?;
        }
        self.set_up.note(format!("rsync: {}, -az, against its daemon on loopback", peers::rsync_version()?));
        report.table(self.set_up);
        if self.apart > 0.0 {
            self.in_real_time.note("Both are the middle ones of three, measured by turns, each on inputs of its own.");
            report.table(self.in_real_time);
            report.goal(Goal {
                what: "real time by virtual time, largest difference",
                figure: self.apart,
                goal: 0.1,
                more_is_better: false,
            });
        }
        Ok(())
    }
}
