//! opship: the command line, and the server behind `opship serve`.
#![forbid(unsafe_code)]

mod admin_args;
mod args;
mod bundle_args;
mod commands;
mod duration;
mod limits;
mod native;
mod output;
mod standard;

use args::{Cli, Command};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // The compile child locks itself down and speaks over its pipes only: nothing else of this program may run in it.
    if arguments.get(1).is_some_and(|argument| argument == "__compile") {
        return opship_engine::compile_child_main();
    }
    // Called by another program's name: outside of a working copy nothing else may cost time.
    if let Some(name) = native::shim::name(&arguments) {
        return native::shim::run(&name, &arguments);
    }
    if arguments.get(1).is_some_and(|argument| argument == native::recorder::COMMAND) {
        return native::recorder::main();
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // A module's own exit codes must not be mistaken for opship's (as `env` does it).
            return if error.exit_code() == 0 { ExitCode::SUCCESS } else { ExitCode::from(output::FAILURE) };
        }
    };
    if let Some(directory) = &cli.directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        output::error(&format!("cannot work in '{}': {error}", directory.display()));
        return ExitCode::from(output::FAILURE);
    }
    // A program of the user's own gets the limit that the caller set.
    if !matches!(&cli.command, Command::Run(run) if run.native) {
        raise_descriptor_limit();
    }
    start_log(matches!(cli.command, Command::Serve(_)));
    let code = commands::dispatch(cli);
    if output::is_lost() {
        output::error("what this command prints could not be written; free some space where it goes and ask again");
        return ExitCode::from(output::FAILURE);
    }
    code
}

/// The usual limit of 1,024 is for programs that use `select`; a run with many large files, or a server, needs more.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // With what there is most things work.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Logs go to standard error: warnings for clients, more for a server; `OPSHIP_LOG` changes it.
fn start_log(server: bool) {
    let default = if server { "info" } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("OPSHIP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .init();
}
