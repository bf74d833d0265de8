//! `--merge`: files that are sorted already.

use crate::compare::{self, Line, Rules};
use crate::input;
use crate::options::Job;
use crate::output;
use std::cmp::Ordering;
use std::process::ExitCode;

pub(crate) fn run(job: &Job) -> Result<ExitCode, String> {
    let mut buffers = Vec::new();
    for file in input::files(job)? {
        let mut buffer = Vec::new();
        input::append(&file, job.rules.terminator, &mut buffer)?;
        buffers.push(buffer);
    }
    let mut sources = Vec::new();
    for buffer in &buffers {
        sources.push(compare::lines(&job.rules, buffer)?);
    }
    output::write(job, merged(&job.rules, &sources).into_iter())?;
    Ok(ExitCode::SUCCESS)
}

/// Always the least of the sources' next lines, of equal ones the earlier source's.
fn merged<'a>(rules: &Rules, sources: &'a [Vec<Line<'a>>]) -> Vec<&'a Line<'a>> {
    let total = sources.iter().map(Vec::len).sum();
    let mut result: Vec<&Line<'_>> = Vec::with_capacity(total);
    let order = |a: &Head<'_>, b: &Head<'_>| compare::compare(rules, a.line, b.line).then(a.source.cmp(&b.source));
    let head = |source: usize, at: usize| Some(Head { line: sources[source].get(at)?, source, at });
    // Sorted with the least last, so that it is taken and its successor put in cheaply.
    let mut heads: Vec<_> = (0..sources.len()).filter_map(|source| head(source, 0)).collect();
    heads.sort_by(|a, b| order(b, a));
    while let Some(least) = heads.pop() {
        let repeated = |last: &&Line<'_>| compare::compare(rules, last, least.line) == Ordering::Equal;
        if !(rules.unique && result.last().is_some_and(repeated)) {
            result.push(least.line);
        }
        if let Some(next) = head(least.source, least.at + 1) {
            let at = heads.partition_point(|h| order(h, &next) == Ordering::Greater);
            heads.insert(at, next);
        }
    }
    result
}

/// A source's next line.
struct Head<'a> {
    line: &'a Line<'a>,
    source: usize,
    at: usize,
}
