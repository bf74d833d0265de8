//! Which members are meant, and which part of their names counts.

use crate::names;
use crate::options::{Job, Named};
use crate::pattern;
use crate::session::Session;
use std::path::Path;

/// The names on the command line, with what was found of them.
pub(crate) struct Selection<'a> {
    job: &'a Job,
    found: Vec<bool>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        Self { job, found: vec![false; job.names.len()] }
    }

    /// The directory that a member belongs to; `None` if it is not meant.
    pub(crate) fn base(&mut self, name: &[u8]) -> Option<&'a Path> {
        let job = self.job;
        if job.exclude.iter().any(|p| pattern::excludes(p, names::trimmed(name))) {
            return None;
        }
        if job.names.is_empty() {
            return Some(&job.base);
        }
        let mut base = None;
        for (named, found) in job.names.iter().zip(&mut self.found) {
            if fits(job, named, name) {
                *found = true;
                base = base.or(Some(named.base.as_path()));
            }
        }
        base
    }

    /// Tells of the names that no member had.
    pub(crate) fn finish(&self, session: &mut Session) {
        for (named, found) in self.job.names.iter().zip(&self.found) {
            if !found {
                session.error(&named.name, "Not found in archive");
            }
        }
    }
}

/// Whether a member is what is named, or below it.
fn fits(job: &Job, named: &Named, member: &[u8]) -> bool {
    let (wanted, member) = (names::trimmed(&named.name), names::trimmed(member));
    if job.wildcards {
        let ends = (0..=member.len()).filter(|&at| member.get(at).is_none_or(|&b| b == b'/'));
        return ends.into_iter().any(|end| pattern::matches(wanted, &member[..end]));
    }
    member.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || wanted.ends_with(b"/"))
}
