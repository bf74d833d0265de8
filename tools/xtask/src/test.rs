//! `cargo xtask test`: all tests of both workspaces, with all that they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::{guests, process, pymodules, setup};

/// The folder of the public modules' packages; unset where they could not be installed.
const PYMODULES: &str = "OPSHIP_PYMODULES";
/// Set with CI=true: a test whose optional need is missing fails instead of skipping.
const REQUIRE_ALL: &str = "OPSHIP_REQUIRE_ALL";

/// Sets up and runs everything, or with `args` the host's tests that they select. A failing step
/// does not keep the next from running.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<()> {
    let prepared = prepare(context);
    if let Ok(modules) = &prepared {
        run_steps(context, args, modules.as_deref());
    }
    context.print_times();
    prepared?;
    context.verdict()
}

fn prepare(context: &Context) -> Result<Option<PathBuf>> {
    let wasi = setup::step(context)?;
    guests::step(context, &wasi)?;
    pymodules::step(context)
}

fn run_steps(context: &Context, args: &[String], modules: Option<&Path>) {
    let host = |mut command: Command| {
        command.args(args);
        if let Some(folder) = modules {
            command.env(PYMODULES, folder);
        }
        checked(context, command)
    };
    context.attempt("host tests", || host(host_tests(context)));
    if !args.is_empty() {
        return;
    }
    context.attempt("host doc tests", || {
        let mut command = context.cargo();
        command.args(["test", "--locked", "--workspace", "--doc", "--quiet"]);
        host(command)
    });
    context.attempt("guest tests", || {
        let mut command = context.guest_cargo("guest-native");
        command.args(["test", "--locked", "--workspace"]);
        checked(context, command)
    });
}

/// nextest where it is installed (a process for each test, so that one that hangs or crashes ends
/// alone), otherwise cargo's own runner.
fn host_tests(context: &Context) -> Command {
    let mut command = context.cargo();
    if process::find("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--locked", "--workspace"]);
        return command;
    }
    command.args(["test", "--locked", "--workspace"]);
    command.args(["--lib", "--bins", "--tests", "--examples"]);
    command
}

/// Runs tests; with CI=true one that was skipped is a failure.
fn checked(context: &Context, mut command: Command) -> Result<()> {
    if !context.ci {
        return process::run(&mut command);
    }
    command.env(REQUIRE_ALL, "1");
    let (status, text) = process::tee(&mut command)?;
    process::check(&command, status, String::new)?;
    match skipped(&text) {
        0 => Ok(()),
        count => Err(Error::Skipped(count)),
    }
}

/// The sum of `N ignored` (cargo test) and `N skipped` (nextest) in the runners' closing lines.
fn skipped(text: &str) -> u64 {
    let closing = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("test result: ") || line.starts_with("Summary [")
    };
    text.lines().filter(closing).map(skipped_in_line).sum()
}

fn skipped_in_line(line: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ',', ';']).collect();
    words
        .windows(2)
        .filter(|pair| pair[1] == "ignored" || pair[1] == "skipped")
        .filter_map(|pair| pair[0].parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn skipped_tests_are_counted_in_closing_lines_only() {
        let cargo = "test a ... ok\n7 ignored\n\
            test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(skipped(cargo), 3);
        let nextest = "     Summary [   0.013s] 5 tests run: 5 passed, 4 skipped\n";
        assert_eq!(skipped(nextest), 4);
        let failed = "     Summary [   0.1s] 5 tests run: 4 passed, 1 failed, 0 skipped\n";
        assert_eq!(skipped(failed), 0);
    }
}
