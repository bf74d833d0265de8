//! `cargo xtask test`: all tests of both workspaces, with all that they need.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::{guests, languages, process, pymodules, reference, setup, soak};

/// The folder of the public modules' packages; unset where they could not be installed.
const PYMODULES: &str = "OPSHIP_PYMODULES";
/// Set with CI=true: a test whose optional need is missing fails instead of skipping.
const REQUIRE_ALL: &str = "OPSHIP_REQUIRE_ALL";

/// Named places where a crash test kills the process: compiled in for the tests only.
pub(crate) const FAIL_POINTS: &str = "opship/failpoints,opship-client/failpoints,opship-engine/failpoints,\
                                      opship-server/failpoints,opship-storage/failpoints";

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
    languages::step(context, &wasi)?;
    setup::for_tests(context)?;
    reference::step(context)?;
    pymodules::step(context)
}

fn run_steps(context: &Context, args: &[String], modules: Option<&Path>) {
    let counts = Cell::new(Counts::default());
    let run = |mut command: Command| {
        if let Some(folder) = modules {
            command.env(PYMODULES, folder);
        }
        // A selection leaves tests out on purpose.
        if !context.ci || !args.is_empty() {
            return process::run(&mut command);
        }
        checked(command, &counts)
    };
    let guest = || context.guest_cargo("guest-native");
    if args.is_empty() {
        context.attempt("guest tests", || run(tests(context, guest())));
        context.attempt("guest doc tests", || run(doc_tests(guest())));
        context.attempt("host doc tests", || run(doc_tests(context.cargo())));
    }
    // The end-to-end tests run the binary itself, which building the tests alone does not make.
    context.attempt("host build", || build(context));
    context.attempt("host tests", || {
        let mut command = tests(context, context.cargo());
        command.args(["--features", FAIL_POINTS]).args(args);
        run(command)
    });
    if args.is_empty() {
        context.attempt("soak", || soak::with_tests(context));
    }
    if context.ci && args.is_empty() {
        let Counts { passed, failed, skipped } = counts.get();
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    }
}

/// Builds the host's workspace as its tests need it.
pub(crate) fn build(context: &Context) -> Result<()> {
    let mut command = context.cargo();
    command.args(["build", "--locked", "--quiet", "--workspace", "--all-targets", "--features", FAIL_POINTS]);
    process::run(&mut command)
}

/// nextest where it is installed (a process for each test, so that one that hangs or crashes ends
/// alone), otherwise cargo's own runner. Of a workspace without a root package both take every
/// package, unless further arguments name one.
fn tests(context: &Context, mut command: Command) -> Command {
    if process::find("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--locked", "--no-fail-fast"]);
        let config = context.root.join(".config/nextest.toml");
        command.arg("--config-file").arg(config);
        return command;
    }
    command.args(["test", "--locked", "--no-fail-fast"]);
    command.args(["--lib", "--bins", "--tests", "--examples"]);
    command
}

fn doc_tests(mut command: Command) -> Command {
    command.args(["test", "--locked", "--workspace", "--no-fail-fast", "--doc", "--quiet"]);
    command
}

/// Runs all of some tests; one that was skipped is a failure.
fn checked(mut command: Command, counts: &Cell<Counts>) -> Result<()> {
    command.env(REQUIRE_ALL, "1");
    let (status, text) = process::tee(&mut command)?;
    let here = Counts::of(&text);
    counts.set(counts.get().plus(here));
    process::check(&command, status, String::new)?;
    match here.skipped {
        0 => Ok(()),
        count => Err(Error::Skipped(count)),
    }
}

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// From the closing lines of cargo test (`N ignored`) and nextest (`N skipped`).
    fn of(text: &str) -> Self {
        let closing = |line: &&str| {
            // nextest shows what a failed test printed further in: not counted twice.
            line.starts_with("test result: ") || line.trim_start().starts_with("Summary [")
        };
        let lines = text.lines().filter(closing);
        lines.fold(Self::default(), |sum, line| sum.plus(Self::of_line(line)))
    }

    fn of_line(line: &str) -> Self {
        let words: Vec<&str> = line.split([' ', ',', ';']).collect();
        let before = |names: &[&str]| {
            let pairs = words.windows(2).filter(|pair| names.contains(&pair[1]));
            pairs.filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
        };
        Self {
            passed: before(&["passed"]),
            failed: before(&["failed", "timed"]),
            skipped: before(&["ignored", "skipped"]),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts { passed, failed, skipped }
    }

    #[test]
    fn tests_are_counted_in_closing_lines_only() {
        let cargo = "test a ... ok\n7 ignored\n\
            test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 4 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Counts::of(cargo), counts(5, 3, 3));
        let nextest = "     Summary [   0.013s] 5 tests run: 5 passed (1 slow), 4 skipped\n";
        assert_eq!(Counts::of(nextest), counts(5, 0, 4));
        let failed = "     Summary [   0.1s] 6 tests run: 4 passed, 1 failed, 1 timed out, 0 skipped\n";
        assert_eq!(Counts::of(failed), counts(4, 2, 0));
        assert_eq!(Counts::of("running 0 tests"), Counts::default());
    }
}
