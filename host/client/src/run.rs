//! Running an operation: world, record, check, capture, intent, exchange, append.

use crate::capture::{Captured, capture, note_kept};
use crate::check::check;
use crate::db::intent::{self, Intent};
use crate::db::log::{self, NewEntry};
use crate::exchange::finish;
use crate::identity::Identity;
use crate::log::EntryState;
use crate::own::OwnOutputs;
use crate::request::{Prepared, prepare};
use crate::source::{Seen, WorkingTree};
use crate::stage::{Bytes, stage};
use crate::staging::{Staging, StagingSpill};
use crate::steps::{Expected, Planner, Standing, Step};
use crate::values;
use crate::{ClientError, WorkingCopy};
use opship_engine::{Engine, Finished, Run, RunError, failpoint};
use opship_record::effect::{After, Change, Origins};
use opship_record::entry::Body;
use opship_record::node::DEFAULT_FILE_MODE;
use opship_record::record::{Lists, Record};
use opship_record::{Hash, TreePath};
use opship_world::{Fixtures, Outcome, Produced, SourceNode, TreeSource, WorldConfig};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

pub use crate::request::{RunRequest, StdinRequest, StepRequest};

/// How often a run is made at most, where files change under it.
const ATTEMPTS: u32 = 3;

/// What a run did.
#[derive(Debug)]
pub struct RunReport {
    /// Exit code of each step.
    pub exits: Vec<u32>,
    /// Number of its entry in the log; `None`: it changed nothing and wrote nothing, so there is none.
    pub entry: Option<u64>,
    /// How many paths it changed.
    pub changes: usize,
    /// Standard output and standard error of each step, to be passed on: [`RunReport::copy_streams`].
    pub streams: Vec<(Produced, Produced)>,
    /// How long the module ran, in microseconds.
    pub micros: u64,
    /// Is the standard output of a step read by a later one?
    piped: Vec<bool>,
}

impl RunReport {
    /// The exit code of the whole: that of the last step that did not end with 0.
    pub fn exit(&self) -> u32 {
        self.exits.iter().rev().copied().find(|code| *code != 0).unwrap_or(0)
    }

    /// Passes the streams on to the caller's. The operation stands whether that succeeds or not.
    ///
    /// # Errors
    /// The sinks'; [`io::ErrorKind::BrokenPipe`] if the reader has gone.
    pub fn copy_streams(&self, stdout: &mut dyn Write, stderr: &mut dyn Write) -> io::Result<()> {
        for ((out, error), piped) in self.streams.iter().zip(&self.piped) {
            // Errors first: they tell why the output is as it is, also where its reader has gone.
            error.copy_to(stderr)?;
            if !piped {
                out.copy_to(stdout)?;
            }
        }
        stderr.flush()?;
        stdout.flush()
    }
}

impl WorkingCopy {
    /// The tree as a run would see it, to look at. Contents that the server does not hold are copied, so that they stay
    /// as they are; the copies go with the tree.
    ///
    /// # Errors
    /// [`ClientError`] from the disk.
    pub fn tree(&self) -> Result<Arc<dyn TreeSource>, ClientError> {
        let staging = Arc::new(Staging::new(&self.shared)?);
        Ok(Arc::new(WorkingTree::new(&self.shared, staging, OwnOutputs::of_process())))
    }

