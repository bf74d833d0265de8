//! `cargo xtask conformance DIR`: a folder of WASI preview 1 cases, run in the engine.

use std::path::Path;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::{process, setup, test};

/// Sets up, builds the runner as the tests are built, and runs the cases of `folder`.
pub(crate) fn run(context: &Context, folder: &Path) -> Result<()> {
    // The runner is started elsewhere.
    let folder = std::path::absolute(folder).map_err(Error::io("resolve", folder))?;
    setup::step(context)?;
    announce("building the runner");
    test::build(context)?;
    let mut runner = process::clean(context.target.join("debug/opship-conformance"));
    process::run(runner.arg(&folder))
}
