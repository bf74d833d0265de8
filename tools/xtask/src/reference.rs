//! The second host: wasmtime with its own WASI on a real directory, as the differential test drives it from Python.

use crate::context::Context;
use crate::error::Result;
use crate::venv::Venv;

const HOST: Venv = Venv {
    folder: "tools/reference",
    pinned: "\
wasmtime==50.0.1 \
--hash=sha256:cc14c3a17654e0394e0225b11813532ef0cd7bd1e222a0c5494cdedaabeddac4 \
--hash=sha256:675484e525c028dc02762b777f1db4477ea70caa3fec6775426daff4d64edfb1
",
    what: "wasmtime for Python, the second host of the differential tests",
};

/// Makes the virtual environment where it is not there yet.
///
/// # Errors
/// With CI=true whatever fails; elsewhere tests that need it skip without it.
pub(crate) fn step(context: &Context) -> Result<()> {
    context.optional("second host", "differential tests are skipped", || HOST.ensure(context)).map(drop)
}
