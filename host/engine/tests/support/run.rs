//! Running modules in text form over an empty tree.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "each test file uses its own part")]

use crate::support::load;
use opship_engine::{Engine, Finished, LoadedModule, Run, RunError};
use opship_record::plan::{PROFILE, Plan, RunLimits, Stdin, Step};
use opship_record::{FORMAT_VERSION, Hash};
use opship_world::{Budget, Fixtures, MemoryTree, Spill, SpillFile, WorldConfig};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// For runs that produce too little to spill.
struct NoSpill;

impl Spill for NoSpill {
    fn create(&self) -> io::Result<SpillFile> {
        Err(io::Error::other("nothing is spilled here"))
    }
}

/// What a test runs.
pub struct Case {
    pub plan: Plan,
    pub modules: BTreeMap<Hash, LoadedModule>,
}

impl Case {
    /// One step a module; each reads the standard output of the one before.
    pub fn new(engine: &Engine, texts: &[&str]) -> Case {
        let mut case = Case { plan: plan(), modules: BTreeMap::new() };
        for (index, text) in texts.iter().enumerate() {
            let module = load(engine, text).unwrap().0;
            let mut step = Step::new(module.hash(), ["module"]);
            step.stdin = index.checked_sub(1).map(|before| Stdin::Step { step: before.try_into().unwrap() });
            case.plan.steps.push(step);
            case.modules.insert(module.hash(), module);
        }
        case
    }

    /// With a limit of memory pages.
    pub fn pages(mut self, memory_pages: u32) -> Case {
        self.plan.limits = Some(RunLimits { memory_pages });
        self
    }

    /// A run that nobody watches.
    pub fn run(&self) -> Run<'_> {
        Run::new(world(self.plan.clone()), &self.modules)
    }
}

/// Runs a module.
pub fn run(engine: &Engine, text: &str) -> Result<Finished, RunError> {
    engine.run(Case::new(engine, &[text]).run())
}

/// Runs a module and gives its exit code.
pub fn exit(engine: &Engine, text: &str) -> u32 {
    exit_of(run(engine, text))
}

/// The exit code of a run with one step.
pub fn exit_of(result: Result<Finished, RunError>) -> u32 {
    result.unwrap().outcome.lists.exits[0]
}

/// A module that exits with the code that `body` leaves. It may call `$exit` and `$write` and use its page of memory.
pub fn module(fields: &str, body: &str) -> String {
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            {fields}
            (func (export "_start") (call $exit {body})))"#
    )
}

fn plan() -> Plan {
    Plan {
        format: FORMAT_VERSION,
        steps: Vec::new(),
        clock_start: 1_700_000_000_000_000_000,
        seed: [7; 16].into(),
        limits: None,
        profile: PROFILE,
    }
}

fn world(plan: Plan) -> WorldConfig {
    WorldConfig {
        plan,
        source: Arc::new(MemoryTree::new()),
        spill: Arc::new(NoSpill),
        budget: Budget::default(),
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        fixtures: Fixtures::default(),
    }
}
