//! `replay`: what it costs to run operations in the world, to ship small ones, and how many bytes that takes.

mod command;
mod files;
mod memory;
mod neighbours;
mod small;
mod standard;
mod startup;
mod wire;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::Report;
use crate::text;

/// The parts, in the order in which they run.
const PARTS: [&str; 8] = ["standard", "startup", "small", "command", "wire", "files", "memory", "neighbours"];

/// Runs the parts named, or all of them.
pub(crate) fn run(named: &[&str]) -> Result<()> {
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(BenchError::Failed(format!("no part '{unknown}'; there are: {}", PARTS.join(", "))));
    }
    let place = Place::new()?;
    let files = text::files()?;
    let server = place.serve()?;
    let mut report = Report::begin("replay");
    for part in PARTS.iter().filter(|part| named.is_empty() || named.contains(part)) {
        match *part {
            "standard" => standard::measure(&place, &files, &mut report)?,
            "startup" => startup::measure(&place, &mut report)?,
            "small" => small::measure(&place, &server, &files, &mut report)?,
            "command" => command::measure(&place, &server, &files, &mut report)?,
            "wire" => wire::measure(&place, &server, &mut report)?,
            "files" => files::measure(&place, &server, &mut report)?,
            "memory" => memory::measure(&place, &server, &mut report)?,
            _ => neighbours::measure(&place, &files, &mut report)?,
        }
    }
    report.finish(&place.results())
}
