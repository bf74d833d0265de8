//! `--check`: whether a file is in order.

use crate::compare::{self, Line};
use crate::input;
use crate::options::Job;
use opship_ops_common::complain;
use std::cmp::Ordering;
use std::process::ExitCode;

/// Tells of the first line that is out of order, or equal to the one before where only one is wanted.
pub(crate) fn run(job: &Job, quiet: bool) -> Result<ExitCode, String> {
    let files = input::files(job)?;
    let [file] = &files[..] else {
        let extra = files.get(1).map(|f| f.display().to_string()).unwrap_or_default();
        return Err(format!("extra operand '{extra}' not allowed with --check"));
    };
    let mut buffer = Vec::new();
    input::append(file, job.rules.terminator, &mut buffer)?;
    let lines = compare::lines(&job.rules, &buffer)?;
    let disordered = |pair: &[Line<'_>]| match compare::compare(&job.rules, &pair[0], &pair[1]) {
        Ordering::Less => false,
        Ordering::Equal => job.rules.unique,
        Ordering::Greater => true,
    };
    let Some(at) = lines.windows(2).position(disordered) else {
        return Ok(ExitCode::SUCCESS);
    };
    if !quiet {
        let text = String::from_utf8_lossy(lines[at + 1].text);
        complain(&format!("sort: {}:{}: disorder: {text}", file.display(), at + 2));
    }
    Ok(ExitCode::from(1))
}
