//! `cargo xtask soak`: random work with faults, for a time.

use crate::context::Context;
use crate::error::Result;
use crate::{guests, process, setup, test};

/// Minutes that the soak takes with all the tests.
const IN_TESTS: &str = "2";

/// Sets up, builds and runs it with `args`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    test::build(context)?;
    start(context, args)
}

/// The short one that belongs to the tests; all is built.
pub(crate) fn with_tests(context: &Context) -> Result<()> {
    start(context, &["--minutes".to_owned(), IN_TESTS.to_owned()])
}

fn start(context: &Context, args: &[String]) -> Result<()> {
    let mut soak = process::clean(context.target.join("debug/soak"));
    process::run(soak.args(args))
}
