//! `value`: the bytes that values take on the wire, against rsync's in the same run, and beside what restic stores.

mod cases;
pub(crate) mod content;
mod opship;
pub(crate) mod peers;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::{Cell, Goal, Report, Table};
use crate::text;
use cases::{Case, cases};
use std::fs;
use std::path::Path;

/// Bytes of one way of one step: counted at the socket, both directions together.
struct Counts {
    opship: u64,
    rsync: u64,
}

/// What a case came to.
struct Measured {
    /// The first sync of what the case begins with.
    first: Counts,
    /// The change, from where it was made.
    up: Counts,
    /// The change, to another place that has the state before.
    down: Counts,
    /// What restic adds to its repository for the first state and for the change.
    restic: (u64, u64),
}

/// Runs the cases named, or all of them.
pub(crate) fn run(named: &[&str]) -> Result<()> {
    let place = Place::new()?;
    let files = text::files()?;
    let cases: Vec<Case> = cases();
    if let Some(unknown) = named.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        return Err(BenchError::Failed(format!("no case '{unknown}'; there are: {}", names.join(", "))));
    }
    let mut report = Report::begin("value");
    let columns = [
        "case",
        "first",
        "rsync",
        "ratio",
        "restic",
        "change",
        "rsync change",
        "ratio change",
        "restic change",
        "pull",
        "rsync pull",
        "ratio pull",
    ];
    let mut table = Table::new(
        "Bytes on the wire, both ways, headers included; of restic the bytes added to a local repository",
        &columns,
    );
    for case in cases.iter().filter(|case| named.is_empty() || named.contains(&case.name)) {
        let measured = measure(&place, case, &files)?;
        let Measured { first, up, down, restic } = &measured;
        table.row(
            case.name,
            [
                Cell::whole(first.opship as f64),
                Cell::whole(first.rsync as f64),
                Cell::fine(first.ratio()),
                Cell::whole(restic.0 as f64),
                Cell::whole(up.opship as f64),
                Cell::whole(up.rsync as f64),
                Cell::fine(up.ratio()),
                Cell::whole(restic.1 as f64),
                Cell::whole(down.opship as f64),
                Cell::whole(down.rsync as f64),
                Cell::fine(down.ratio()),
            ],
        );
        for (what, counts) in [(case.goals[0], first), (case.goals[1], up), (case.goals[2], down)] {
            report.goal(Goal { what, figure: counts.ratio(), goal: 1.0, more_is_better: false });
        }
    }
    table.note(format!(
        "rsync: {}, -az --delete against its daemon on loopback, through the same relay",
        peers::rsync_version()?
    ));
    table.note(format!("restic: {}, default settings; it encrypts and keeps all versions", peers::restic_version()?));
    table.note(
        "ratio: opship's bytes to rsync's; a pull is the change coming to another copy that has the state before",
    );
    report.table(table);
    report.finish(&place.results())
}

impl Counts {
    fn ratio(&self) -> f64 {
        self.opship as f64 / self.rsync as f64
    }
}

fn measure(place: &Place, case: &Case, files: &[(String, Vec<u8>)]) -> Result<Measured> {
    let base = place.path(case.name);
    let here = base.join("here");
    fs::create_dir_all(&here).map_err(BenchError::io("make a folder"))?;
    (case.begin)(&here, files)?;
    content::age(&here)?;
    let restic = peers::Restic::new(&base)?;
    let rsync = peers::Rsync::start(&base)?;
    let opship = opship::Opship::start(place, case.name, &here)?;
    let first = Counts { opship: opship.push()?, rsync: rsync.push(&here)? };
    let first_stored = restic.back_up(&here)?;
    // Other places that have the state before.
    opship.clone_there()?;
    rsync.pull_to(&base.join("rsync-there"))?;
    (case.change)(&here, files)?;
    let up = Counts { opship: opship.push()?, rsync: rsync.push(&here)? };
    let change_stored = restic.back_up(&here)?;
    let down = Counts { opship: opship.pull()?, rsync: rsync.pull_to(&base.join("rsync-there"))? };
    for there in [opship.there(), base.join("rsync-there")] {
        same(&here, &there)?;
    }
    fs::remove_dir_all(&base).map_err(BenchError::io("remove a folder"))?;
    Ok(Measured { first, up, down, restic: (first_stored, change_stored) })
}

/// Both came out the same, or the figures say nothing.
fn same(here: &Path, there: &Path) -> Result<()> {
    if content::snapshot(here)? == content::snapshot(there)? {
        return Ok(());
    }
    Err(BenchError::Failed(format!("'{}' and '{}' differ", here.display(), there.display())))
}
