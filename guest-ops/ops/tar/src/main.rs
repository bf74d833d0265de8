//! Creates, lists and extracts archives as GNU tar's users expect.
#![forbid(unsafe_code)]

mod create;
mod extract;
mod header;
mod list;
mod member;
mod names;
mod options;
mod pattern;
mod place;
mod read;
mod select;
mod session;
mod sparse;
mod usage;
mod write;

use opship_ops_common::{complain, print, reason};
use options::{Command, Task};
use session::Session;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1).collect();
    let job = match options::parse(args) {
        Ok(Command::Run(job)) => job,
        Ok(Command::Show(text)) => {
            return match print(text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fatal(&format!("stdout: {}", reason(&error))),
            };
        }
        Err(message) => return fatal(&format!("{message}\nTry 'tar --help' for more information.")),
    };
    let mut session = Session::new(&job);
    let result = match job.task {
        Task::Create => create::run(&job, &mut session),
        Task::List => list::run(&job, &mut session),
        Task::Extract => extract::run(&job, &mut session),
    };
    match result {
        Ok(()) => session.exit_code(),
        Err(message) => fatal(&format!("{message}\ntar: Error is not recoverable: exiting now")),
    }
}

fn fatal(message: &str) -> ExitCode {
    complain(&format!("tar: {message}"));
    ExitCode::from(2)
}
