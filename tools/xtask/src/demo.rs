//! `cargo xtask demo`: the main job on real input, and what happened.

mod place;
mod story;

use crate::context::{Context, announce};
use crate::error::Result;
use crate::{guests, process, setup};

/// Sets up, builds what the demonstration needs, shows the main job on the project's own files, and cleans up.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    announce("building opship");
    context.step("opship", || process::run(context.cargo().args(["build", "--locked", "--quiet", "-p", "opship"])))?;
    context.step("demo", || story::tell(context))?;
    context.print_times();
    Ok(())
}
