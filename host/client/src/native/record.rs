//! Recording a program that has ended.

use super::append::Operation;
use super::compare::{Done, compare};
use super::job::{Ended, Head};
use super::notes::NativeNote;
use super::residual::residual;
use super::source::NativeTree;
use crate::db::native;
use crate::modules::ModuleBook;
use crate::staging::Staging;
use crate::tree::View;
use crate::{ClientError, WorkingCopy};
use opship_engine::{Engine, Finished, failpoint};
use opship_record::answer::Reason;
use opship_record::record::{Lists, Record, StepStreams};
use opship_world::Outcome;
use std::sync::Arc;

/// What records native runs.
pub struct Recorder<'a> {
    /// The working copy.
    pub copy: &'a WorkingCopy,
    /// Its modules.
    pub book: &'a ModuleBook,
    /// Makes the engine, where there is something to run.
    pub engine: &'a (dyn Fn() -> Result<Engine, ClientError> + Sync),
}

/// What became of a native run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It changed nothing in the working copy.
    Nothing,
    /// It is an operation of the log.
    Operation {
        /// The entry's number.
        entry: u64,
    },
    /// What it changed goes by value.
    Value {
        /// The number of the value entry that has its last change; `None`: another entry has all of it already.
        entry: Option<u64>,
        /// Why.
        reason: Reason,
        /// The same for people.
        detail: String,
    },
}

/// Why there is no operation.
#[derive(Debug)]
pub(super) enum NotRecorded {
    /// What the program did goes by value.
    ByValue { reason: Reason, detail: String },
    /// The working copy could not be used.
    Failed(ClientError),
}

impl NotRecorded {
    pub(super) fn because(reason: Reason, detail: String) -> NotRecorded {
        NotRecorded::ByValue { reason, detail }
    }
}

impl From<ClientError> for NotRecorded {
    fn from(error: ClientError) -> NotRecorded {
        match error {
            ClientError::Source(error) => NotRecorded::because(Reason::InputsChanged, error.to_string()),
            ClientError::Record(error) => NotRecorded::because(Reason::Limit, error.to_string()),
            error => NotRecorded::Failed(error),
        }
    }
}

impl Recorder<'_> {
    /// Records a program that has ended: as an operation where the module does the same, by value otherwise. Runs that
    /// ended before are recorded before.
    ///
    /// # Errors
    /// [`ClientError`] from the disk or the state; the files are as the program left them, and the next scan finds them.
    pub fn record(&self, ended: &Ended) -> Result<Recorded, ClientError> {
        let _turn = self.copy.lock_recorder()?;
        let recorded = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("run".to_owned()).stack_size(opship_engine::RUN_STACK_BYTES);
            let thread = thread.spawn_scoped(scope, || self.operation(ended));
            let thread = thread.map_err(ClientError::io("starting a thread for the run"))?;
            let fault = || ClientError::Refused("the run ended by a fault of opship".to_owned());
            Ok::<_, ClientError>(thread.join().unwrap_or_else(|_| Err(fault().into())))
        })?;
        match recorded {
            Ok(Some(entry)) => Ok(Recorded::Operation { entry }),
            Ok(None) => Ok(Recorded::Nothing),
            Err(NotRecorded::ByValue { reason, detail }) => self.by_value(&ended.head, reason, detail),
            Err(NotRecorded::Failed(error)) => Err(error),
        }
    }

    fn operation(&self, ended: &Ended) -> Result<Option<u64>, NotRecorded> {
        let head = &ended.head;
        if let Some(refused) = &head.refused {
            return Err(NotRecorded::because(Reason::Policy, refused.clone()));
        }
        let Some(exit) = head.exit else {
            return Err(NotRecorded::because(Reason::OutcomeChanged, "a signal ended the program".to_owned()));
        };
        let shared = &self.copy.shared;
        let staging = Arc::new(Staging::new(shared)?);
        let tree = Arc::new(NativeTree::new(shared, &head.start, &ended.held)?);
        let (plan, Finished { outcome, micros, .. }) = self.replay(head, &tree, &staging)?;
        failpoint::hit("native-replayed");
        let Outcome { lists, files, .. } = outcome;
        if lists.exits != [u32::from(exit)] {
            let codes: Vec<String> = lists.exits.iter().map(u32::to_string).collect();
            let detail = format!("the program exits with {exit}, the module with {}", codes.join(", "));
            return Err(NotRecorded::because(Reason::OutcomeChanged, detail));
        }
        if lists.changes.is_empty() {
            return self.nothing(head);
        }
        let done = compare(shared, &tree, &lists.changes)?;
        let residual = residual(&shared.root, &done, &files, head.hint.parse().unwrap_or_default())?;
        let operation = Operation { residual, micros, ..operation(plan, lists, &done, &head.line) };
        self.copy.append_native(&operation, &tree, &staging).map(Some)
    }

    /// The module changes nothing. Did the program change something that was captured?
    fn nothing(&self, head: &Head) -> Result<Option<u64>, NotRecorded> {
        let view = View::new(&self.copy.shared);
        for captured in &head.start.states {
            let now = super::compare::state(&self.copy.shared, &view, &captured.path)?;
            let was = captured.node.as_ref().map(|node| node.kind());
            let written =
                captured.hash().is_some() && now.node.as_ref().map(|node| node.content()) != captured.content();
            if was != now.node.as_ref().map(|node| node.kind()) || written {
                let detail = format!("the program changed '{}', the module does not", captured.path);
                return Err(NotRecorded::because(Reason::Diverged, detail));
            }
        }
        Ok(None)
    }

    /// What is in the folder becomes value entries, with the reason.
    fn by_value(&self, head: &Head, reason: Reason, detail: String) -> Result<Recorded, ClientError> {
        let _lock = self.copy.lock()?;
        let (scan, entry) = self.copy.append_found()?;
        let Some(entry) = entry.filter(|_| !scan.changes.is_empty()) else {
            return Ok(Recorded::Nothing);
        };
        let note = NativeNote { command: head.line.clone(), reason, detail: detail.clone() };
        native::add_note(&self.copy.shared.db.read(), entry, &note)?;
        Ok(Recorded::Value { entry: Some(entry), reason, detail })
    }
}

/// The record of what the program did: the module's observations, and the module's changes with the program's contents,
/// modes and times. Its streams went to the caller.
fn operation<'a>(plan: opship_record::plan::Plan, lists: Lists, done: &'a Done, command: &'a str) -> Operation<'a> {
    let streams = lists.streams.iter().map(|_| StepStreams::default()).collect();
    let lists = Lists { changes: done.changes.clone(), streams, ..lists };
    let record = Record { native: Some(true), ..Record::new(plan, &lists) };
    Operation { record, lists, done, command, residual: None, micros: 0 }
}
