//! The commands that build, check and show opship: `cargo xtask COMMAND`.
//!
//! Each is the only command needed after `git clone`: what it needs (the WASI target, the guests,
//! public modules for the tests) is set up first, and a second run repeats nothing.
#![forbid(unsafe_code)]

mod apt;
mod bench;
mod conformance;
mod context;
mod demo;
mod error;
mod fuzz;
mod guests;
mod languages;
mod lint;
mod process;
mod pymodules;
mod reference;
mod setup;
mod signature;
mod soak;
mod test;
mod tools;
mod venv;
mod wasi;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::context::Context;
use crate::error::Result;

/// Set-up, build, checks and demonstration of opship.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// Install missing system packages without asking (by sudo when not root)
    #[arg(long, global = true)]
    yes: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find what the build needs on this machine and install what is missing
    Setup,
    /// Build the modules of guest-ops into target/guests: those in Rust, and the conformance guests in C, Go and
    /// AssemblyScript
    Guests,
    /// Set up, then run all tests of the host and guest workspaces
    Test {
        /// Arguments for the test runner; with them only the host's tests run
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Formatting, clippy without warnings, licences and sources of dependencies
    Lint,
    /// Run a folder of WASI preview 1 cases (X.wasm with X.json, as in the official suite) in the engine
    Conformance {
        /// The folder
        dir: PathBuf,
    },
    /// Set up, build, and show the main job on real input
    Demo,
    /// Run a fuzz target for a time from the inputs kept for it, and keep what it finds
    Fuzz {
        /// Which target, such as `world_calls`
        target: String,
        /// For how many seconds
        #[arg(default_value_t = 600)]
        seconds: u64,
    },
    /// Three clients work at random while connections are cut and processes killed; nothing may be lost
    Soak {
        /// Arguments for the soak, such as `--minutes 20`, `--seed N`, or `import`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Set up, then run one benchmark in release mode
    Bench {
        /// Which benchmark, such as `replay`
        name: String,
        /// Arguments for the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let context = Context::discover(arguments.yes)?;
    match arguments.command {
        Command::Setup => setup::run(&context),
        Command::Guests => guests::run(&context),
        Command::Test { args } => test::run(&context, &args),
        Command::Lint => lint::run(&context),
        Command::Conformance { dir } => conformance::run(&context, &dir),
        Command::Demo => demo::run(&context),
        Command::Fuzz { target, seconds } => fuzz::run(&context, &target, seconds),
        Command::Soak { args } => soak::run(&context, &args),
        Command::Bench { name, args } => bench::run(&context, &name, &args),
    }
}
