//! `replay`: what it costs to run operations in the world, to ship small ones, and how many bytes that takes.

mod command;
mod neighbours;
mod small;
mod standard;
mod wire;

use crate::error::Result;
use crate::place::Place;
use crate::report::Report;
use crate::text;

/// Runs all parts.
pub(crate) fn run() -> Result<()> {
    let place = Place::new()?;
    let files = text::files()?;
    let mut report = Report::begin("replay");
    standard::measure(&place, &files, &mut report)?;
    let server = place.serve()?;
    small::measure(&place, &server, &files, &mut report)?;
    command::measure(&place, &server, &files, &mut report)?;
    wire::measure(&place, &server, &mut report)?;
    drop(server);
    neighbours::measure(&place, &files, &mut report)?;
    report.finish(&place.results())
}
