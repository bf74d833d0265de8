//! Messages of one call of the program, and the exit code they lead to.

use crate::names::{quoted, shown};
use crate::options::Job;
use opship_ops_common::{complain, reason};
use std::collections::HashSet;
use std::io::{self, BufWriter, Stdout, Write};
use std::process::ExitCode;

pub(crate) struct Session {
    /// Where names are listed; `None`: to standard error, since standard output carries data.
    names: Option<BufWriter<Stdout>>,
    failed: bool,
    differs: bool,
    /// What was said that needs saying once only.
    said: HashSet<String>,
}

impl Session {
    pub(crate) fn new(job: &Job) -> Self {
        let names = (!job.stdout_is_data()).then(|| BufWriter::with_capacity(64 << 10, io::stdout()));
        Self { names, failed: false, differs: false, said: HashSet::new() }
    }

    /// Something was not done; the rest goes on. Exit code 2.
    pub(crate) fn error(&mut self, name: &[u8], what: &str) {
        complain(&format!("tar: {}: {what}", shown(name)));
        self.failed = true;
    }

    /// As [`Session::error`], with what the world answered.
    pub(crate) fn failed(&mut self, name: &[u8], what: &str, error: &io::Error) {
        self.error(name, &format!("{what}: {}", reason(error)));
    }

    /// What was stored is not what is there now. Exit code 1.
    pub(crate) fn differs(&mut self, name: &[u8], what: &str) {
        complain(&format!("tar: {}: {what}", shown(name)));
        self.differs = true;
    }

    /// Worth knowing, but nothing is wrong.
    pub(crate) fn note(&mut self, name: &[u8], what: &str) {
        complain(&format!("tar: {}: {what}", shown(name)));
    }

    /// Tells once what is left out of names of a kind.
    pub(crate) fn stripped(&mut self, prefix: &[u8], kind: &str) {
        let message = format!("tar: Removing leading `{}' from {kind}", shown(prefix));
        if !self.said.contains(&message) {
            complain(&message);
            self.said.insert(message);
        }
    }

    /// A line about a member, where those belong.
    pub(crate) fn list(&mut self, line: &str) -> Result<(), String> {
        match &mut self.names {
            Some(names) => writeln!(names, "{line}").map_err(|e| format!("stdout: {}", reason(&e))),
            None => {
                complain(line);
                Ok(())
            }
        }
    }

    pub(crate) fn list_name(&mut self, name: &[u8]) -> Result<(), String> {
        self.list(&quoted(name))
    }

    pub(crate) fn exit_code(mut self) -> ExitCode {
        if let Some(Err(error)) = self.names.as_mut().map(Write::flush) {
            complain(&format!("tar: stdout: {}", reason(&error)));
            self.failed = true;
        }
        if self.failed {
            complain("tar: Exiting with failure status due to previous errors");
            return ExitCode::from(2);
        }
        ExitCode::from(u8::from(self.differs))
    }
}
