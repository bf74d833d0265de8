//! One run: the steps of a plan, one after the other, in one world.

use crate::error::{DETAIL, printable};
use crate::limiter::{Limiter, Refused, Room};
use crate::load::LoadedModule;
use crate::{Engine, RunError};
use opship_record::Hash;
use opship_record::plan::{PROFILE, Plan};
use opship_world::{Asked, Fault, Outcome, World, WorldConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wasmtime::{
    GcHeapOutOfMemory, Memory, Store, StoreContextMut, ThrownException, Trap, UpdateDeadline, WasmBacktrace,
};

/// Bytes at the end of standard error that are shown with a fault.
const LAST_WORDS: usize = DETAIL;

/// What to run, and how it is watched.
pub struct Run<'a> {
    /// The world that the module sees.
    pub world: WorldConfig,
    /// The modules of the plan's steps, by hash.
    pub modules: &'a BTreeMap<Hash, LoadedModule>,
    /// How long the run may take; then it ends with [`RunError::Deadline`].
    pub deadline: Option<Duration>,
    /// What to do when the run turns out to be a long one.
    pub slow: Option<Slow>,
    /// Set one of them to end the run with [`RunError::Cancelled`].
    pub cancel: Vec<Arc<AtomicBool>>,
    /// Is told what the module says about its progress: done and total, in units of the module's own.
    pub progress: Option<Progress>,
    /// Where several runs share memory: is asked for each piece of it.
    pub room: Option<Room>,
}

/// Is told done and total.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

impl<'a> Run<'a> {
    /// A run that nobody watches.
    pub fn new(world: WorldConfig, modules: &'a BTreeMap<Hash, LoadedModule>) -> Run<'a> {
        Run { world, modules, deadline: None, slow: None, cancel: Vec::new(), progress: None, room: None }
    }
}

/// Called once, in the running thread, when a run has taken a while: to lower the thread's priority and give its place to
/// another run.
pub struct Slow {
    /// After how long; looked at every 5 ms.
    pub after: Duration,
    /// What to do. `false` ends the run with [`RunError::Cancelled`].
    pub call: Box<dyn FnOnce() -> bool + Send>,
}

/// A run that ended, with whatever exit codes.
#[derive(Debug)]
pub struct Finished {
    /// All its effects.
    pub outcome: Outcome,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// What it used, for people: no part of the result.
    pub usage: Usage,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Most pages (64 KiB each) of memory that a step had.
    pub memory_pages: u64,
    /// What it asked its world for.
    pub asked: Asked,
}

/// What a module's imports work on.
pub(crate) struct RunState {
    pub(crate) world: World,
    pub(crate) memory: Option<Memory>,
    limiter: Limiter,
    progress: Option<Progress>,
    /// The progress told last.
    told: Option<(u64, u64)>,
}

/// Why guest code was left other than by returning.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("exit with code {0}")]
    Exit(u32),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("more than {limit} {what}")]
    Limit { what: &'static str, limit: u64 },
    #[error("the machine has no more memory: {0}")]
    Memory(String),
    #[error("other runs have the memory")]
    Crowded,
}

impl Engine {
    /// Runs a plan to its end, on the calling thread, which needs [`crate::RUN_STACK_BYTES`] of stack.
    ///
    /// A run that exits with any code is a result. The same modules and the same world give the same outcome.
    ///
    /// # Errors
    /// [`RunError`] if the run has no result: nothing of it is recorded.
    pub fn run(&self, run: Run<'_>) -> Result<Finished, RunError> {
        let started = Instant::now();
        let plan = &run.world.plan;
        let modules = modules(plan, run.modules)?;
        let pages = plan.run_limits().memory_pages;
        let ticking = self.tick().map_err(|e| RunError::Host { detail: format!("no thread can be started ({e})") })?;
        let deadline = run.deadline.and_then(|deadline| started.checked_add(deadline));
        let mut watch = Watch { started, deadline, slow: run.slow, cancel: run.cancel };
        let mut world = World::new(run.world)?;
        // The world works at length too, where no epoch ends it: a long file is copied, and hashed once all guests returned.
        world.watched_by(Box::new(move || watch.look().map_err(Into::into)));
        let limiter = Limiter::new(pages, self.memory_bytes(), run.room);
        let mut state = RunState { world, memory: None, limiter, progress: run.progress, told: None };
        let mut memory_pages = 0;
        for (step, module) in modules.iter().enumerate() {
            state.look().map_err(|end| run_error(step, end))?;
            state.world.begin_step(step)?;
            state.memory = None;
            state.limiter.next_step();
            let (exit, ended) = self.step(step, module, state)?;
            state = ended;
            memory_pages = memory_pages.max(state.limiter.memory_pages());
            state.world.end_step(exit)?;
        }
        state.look().map_err(|end| run_error(modules.len().saturating_sub(1), end))?;
        drop(ticking);
        let usage = Usage { memory_pages, asked: state.world.asked() };
        let outcome = state.world.finish()?;
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Ok(Finished { outcome, micros, usage })
    }

