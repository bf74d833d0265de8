//! Replaying a case on a target, and telling what came out otherwise.

use super::Case;
use crate::conformance::TempSpill;
use opship_engine::{
    Compiler, Engine, EngineConfig, LoadedModule, ModuleError, RUN_STACK_BYTES, Run, RunError, Target,
};
use opship_record::Hash;
use opship_record::plan::Plan;
use opship_record::record::{Lists, Record};
use opship_world::{Budget, Fixtures, MemoryContent, MemoryTree, WorldConfig};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Runs plans on one target.
pub struct Replayer {
    target: Target,
    engine: Engine,
    modules: BTreeMap<Hash, LoadedModule>,
    refused: BTreeMap<Hash, ModuleError>,
}

/// How a replay ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Replayed {
    /// As recorded.
    Same,
    /// Otherwise: what differs, a line each.
    Differs(Vec<String>),
    /// Not at all: the target refuses a module.
    Refused(ModuleError),
}

/// What a run stands on.
#[derive(Debug, Clone)]
pub struct World {
    /// The tree.
    pub tree: MemoryTree,
    /// Bytes of standard input, where that is a blob.
    pub stdin: Option<Vec<u8>>,
    /// What steps may mount, by name.
    mounts: BTreeMap<String, MemoryTree>,
}

impl World {
    /// The world on one of the corpus's trees.
    pub fn new(trees: BTreeMap<String, MemoryTree>, tree: &str, stdin: Option<Vec<u8>>) -> World {
        let tree = trees.get(tree).unwrap_or_else(|| panic!("there is no tree '{tree}'")).clone();
        World { tree, stdin, mounts: trees }
    }

    /// What stands in a record of the corpus for a mounted tree: a world only asks for it by that hash.
    pub(super) fn mounted(name: &str) -> Hash {
        Hash::of(name.as_bytes())
    }
}

impl Replayer {
    /// Compiles modules for a target.
    pub fn new(target: Target, modules: &BTreeMap<Hash, Vec<u8>>) -> Replayer {
        let engine = Engine::new(EngineConfig { target, ..EngineConfig::new(Compiler::InProcess) }).unwrap();
        let mut replayer = Replayer { target, engine, modules: BTreeMap::new(), refused: BTreeMap::new() };
        for (hash, bytes) in modules {
            match replayer.engine.load(hash, &mut || Ok(bytes.clone())) {
                Ok((module, _)) => drop(replayer.modules.insert(*hash, module)),
                Err(error) => drop(replayer.refused.insert(*hash, error)),
            }
        }
        replayer
    }

    /// Runs a plan and gives its lists.
    ///
    /// # Errors
    /// [`RunError`] if it comes to no end.
    pub fn run(&self, plan: &Plan, world: &World) -> Result<Lists, RunError> {
        let config = WorldConfig {
            plan: plan.clone(),
            source: Arc::new(world.tree.clone()),
            spill: Arc::new(TempSpill),
            budget: Budget::default(),
            stdin_blobs: world
                .stdin
                .iter()
                .map(|bytes| (Hash::of(bytes), Arc::new(MemoryContent::new(bytes.clone())) as _))
                .collect(),
            mounts: world
                .mounts
                .iter()
                .map(|(name, tree)| (World::mounted(name), Arc::new(tree.clone()) as _))
                .collect(),
            fixtures: Fixtures::default(),
        };
        let run = || Ok(self.engine.run(Run::new(config, &self.modules))?.outcome.lists);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(RUN_STACK_BYTES);
            thread.spawn_scoped(scope, run).unwrap().join().unwrap()
        })
    }

    /// Replays a case.
    pub fn replay(&self, case: &Case, trees: &BTreeMap<String, MemoryTree>) -> Replayed {
        let stdin = case.stdin.as_ref().map(|bytes| bytes.to_vec());
        self.replay_in(case, &World::new(trees.clone(), &case.tree, stdin))
    }

    /// As [`Replayer::replay`], in a world of the caller's.
    pub fn replay_in(&self, case: &Case, world: &World) -> Replayed {
        let recorded = case.record();
        if let Some(error) = recorded.plan.steps.iter().find_map(|step| self.refused.get(&step.module)) {
            return Replayed::Refused(error.clone());
        }
        let lines = match self.run(&recorded.plan, world) {
            Ok(lists) => differences(&recorded, &case.lists(), &lists),
            Err(error) => vec![format!("it came to no end: {error}")],
        };
        if lines.is_empty() {
            return Replayed::Same;
        }
        Replayed::Differs(lines.into_iter().map(|line| format!("{} target: {line}", self.target.name())).collect())
    }
}

/// Compares every digest of a record, and names the items behind those that differ.
fn differences(recorded: &Record, expected: &Lists, lists: &Lists) -> Vec<String> {
    let made = Record::new(recorded.plan.clone(), lists);
    let mut found = Vec::new();
    let mut digest = |what: &str, equal: bool, items: Vec<String>| {
        if !equal {
            found.push(format!("the digest of {what} differs"));
            found.extend(items);
        }
    };
    let changes = || items(&expected.changes, &lists.changes);
    digest("the exit codes", made.exits == recorded.exits, items(&expected.exits, &lists.exits));
    digest(
        "the observations",
        made.observations == recorded.observations,
        items(&expected.observations, &lists.observations),
    );
    digest("the states before", made.before == recorded.before, changes());
    digest("content and kind after", made.content == recorded.content, changes());
    digest("metadata after", made.metadata == recorded.metadata, changes());
    digest("the streams", made.streams == recorded.streams, items(&expected.streams, &lists.streams));
    found
}

/// The items that only one of two lists has, at most a few.
fn items<T: Debug + PartialEq>(expected: &[T], made: &[T]) -> Vec<String> {
    const SHOWN: usize = 4;
    let only = |of: &[T], other: &[T], whose: &str| -> Vec<String> {
        let own = of.iter().filter(|item| !other.contains(item)).take(SHOWN);
        own.map(|item| format!("  {whose}: {item:?}")).collect()
    };
    [only(expected, made, "recorded"), only(made, expected, "made")].concat()
}
