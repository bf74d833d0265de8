//! `cargo xtask bench NAME`: one benchmark of opship-bench, optimised.

use std::fs;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::languages::{c, sources};
use crate::{apt, guests, process, pymodules, reference, setup};

/// Sets up, builds and runs the benchmark `name` with `args`.
pub(crate) fn run(context: &Context, name: &str, args: &[String]) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    reference::step(context)?;
    if name == "value" && ["rsync", "restic"].iter().any(|peer| process::find(peer).is_none()) {
        apt::install(context, &["rsync", "restic"], "comparing the bytes of values with those of other tools")?;
    }
    if name == "residual" {
        residual_peers(context)?;
    }
    if name == "coda" && process::find("rsync").is_none() {
        apt::install(context, &["rsync"], "comparing the bytes of values with those of another tool")?;
    }
    announce("building the standard operations for this machine, to compare with");
    let mut native = context.guest_cargo("guest-native");
    native.args(["build", "--locked", "--release", "--quiet", "--bins"]);
    process::run(native.args(["-p", "opship-op-gzip", "-p", "opship-op-sort", "-p", "opship-op-tar"]))?;
    announce("building the benchmark");
    let mut build = context.cargo();
    build.args(["build", "--locked", "--release", "--quiet"]);
    process::run(build.args(["-p", "opship-bench", "-p", "opship"]))?;
    // Started directly: for this package alone cargo would build the dependencies again, with fewer features.
    let mut bench = process::clean(context.target.join("release/opship-bench"));
    bench.current_dir(&context.root).arg(name);
    if name == "coda" {
        own_tools(context)?;
        // Without them the benchmark leaves their tests out, and says so.
        pymodules::step(context)?.map(|folder| bench.env("OPSHIP_PYMODULES", folder));
    }
    process::run(bench.args(args))
}

/// rdiff of Debian, and a program of its own with a library that is none of opship's.
fn residual_peers(context: &Context) -> Result<()> {
    if process::find("rdiff").is_none() {
        apt::install(context, &["rdiff"], "comparing residuals with rsync's algorithm")?;
    }
    announce("building a peer, to compare with");
    let mut peer = context.cargo();
    peer.current_dir(context.root.join("tools/bench/peer/erasure"))
        .env("CARGO_TARGET_DIR", context.target.join("peer"));
    process::run(peer.args(["build", "--locked", "--release", "--quiet"]))
}

/// Compiles the C programs of the benchmark `coda` to `<target>/bench-guests/NAME.wasm`, each from its one source.
fn own_tools(context: &Context) -> Result<()> {
    let (folder, modules) = (context.root.join("tools/bench/guests"), context.target.join("bench-guests"));
    fs::create_dir_all(&modules).map_err(Error::io("make", &modules))?;
    for source in sources(&folder, ".c")? {
        let module = modules.join(&source).with_extension("wasm");
        c::compile(context, &folder, &[source], &module, "building the benchmark's own tools")?;
    }
    Ok(())
}
