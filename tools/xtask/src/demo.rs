//! `cargo xtask demo`: the main job on real input, and what happened.

use crate::context::{Context, announce};
use crate::error::Result;
use crate::{guests, process, setup};

/// Sets up, builds what the demonstration needs, and prints the time of each step.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    announce("building opship");
    context.step("opship", || process::run(context.cargo().args(["build", "--locked", "--quiet", "-p", "opship"])))?;
    context.print_times();
    Ok(())
}
