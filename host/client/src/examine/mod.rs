//! What `opship module check` tells: a module runs in worlds that differ in one thing each, and what it did is compared.
//!
//! Two kinds of worlds. Those that a record tells apart (clock, seed, order of the environment): what a module makes of
//! them is its nature. And those that are equal for a module (run again, listed in another order, compiled for another
//! target, beside load): there it must do the same to the byte.

mod busy;
mod compare;
mod report;
#[cfg(test)]
mod tests;
mod trees;
mod worlds;

pub use compare::{Aspect, Difference, Place};
pub use report::{Comparison, Compiled, Examination, Found, Ran};
pub use worlds::Perturbation;

use crate::ClientError;
use crate::fs::{KeptContent, stream_hashed};
use crate::request::{StdinRequest, StepRequest};
use busy::Busy;
use opship_engine::{Compiler, Engine, EngineConfig, Finished, LoadedModule, ModuleError, Run, RunError, Target};
use opship_record::plan::{PROFILE, Plan, Stdin, Step};
use opship_record::record::Record;
use opship_record::{FORMAT_VERSION, Hash};
use opship_world::{Budget, FileContent, Fixtures, Spill, SpillFile, TreeSource, WorldConfig};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trees::{Reversed, Still};

/// What to examine.
pub struct ExamineRequest {
    /// The module's bytes.
    pub module: Vec<u8>,
    /// How it is called.
    pub step: StepRequest,
    /// The tree to run on. It is read only.
    pub tree: Arc<dyn TreeSource>,
    /// Real time at the start, in nanoseconds since 1970.
    pub clock_start: u64,
    /// How modules are compiled.
    pub compiler: Compiler,
    /// A folder for what the runs produce and for compiled modules; left empty.
    pub scratch: PathBuf,
    /// How long one run may take.
    pub deadline: Duration,
    /// What one run may take of the host.
    pub budget: Budget,
    /// Most bytes of one run's memory.
    pub memory_bytes: u64,
    /// Is told how many worlds of how many are done.
    pub progress: Option<Box<dyn Fn(usize, usize) + Send + Sync>>,
}

/// How long a run of the interpreter may take; then it is left out of the comparison.
const INTERPRETER_PATIENCE: Duration = Duration::from_secs(120);

/// Runs a module in worlds that differ in one thing each and compares what it did. Nothing is changed or recorded.
///
/// # Errors
/// [`ClientError::Run`] with [`RunError::Module`] if the module is refused; [`ClientError::Io`]. A run that traps or meets
/// a limit is no error but told in the result.
pub fn examine(request: &ExamineRequest) -> Result<Examination, ClientError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("examine".to_owned()).stack_size(opship_engine::RUN_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || Examiner::new(request)?.examine());
        let thread = thread.map_err(ClientError::io("starting a thread for the runs"))?;
        thread.join().unwrap_or_else(|_| Err(ClientError::Refused("the run ended by a fault of opship".to_owned())))
    })
}

struct Examiner<'a> {
    request: &'a ExamineRequest,
    plan: Plan,
    tree: Arc<Still>,
    stdin: Blobs,
    spill: Arc<TemporarySpill>,
    folder: tempfile::TempDir,
}

/// Contents by hash.
type Blobs = BTreeMap<Hash, Arc<dyn FileContent>>;

/// A module that can be run, and the engine to run it.
struct Ready {
    engine: Engine,
    modules: BTreeMap<Hash, LoadedModule>,
    compiled: Compiled,
}