    /// Runs an operation on the working copy and applies it. If files that it depends on change under it, it is run
    /// again, three times at most.
    ///
    /// # Errors
    /// [`ClientError`]; nothing was changed then, unless the error came from the exchange itself, which the next
    /// [`WorkingCopy::open`] finishes.
    pub fn run(&self, engine: &Engine, request: RunRequest) -> Result<RunReport, ClientError> {
        let run = || self.run_here(engine, &request);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("run".to_owned()).stack_size(opship_engine::RUN_STACK_BYTES);
            let thread = thread.spawn_scoped(scope, run).map_err(ClientError::io("starting a thread for the run"))?;
            thread.join().unwrap_or_else(|_| Err(ClientError::Refused("the run ended by a fault of opship".to_owned())))
        })
    }

    fn run_here(&self, engine: &Engine, request: &RunRequest) -> Result<RunReport, ClientError> {
        let own = OwnOutputs::of_process();
        let mut attempt = 1;
        loop {
            match self.attempt(engine, request, &own) {
                Err(error) if attempt < ATTEMPTS && may_pass(&error) => {
                    tracing::info!(%error, attempt, "running again");
                    attempt += 1;
                }
                Err(ClientError::Run(RunError::Source(source))) if source.changed => {
                    return Err(ClientError::Changed { path: source.path });
                }
                Err(ClientError::Source(source)) if source.changed => {
                    return Err(ClientError::Changed { path: source.path });
                }
                other => return other,
            }
        }
    }

    fn attempt(&self, engine: &Engine, request: &RunRequest, own: &OwnOutputs) -> Result<RunReport, ClientError> {
        let staging = Arc::new(Staging::new(&self.shared)?);
        let tree = Arc::new(WorkingTree::new(&self.shared, staging.clone(), own.clone()));
        let prepared = prepare(request, &staging)?;
        let world = WorldConfig {
            plan: prepared.plan.clone(),
            source: tree.clone(),
            spill: Arc::new(StagingSpill(staging.clone())),
            budget: request.budget,
            stdin_blobs: prepared.stdin_blobs.clone(),
            mounts: prepared.mounts.clone(),
            fixtures: Fixtures::default(),
        };
        let run = Run {
            cancel: request.cancel.iter().cloned().collect(),
            progress: request.progress.clone(),
            deadline: request.deadline,
            ..Run::new(world, &request.modules)
        };
        let Finished { outcome, micros, .. } = engine.run(run)?;
        self.apply(request, prepared, outcome, micros, &Parts { staging, tree })
    }

    /// Applies what a run did, under the lock.
    fn apply(
        &self,
        request: &RunRequest,
        prepared: Prepared,
        outcome: Outcome,
        micros: u64,
        parts: &Parts,
    ) -> Result<RunReport, ClientError> {
        let Outcome { lists, files, streams } = outcome;
        let record = Record::new(prepared.plan.clone(), &lists);
        let mut report = RunReport {
            exits: lists.exits.clone(),
            entry: None,
            changes: lists.changes.len(),
            streams,
            micros,
            piped: prepared.piped,
        };
        if lists.changes.is_empty() && record.streams.is_none() {
            return Ok(report);
        }
        let _lock = self.lock()?;
        check(&self.shared, &parts.tree, &lists)?;
        let captured = capture(&self.shared, &parts.tree, &lists, &prepared.copies)?;
        failpoint::hit("captured");
        let resolved = resolve_modes(&parts.tree, &lists.changes);
        let steps = self.stage_and_plan(parts, &lists.changes, &resolved, files)?;
        failpoint::hit("staged");
        let command = request.command_line();
        let entry =
            self.append(&record, &lists, (&command, micros), &captured, steps, resolved, parts.staging.folder())?;
        report.entry = Some(entry);
        Ok(report)
    }

    fn stage_and_plan(
        &self,
        parts: &Parts,
        changes: &[Change],
        resolved: &[Change],
        mut files: BTreeMap<TreePath, Produced>,
    ) -> Result<Vec<Step>, ClientError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let staged = stage(&self.shared, &parts.staging, resolved, &mut |path, hash| match files.remove(path) {
            Some(produced) => Ok(Bytes::Produced(produced)),
            None => parts.tree.content_with(hash).map(Bytes::Content),
        })?;
        let planner = Planner {
            changes,
            staged: &staged,
            standing: &|path| standing(&parts.tree, path),
            new_slot: &|| parts.staging.new_path(),
        };
        planner.plan()
    }

    /// Makes the intent durable, with the captured values and the record in it, and carries it out.
    #[allow(clippy::too_many_arguments)]
    fn append(
        &self,
        record: &Record,
        lists: &Lists,
        (command, micros): (&str, u64),
        captured: &Captured,
        steps: Vec<Step>,
        resolved: Vec<Change>,
        folder: &str,
    ) -> Result<u64, ClientError> {
        let body = Body::Operation(record.clone());
        let state = if steps.is_empty() { EntryState::Pending } else { EntryState::Applying };
        let (id, intent) = self.shared.db.write(|db| {
            let value = values::append(db, &captured.states)?;
            let value_bytes = values::value_bytes(&lists.changes);
            let new = NewEntry { body: &body, lists, command, value_bytes, state, run_micros: Some(micros) };
            let entry = log::append(db, &Identity::client(db)?, &new)?;
            note_kept(db, captured, value, entry)?;
            let intent = Intent { entry, folder: folder.to_owned(), steps, changes: resolved };
            let id = if intent.steps.is_empty() { 0 } else { intent::insert(db, &intent)? };
            Ok::<_, ClientError>((id, intent))
        })?;
        failpoint::hit("intent");
        if !intent.steps.is_empty() {
            finish(&self.shared, id, &intent)?;
        }
        Ok(intent.entry)
    }
}

/// What belongs to one attempt.
struct Parts {
    staging: Arc<Staging>,
    tree: Arc<WorkingTree>,
}

/// May a repeated run succeed?
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Changed { .. } => true,
        ClientError::Source(source) | ClientError::Run(RunError::Source(source)) => source.changed,
        _ => false,
    }
}

/// What stands at a path that the run saw.
fn standing(tree: &WorkingTree, path: &TreePath) -> Result<Standing, ClientError> {
    let Some(present) = tree.present(path)? else { return Ok(Standing::Nothing) };
    let signature = &present.visible.found.signature;
    let hash = match &present.visible.node {
        SourceNode::Directory { .. } => return Ok(Standing::Directory(signature.inode)),
        SourceNode::Symlink { target, .. } => Hash::of(target),
        SourceNode::File { .. } => match present.hash {
            Some(hash) => hash,
            None => tree.content(path)?.hash()?,
        },
    };
    Ok(Standing::Leaf(Expected::new(hash, signature, present.is_racy())))
}

/// The changes with every kept mode of a file filled in, so that what is staged and indexed needs no look at what was.
fn resolve_modes(tree: &WorkingTree, changes: &[Change]) -> Vec<Change> {
    let origins = Origins::new(changes);
    let kept = |path: &TreePath| -> u16 {
        let Some(Seen::Present(present)) = origins.of(path).and_then(|origin| tree.seen(&origin)) else {
            return DEFAULT_FILE_MODE;
        };
        match present.visible.node {
            SourceNode::File { mode, .. } => mode,
            _ => DEFAULT_FILE_MODE,
        }
    };
    let resolved = changes.iter().cloned().map(|mut change| {
        if let After::File { mode, .. } = &mut change.after {
            let was_file = !matches!(change.before, opship_record::effect::Before::Absent { .. });
            mode.get_or_insert_with(|| if was_file { kept(&change.path) } else { DEFAULT_FILE_MODE });
        }
        change
    });
    resolved.collect()
}
