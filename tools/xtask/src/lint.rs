//! `cargo xtask lint`: formatting, clippy and dependencies, in both workspaces.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::context::{Context, announce};
use crate::error::Result;
use crate::test::FAIL_POINTS;
use crate::{guests, process, setup};

/// Checks the licences, bans and sources of dependencies (`deny.toml`).
const CARGO_DENY: &str = "0.20.2";

/// Runs every check, also after one has failed. The guests are built first, since host crates
/// embed them.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    context.attempt("format, host", || format(context.cargo()));
    context.attempt("format, guests", || format(context.guest_cargo("guest-native")));
    context.attempt("clippy, host", || clippy(context.cargo(), &["--features", FAIL_POINTS]));
    context.attempt("clippy, guests", || clippy(context.guest_cargo("guest-native"), &[]));
    context.attempt("dependencies", || dependencies(context));
    context.print_times();
    context.verdict()
}

fn format(mut cargo: Command) -> Result<()> {
    process::run(cargo.args(["fmt", "--all", "--check"]))
}

fn clippy(mut cargo: Command, more: &[&str]) -> Result<()> {
    cargo.args(["clippy", "--locked", "--workspace", "--all-targets"]).args(more);
    process::run(cargo.args(["--quiet", "--", "-D", "warnings"]))
}

fn dependencies(context: &Context) -> Result<()> {
    let program = cargo_deny(context)?;
    for folder in [context.root.clone(), context.guest_ops()] {
        let mut command = process::clean(&program);
        command.current_dir(&context.root);
        command.args(["--log-level", "warn", "--config", "deny.toml"]);
        command.args(["--locked", "--workspace"]);
        command.arg("--manifest-path").arg(folder.join("Cargo.toml"));
        command.args(["check", "--hide-inclusion-graph"]);
        process::run(command.args(["licenses", "bans", "sources"]))?;
    }
    Ok(())
}

/// The machine's cargo-deny, or one of our own in the target directory. Built without
/// optimisation, which is faster for one use.
fn cargo_deny(context: &Context) -> Result<PathBuf> {
    if let Some(found) = process::find("cargo-deny") {
        return Ok(found);
    }
    let tools = context.target.join("tools");
    let program = tools.join("bin/cargo-deny");
    let versions = tools.join(".crates.toml");
    let wanted = format!("cargo-deny {CARGO_DENY} ");
    if program.is_file() && std::fs::read_to_string(versions).is_ok_and(|text| text.contains(&wanted)) {
        return Ok(program);
    }
    announce("building cargo-deny");
    let mut cargo = context.cargo();
    cargo.args(["install", "--quiet", "--locked", "--debug", "--version"]);
    cargo.args([CARGO_DENY, "cargo-deny", "--root"]).arg(&tools);
    let build: OsString = tools.join("build").into();
    cargo.env("CARGO_TARGET_DIR", build);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.env("CARGO_INCREMENTAL", "0");
    process::run(&mut cargo)?;
    Ok(program)
}
