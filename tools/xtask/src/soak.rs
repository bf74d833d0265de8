//! `cargo xtask soak`: random work with faults, for a time.

use crate::context::Context;
use crate::error::Result;
use crate::{guests, process, setup, test};

/// Sets up, builds and runs it with `args`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    test::build(context)?;
    let mut soak = process::clean(context.target.join("debug/soak"));
    process::run(soak.args(args))
}
