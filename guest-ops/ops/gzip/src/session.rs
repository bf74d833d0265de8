//! One call of the program: its options, its messages, the exit code they lead to.

use crate::list::Totals;
use crate::options::Options;
use opship_ops_common::complain;
use std::path::Path;
use std::process::ExitCode;

pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) totals: Totals,
    failed: bool,
    warned: bool,
}

impl Session {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, totals: Totals::default(), failed: false, warned: false }
    }

    pub(crate) fn error(&mut self, path: &Path, what: &str) {
        complain(&format!("gzip: {}: {what}", path.display()));
        self.failed = true;
    }

    pub(crate) fn warn(&mut self, message: &str) {
        if !self.options.quiet {
            complain(&format!("gzip: {message}"));
        }
        self.warned = true;
    }

    /// A word on what was done, if asked for.
    pub(crate) fn tell(&self, line: &str) {
        if self.options.verbose {
            complain(line);
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match (self.failed, self.warned) {
            (true, _) => ExitCode::from(1),
            (false, true) => ExitCode::from(2),
            (false, false) => ExitCode::SUCCESS,
        }
    }
}
