//! Sorts, merges and checks lines as GNU sort does in the C locale.
#![forbid(unsafe_code)]

mod bytes;
mod check;
mod compare;
mod input;
mod keys;
mod merge;
mod number;
mod options;
mod order;
mod output;
mod version;

use opship_ops_common::{complain, print};
use options::{Command, Job, Task};
use std::process::ExitCode;

/// Exit code of anything that goes wrong; 1 says that `--check` found disorder.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    let result = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(job)) => run(&job),
        Ok(Command::Show(text)) => print(text).map(|()| ExitCode::SUCCESS).map_err(|e| output::failed(&e)),
        Err(message) => Err(format!("{message}\nTry 'sort --help' for more information.")),
    };
    result.unwrap_or_else(|message| {
        complain(&format!("sort: {message}"));
        ExitCode::from(TROUBLE)
    })
}

fn run(job: &Job) -> Result<ExitCode, String> {
    match job.task {
        Task::Check { quiet } => check::run(job, quiet),
        Task::Merge => merge::run(job),
        Task::Sort => sort(job),
    }
}

fn sort(job: &Job) -> Result<ExitCode, String> {
    let buffer = input::read_all(job)?;
    let mut lines = compare::lines(&job.rules, &buffer)?;
    compare::sort(&job.rules, &mut lines);
    output::write(job, lines.iter())?;
    Ok(ExitCode::SUCCESS)
}
