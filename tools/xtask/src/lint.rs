//! `cargo xtask lint`: formatting, clippy and dependencies, in both workspaces.

use std::process::Command;

use crate::context::Context;
use crate::error::Result;
use crate::test::FAIL_POINTS;
use crate::{guests, process, setup, tools};

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
    let program = tools::cargo_tool(context, "cargo-deny", CARGO_DENY)?;
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
