//! Does one thing to the tree for each subcommand; for tests of world, engine and recorder.
//!
//! `treeprobe COMMAND ARGS… [+ COMMAND ARGS…]…` runs the commands in order. The first that fails prints
//! `COMMAND: ERRNO` to standard error, ends the run and makes it exit 1.
#![forbid(unsafe_code)]

mod commands;
mod errno;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    for command in args.split(|arg| arg == "+") {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match commands::run(&words) {
            Ok(None) => {}
            Ok(Some(code)) => return ExitCode::from(code),
            Err(error) => {
                eprintln!("{}: {}", words.first().unwrap_or(&""), errno::name(&error));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
