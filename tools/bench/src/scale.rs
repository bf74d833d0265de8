//! `scale`: what large trees and many entries cost: looking at what did not change, and catching up after work offline.

mod offline;
mod unchanged;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::Report;

/// The parts, in the order in which they run.
const PARTS: [&str; 2] = ["unchanged", "offline"];

/// Runs the parts named, or all of them.
pub(crate) fn run(named: &[&str]) -> Result<()> {
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(BenchError::Failed(format!("no part '{unknown}'; there are: {}", PARTS.join(", "))));
    }
    let place = Place::new()?;
    let server = place.serve()?;
    let mut report = Report::begin("scale");
    for part in PARTS.iter().filter(|part| named.is_empty() || named.contains(part)) {
        match *part {
            "unchanged" => unchanged::measure(&place, &server, &mut report)?,
            _ => offline::measure(&place, &server, &mut report)?,
        }
    }
    report.finish(&place.results())
}
