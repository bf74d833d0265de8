//! Compresses and decompresses files as GNU gzip's users expect. Under the names `gunzip` and `zcat`
//! it decompresses, to the file's place or to standard output.
#![forbid(unsafe_code)]

mod exchange;
mod files;
mod list;
mod names;
mod options;
mod session;
mod stream;

use opship_ops_common::{complain, print, reason};
use options::{Command, HELP, VERSION};
use session::Session;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let (options, operands) = match options::parse(&program, args) {
        Ok(Command::Run(options, operands)) => (options, operands),
        Ok(Command::Help) => return shown(HELP),
        Ok(Command::Version) => return shown(VERSION),
        Err(message) => {
            complain(&format!("gzip: {message}\nTry 'gzip --help' for more information."));
            return ExitCode::FAILURE;
        }
    };
    let mut session = Session::new(options);
    if operands.is_empty() {
        files::treat_stdin(&mut session);
    }
    for operand in &operands {
        files::treat(&mut session, operand);
    }
    list::finish(&mut session, operands.len());
    session.exit_code()
}

fn shown(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("gzip: stdout: {}", reason(&error)));
            ExitCode::FAILURE
        }
    }
}