    /// Runs one module in a store of its own and gives its exit code and the state back.
    fn step(&self, step: usize, module: &LoadedModule, state: RunState) -> Result<(u32, RunState), RunError> {
        let mut store = Store::new(self.wasm(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(look);
        let ended = module
            .instance(&mut store)
            .and_then(|instance| instance.get_typed_func::<(), ()>(&mut store, "_start"))
            .and_then(|start| start.call(&mut store, ()));
        let exit = match ended.map_err(|error| left(error, &mut store.data_mut().limiter)) {
            Ok(()) => 0,
            Err(Left::End(End::Exit(code))) => code,
            Err(Left::End(end)) => return Err(run_error(step, end)),
            Err(Left::StackOverflow) => return Err(RunError::StackOverflow { step }),
            Err(Left::Trap(message)) => {
                let said = store.data().world.last_words(LAST_WORDS)?;
                let said = printable(String::from_utf8_lossy(&said).trim(), DETAIL);
                return Err(RunError::Trap { step, message, said });
            }
            Err(Left::Host(detail)) => return Err(RunError::Host { detail }),
        };
        Ok((exit, store.into_data()))
    }
}

/// The module of each step; all are there and can start within the plan's limits.
fn modules(plan: &Plan, loaded: &BTreeMap<Hash, LoadedModule>) -> Result<Vec<LoadedModule>, RunError> {
    let refuse = |detail| Err(RunError::Refused { detail });
    if plan.profile != PROFILE {
        let asked = plan.profile;
        return refuse(format!(
            "it needs engine profile {asked}, this build has {PROFILE}; update opship on this machine"
        ));
    }
    let limit = u64::from(plan.run_limits().memory_pages);
    let mut modules = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let Some(module) = loaded.get(&step.module) else {
            return refuse(format!("the module {} is not here; fetch it and run again", step.module.short()));
        };
        if module.memory_pages() > limit {
            return Err(RunError::Limit { what: "pages of memory", limit });
        }
        modules.push(module.clone());
    }
    Ok(modules)
}

/// What a run looks at every few milliseconds, and its world after each piece of its own work.
struct Watch {
    started: Instant,
    deadline: Option<Instant>,
    slow: Option<Slow>,
    cancel: Vec<Arc<AtomicBool>>,
}

impl Watch {
    fn look(&mut self) -> Result<(), RunError> {
        if self.cancel.iter().any(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(RunError::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(RunError::Deadline);
        }
        if let Some(slow) = self.slow.take_if(|slow| self.started.elapsed() >= slow.after)
            && !(slow.call)()
        {
            return Err(RunError::Cancelled);
        }
        Ok(())
    }
}

impl RunState {
    fn look(&mut self) -> Result<(), End> {
        self.limiter.world_takes(self.world.held_bytes())?;
        self.world.look()?;
        if let (Some(progress), Some((done, total))) = (&self.progress, self.world.progress())
            && self.told != Some((done, total))
        {
            self.told = Some((done, total));
            progress(done, total);
        }
        Ok(())
    }
}

/// The epoch's callback.
fn look(mut store: StoreContextMut<'_, RunState>) -> wasmtime::Result<UpdateDeadline> {
    store.data_mut().look()?;
    Ok(UpdateDeadline::Continue(1))
}

fn run_error(step: usize, end: End) -> RunError {
    match end {
        End::Fault(fault) => fault.into(),
        End::Limit { what, limit } => RunError::Limit { what, limit },
        End::Crowded => RunError::Crowded,
        End::Memory(_) => RunError::Host { detail: end.to_string() },
        End::Exit(_) => RunError::Trap { step, message: end.to_string(), said: String::new() },
    }
}

/// How guest code was left.
enum Left {
    End(End),
    StackOverflow,
    Trap(String),
    Host(String),
}

fn left(error: wasmtime::Error, limiter: &mut Limiter) -> Left {
    let error = match error.downcast::<End>() {
        Ok(end) => return Left::End(end),
        Err(error) => error,
    };
    // The heap of exceptions is limited as memory is.
    let is_full = error.is::<GcHeapOutOfMemory<()>>();
    if (is_full || error.is::<Refused>())
        && let Some(end) = limiter.refused()
    {
        return Left::End(end);
    }
    let frames = error.downcast_ref::<WasmBacktrace>().map(|trace| Frames(trace).to_string()).unwrap_or_default();
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => return Left::StackOverflow,
        Some(trap) => return Left::Trap(format!("{trap}{frames}")),
        None => {}
    }
    if error.is::<ThrownException>() {
        return Left::Trap(format!("an exception that nothing caught{frames}"));
    }
    // By the record's limit, which every world has: filling it is the module's doing.
    if is_full {
        return Left::Trap(format!("no more memory for exceptions{frames}"));
    }
    Left::Host(printable(&format!("{error:#}"), DETAIL))
}

/// Where a module stood, innermost function first.
struct Frames<'a>(&'a WasmBacktrace);

impl fmt::Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        for (index, frame) in self.0.frames().iter().take(SHOWN).enumerate() {
            f.write_str(if index == 0 { " in " } else { " < " })?;
            match frame.func_name() {
                Some(name) => f.write_str(&printable(name, 100))?,
                None => write!(f, "function {}", frame.func_index())?,
            }
        }
        if self.0.frames().len() > SHOWN { f.write_str(" < …") } else { Ok(()) }
    }
}
