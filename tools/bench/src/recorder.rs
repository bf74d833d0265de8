//! Runs modules in worlds of their own and makes records of it, as a client does.

use crate::error::{BenchError, Result};
use crate::place::Place;
use opship_engine::{Compiler, Engine, EngineConfig, LoadedFrom, LoadedModule, Run};
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::record::Record;
use opship_record::{FORMAT_VERSION, Hash, TreePath};
use opship_world::{Budget, Fixtures, MemoryTree, Outcome, Spill, SpillFile, WorldConfig};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A module's bytes with their hash.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// The hash.
    pub(crate) hash: Hash,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
}

/// An engine, with a folder for large outputs.
pub(crate) struct Recorder {
    engine: Engine,
    spill: PathBuf,
    modules: BTreeMap<Hash, LoadedModule>,
}

/// What a run is of, besides the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Arguments, the first of them argv\[0\].
    pub(crate) arguments: &'a [&'a str],
    /// The file that standard output goes to; `None`: a stream.
    pub(crate) stdout: Option<&'a str>,
    /// Makes clock and seed, so that no two records are the same.
    pub(crate) number: u64,
}

impl Module {
    /// Reads a module of guest-ops.
    pub(crate) fn guest(place: &Place, name: &str) -> Result<Module> {
        let bytes = place.guest(name)?;
        Ok(Module { hash: Hash::of(&bytes), bytes })
    }
}

impl Recorder {
    /// Makes an engine that compiles as users' engines do: in a child process. `cache` is its folder for compiled modules.
    pub(crate) fn new(place: &Place, cache: PathBuf) -> Result<Recorder> {
        let compiler = Compiler::Child { program: place.opship(), arguments: vec!["__compile".into()] };
        let config = EngineConfig { cache: Some(cache), ..EngineConfig::new(compiler) };
        Ok(Recorder { engine: Engine::new(config)?, spill: place.path(""), modules: BTreeMap::new() })
    }

    /// Makes a module ready.
    pub(crate) fn load(&mut self, module: &Module) -> Result<LoadedFrom> {
        let (loaded, from) = self.engine.load(&module.hash, &mut || Ok(module.bytes.clone()))?;
        self.modules.insert(module.hash, loaded);
        Ok(from)
    }

    /// Runs a module that is ready, on a tree.
    pub(crate) fn run(&self, module: &Module, call: Call<'_>, tree: &Arc<MemoryTree>) -> Result<Outcome> {
        self.run_plan(plan(module, call)?, tree)
    }

    /// Runs it and makes the record.
    pub(crate) fn record(&self, module: &Module, call: Call<'_>, tree: &Arc<MemoryTree>) -> Result<(Record, Outcome)> {
        let plan = plan(module, call)?;
        let outcome = self.run_plan(plan.clone(), tree)?;
        Ok((Record::new(plan, &outcome.lists), outcome))
    }

    fn run_plan(&self, plan: Plan, tree: &Arc<MemoryTree>) -> Result<Outcome> {
        let world = WorldConfig {
            plan,
            source: tree.clone(),
            spill: Arc::new(Spilled(self.spill.clone())),
            budget: Budget::default(),
            stdin_blobs: BTreeMap::new(),
            mounts: BTreeMap::new(),
            fixtures: Fixtures::default(),
        };
        let outcome = self.engine.run(Run::new(world, &self.modules))?.outcome;
        if outcome.lists.exits.iter().all(|code| *code == 0) {
            return Ok(outcome);
        }
        let mut said = Vec::new();
        for (_, stderr) in &outcome.streams {
            stderr.copy_to(&mut said).map_err(BenchError::io("read what a module printed"))?;
        }
        Err(BenchError::Failed(format!("a module ended badly: {}", String::from_utf8_lossy(&said))))
    }
}

/// What a call runs, with clock and seed of its own.
pub(crate) fn plan(module: &Module, call: Call<'_>) -> Result<Plan> {
    /// The first run's clock, in nanoseconds since 1970; each later one starts a second after the one before.
    const CLOCK: u64 = 1_700_000_000_000_000_000;
    let mut step = Step::new(module.hash, call.arguments.iter().copied());
    step.stdout = call.stdout.map(TreePath::new).transpose()?;
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&call.number.to_be_bytes());
    let clock_start = CLOCK + call.number * 1_000_000_000;
    Ok(Plan {
        format: FORMAT_VERSION,
        steps: vec![step],
        clock_start,
        seed: seed.into(),
        limits: None,
        profile: PROFILE,
    })
}

/// Large outputs in a folder, without names.
struct Spilled(PathBuf);

impl Spill for Spilled {
    fn create(&self) -> io::Result<SpillFile> {
        Ok(SpillFile { file: tempfile::tempfile_in(&self.0)?, path: None })
    }
}
