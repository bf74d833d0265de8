//! Cargo's additional commands that this program needs.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::context::{Context, announce};
use crate::error::Result;
use crate::process;

/// The machine's command, or one of our own in the target directory, in this version. Built without optimisation, which
/// is faster for one use.
pub(crate) fn cargo_tool(context: &Context, name: &str, version: &str) -> Result<PathBuf> {
    if let Some(found) = process::find(name) {
        return Ok(found);
    }
    let tools = context.target.join("tools");
    let program = tools.join("bin").join(name);
    let versions = tools.join(".crates.toml");
    let wanted = format!("{name} {version} ");
    if program.is_file() && std::fs::read_to_string(versions).is_ok_and(|text| text.contains(&wanted)) {
        return Ok(program);
    }
    announce(&format!("building {name}"));
    let mut cargo = context.cargo();
    cargo.args(["install", "--quiet", "--locked", "--debug", "--version", version, name, "--root"]).arg(&tools);
    let build: OsString = tools.join("build").into();
    cargo.env("CARGO_TARGET_DIR", build);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.env("CARGO_INCREMENTAL", "0");
    process::run(&mut cargo)?;
    Ok(program)
}