impl<'a> Examiner<'a> {
    fn new(request: &'a ExamineRequest) -> Result<Examiner<'a>, ClientError> {
        let folder = tempfile::Builder::new().prefix("opship-check-").tempdir_in(&request.scratch);
        let folder = folder.map_err(ClientError::io(format!("making a folder in '{}'", request.scratch.display())))?;
        let mut stdin = Blobs::new();
        let plan = request.plan(request.stdin(folder.path(), &mut stdin)?)?;
        plan.validate()?;
        Ok(Examiner {
            request,
            plan,
            tree: Arc::new(Still::new(request.tree.clone())),
            stdin,
            spill: Arc::new(TemporarySpill(folder.path().to_owned())),
            folder,
        })
    }

    fn examine(&self) -> Result<Examination, ClientError> {
        let first = self.load(Target::Host)?;
        let info = first.engine.inspect(&self.request.module).map_err(RunError::Module)?;
        let mut compiled = vec![first.compiled];
        let ran = match self.run(&first, self.plan.clone(), self.tree.clone(), self.request.deadline) {
            Ok(base) => Ok(self.compare(&first, base, &mut compiled)?),
            Err(error) => Err(error),
        };
        Ok(Examination { info, compiled, ran })
    }

    /// Runs all other worlds and compares each with the first.
    fn compare(&self, first: &Ready, base: Finished, compiled: &mut Vec<Compiled>) -> Result<Ran, ClientError> {
        let mut times = vec![base.micros];
        let mut comparisons = Vec::new();
        for (done, world) in Perturbation::ALL.into_iter().enumerate() {
            if let Some(progress) = &self.request.progress {
                progress(done, Perturbation::ALL.len());
            }
            let found = match self.other(world, first, compiled)? {
                Other::Skipped(why) => Found::Skipped(why),
                Other::Ended(error) => Found::Ended(error),
                Other::Finished(other) => {
                    if world.runs_as_fast() {
                        times.push(other.micros);
                    }
                    let differences = compare::compare(&base.outcome, &other.outcome, world.compares_times());
                    let differences = differences.map_err(ClientError::io("comparing what the runs produced"))?;
                    if differences.is_empty() { Found::Same } else { Found::Differs(differences) }
                }
            };
            comparisons.push(Comparison { world, found });
        }
        times.sort_unstable();
        let micros = times.get(times.len() / 2).copied().unwrap_or(base.micros);
        let record = Record::new(self.plan.clone(), &base.outcome.lists);
        Ran::new(&base, micros, record.encode().len(), comparisons)
            .map_err(ClientError::io("reading what the run said"))
    }

    /// Runs the module in one other world.
    fn other(&self, world: Perturbation, first: &Ready, compiled: &mut Vec<Compiled>) -> Result<Other, ClientError> {
        let Some(plan) = world.plan(&self.plan) else {
            return Ok(Other::Skipped("there are no two variables to exchange".to_owned()));
        };
        let tree: Arc<dyn TreeSource> = match world {
            Perturbation::ListingOrder => Arc::new(Reversed(self.tree.clone())),
            _ => self.tree.clone(),
        };
        let own = match world.has_own_engine().then(|| self.load(world.target())).transpose() {
            Err(ClientError::Run(RunError::Module(error))) if is_about_target(&error) => {
                return Ok(Other::Skipped(error.to_string()));
            }
            own => own?,
        };
        compiled.extend(own.iter().map(|ready| ready.compiled).filter(|made| made.target != Target::Host));
        let patience = if world == Perturbation::Interpreter { INTERPRETER_PATIENCE } else { Duration::MAX };
        let busy = (world == Perturbation::Load).then(Busy::start).transpose();
        let busy = busy.map_err(ClientError::io("starting threads"))?;
        let finished = self.run(own.as_ref().unwrap_or(first), plan, tree, patience.min(self.request.deadline));
        drop(busy);
        match finished {
            Ok(finished) => Ok(Other::Finished(Box::new(finished))),
            Err(RunError::Source(error)) => Err(error.into()),
            Err(error @ RunError::Host { .. }) => Err(error.into()),
            Err(RunError::Deadline) if !world.runs_as_fast() => Ok(Other::Skipped("it took too long there".to_owned())),
            Err(error) => Ok(Other::Ended(error.to_string())),
        }
    }

    /// An engine of its own, so that nothing is in its memory, with the module: compiled anew, or from the disk if an
    /// earlier one of the same target left it there.
    fn load(&self, target: Target) -> Result<Ready, ClientError> {
        let cache = Some(self.folder.path().join("compiled"));
        let memory_bytes = self.request.memory_bytes;
        let config = EngineConfig { target, cache, memory_bytes, ..EngineConfig::new(self.request.compiler.clone()) };
        let engine = Engine::new(config).map_err(|error| ClientError::Refused(error.to_string()))?;
        let (hash, started) = (self.request.step.module, Instant::now());
        let mut bytes = || Ok(self.request.module.clone());
        let (module, _) = engine.load(&hash, &mut bytes).map_err(RunError::Module)?;
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let compiled = Compiled { target, micros, bytes: module.compiled_bytes() };
        Ok(Ready { engine, modules: BTreeMap::from([(hash, module)]), compiled })
    }

    fn run(
        &self,
        ready: &Ready,
        plan: Plan,
        source: Arc<dyn TreeSource>,
        deadline: Duration,
    ) -> Result<Finished, RunError> {
        let mounts = self.request.step.mounts.iter().map(|(_, hash, tree)| (*hash, tree.clone())).collect();
        let world = WorldConfig {
            plan,
            source,
            spill: self.spill.clone(),
            budget: self.request.budget,
            stdin_blobs: self.stdin.clone(),
            mounts,
            fixtures: Fixtures::default(),
        };
        ready.engine.run(Run { deadline: Some(deadline), ..Run::new(world, &ready.modules) })
    }
}

/// How a run in another world ended.
enum Other {
    Finished(Box<Finished>),
    Ended(String),
    Skipped(String),
}

/// Only the compiler of this target, or its limits, stand in the way.
fn is_about_target(error: &ModuleError) -> bool {
    matches!(error, ModuleError::CompileFailed { .. } | ModuleError::CompileLimit { .. })
}

impl ExamineRequest {
    /// The first world's plan. Its seed is drawn anew each time, so that no module can tell that it is examined.
    fn plan(&self, stdin: Option<Stdin>) -> Result<Plan, ClientError> {
        let mut seed = [0; 16];
        let drawn = getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()));
        drawn.map_err(ClientError::io("drawing random bytes"))?;
        Ok(Plan {
            format: FORMAT_VERSION,
            steps: vec![Step { stdin, ..self.step.without_stdin() }],
            clock_start: self.clock_start,
            seed: seed.into(),
            limits: None,
            profile: PROFILE,
        })
    }

    /// Standard input, kept in `folder` so that each run reads the same.
    fn stdin(&self, folder: &Path, blobs: &mut Blobs) -> Result<Option<Stdin>, ClientError> {
        let keep = |mut from: &mut dyn io::Read| {
            let mut file = tempfile::tempfile_in(folder)?;
            let (length, hash) = stream_hashed(&mut from, &mut file)?;
            Ok::<_, io::Error>(KeptContent { file, length, hash, path: "standard input".to_owned() })
        };
        let kept = match &self.step.stdin {
            StdinRequest::Empty => return Ok(None),
            StdinRequest::Path(path) => return Ok(Some(Stdin::Path { path: path.clone() })),
            StdinRequest::Step(step) => return Ok(Some(Stdin::Step { step: *step })),
            StdinRequest::Bytes(bytes) => keep(&mut bytes.as_slice()),
            StdinRequest::File(file) => keep(&mut &*file),
        };
        let content = kept.map_err(ClientError::io("keeping standard input"))?;
        let hash = content.hash;
        blobs.insert(hash, Arc::new(content));
        Ok(Some(Stdin::Blob { hash }))
    }
}

/// Large contents go to files that have no name.
struct TemporarySpill(PathBuf);

impl Spill for TemporarySpill {
    fn create(&self) -> io::Result<SpillFile> {
        Ok(SpillFile { file: tempfile::tempfile_in(&self.0)?, path: None })
    }
}
