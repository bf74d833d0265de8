//! The run of the module that stands for a program.

use super::job::Head;
use super::record::{NotRecorded, Recorder};
use super::source::NativeTree;
use crate::modules::ModuleChoice;
use crate::request::prepare;
use crate::staging::{Staging, StagingSpill};
use crate::{RunRequest, StdinRequest, StepRequest};
use opship_engine::{Engine, Finished, ModuleError, Run, RunError};
use opship_record::answer::Reason;
use opship_record::plan::Plan;
use opship_world::{Budget, Fixtures, WorldConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long the module may run. What takes longer goes by value.
const DEADLINE: Duration = Duration::from_secs(60);

impl Recorder<'_> {
    /// Runs the module on the tree before the program; gives the plan and what the module did.
    pub(super) fn replay(
        &self,
        head: &Head,
        tree: &Arc<NativeTree>,
        staging: &Arc<Staging>,
    ) -> Result<(Plan, Finished), NotRecorded> {
        let choice = self.module(&head.module)?;
        let engine = (self.engine)()?;
        let request = self.request(head, &choice, &engine)?;
        let mut prepared = prepare(&request, staging)?;
        prepared.plan.clock_start = u64::try_from(head.start.clock).unwrap_or(0);
        let world = WorldConfig {
            plan: prepared.plan.clone(),
            source: tree.clone(),
            spill: Arc::new(StagingSpill(staging.clone())),
            budget: request.budget,
            stdin_blobs: BTreeMap::new(),
            mounts: prepared.mounts,
            fixtures: Fixtures::default(),
        };
        let run = Run { deadline: request.deadline, ..Run::new(world, &request.modules) };
        let finished = engine.run(run).map_err(run_failed)?;
        Ok((prepared.plan, finished))
    }

    /// The module of this name, as it is known here: the server is not asked, since nobody waits for the answer.
    fn module(&self, name: &str) -> Result<ModuleChoice, NotRecorded> {
        let complete = |choice: ModuleChoice| self.book.is_complete(&choice).ok()?.then_some(choice);
        self.book.pinned(name).and_then(complete).or_else(|| self.book.embedded(name)).ok_or_else(|| {
            let next = "'opship module list' shows those that are here";
            NotRecorded::because(Reason::ModuleUnknown, format!("no module '{name}' is known here; {next}"))
        })
    }

    fn request(&self, head: &Head, choice: &ModuleChoice, engine: &Engine) -> Result<RunRequest, NotRecorded> {
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let mut bytes = || self.book.bytes(&choice.hash).map_err(std::io::Error::other)?.ok_or_else(gone);
        let (loaded, _) = engine.load(&choice.hash, &mut bytes).map_err(module_failed)?;
        // A module that looks at its name is to see the one that the program was called by.
        let first = if choice.argv0 == choice.name { &head.name } else { &choice.argv0 };
        let arguments = std::iter::once(first.clone().into_bytes()).chain(head.arguments.iter().map(|a| a.to_vec()));
        let store = self.book.mounts();
        let step = StepRequest {
            directory: head.start.directory.clone(),
            stdin: head.start.stdin.clone().map_or(StdinRequest::Empty, StdinRequest::Path),
            stdout: head.start.stdout.clone(),
            mounts: choice
                .mounts
                .iter()
                .map(|(at, tree)| (at.clone(), *tree, Arc::new(store.tree(*tree)) as _))
                .collect(),
            ..StepRequest::new(choice.hash, &choice.name, arguments)
        };
        Ok(RunRequest {
            steps: vec![step],
            modules: BTreeMap::from([(choice.hash, loaded)]),
            deadline: Some(DEADLINE),
            budget: Budget::default(),
            ..RunRequest::default()
        })
    }
}

fn module_failed(error: ModuleError) -> NotRecorded {
    let reason = match &error {
        ModuleError::Imports { .. } => Reason::Imports,
        _ => Reason::ModuleRefused,
    };
    NotRecorded::because(reason, error.to_string())
}

fn run_failed(error: RunError) -> NotRecorded {
    let reason = match error {
        RunError::Trap { .. } | RunError::StackOverflow { .. } | RunError::Refused { .. } => Reason::OutcomeChanged,
        RunError::Limit { .. } | RunError::Crowded | RunError::Record(_) => Reason::Limit,
        RunError::Deadline => Reason::ReplaySlow,
        RunError::Source(_) => Reason::InputsChanged,
        RunError::Module(error) => return module_failed(error),
        other => return NotRecorded::Failed(other.into()),
    };
    NotRecorded::because(reason, error.to_string())
}
