//! Making cases of the current profile.

use super::cases::{Definition, Input, StepDefinition};
use super::replay::{Replayed, Replayer, World};
use super::{Case, Corpus};
use crate::guest;
use opship_engine::Target;
use opship_record::plan::{Mount, PROFILE, Plan, RunLimits, Stdin, Step};
use opship_record::record::Record;
use opship_record::{FORMAT_VERSION, Hash};
use std::collections::BTreeMap;

/// Runs definitions on every target.
pub struct Recorder {
    corpus: Corpus,
    /// Bytes by the name that definitions use.
    modules: BTreeMap<&'static str, Vec<u8>>,
    replayers: Vec<Replayer>,
}

impl Recorder {
    /// Loads the modules of some definitions: guests by name, and programs of `tests/corpus/programs`.
    pub fn new(definitions: &[Definition]) -> Recorder {
        let names = definitions.iter().flat_map(|definition| definition.steps.iter().map(|step| step.module));
        let modules: BTreeMap<_, _> = names.map(|name| (name, module(name))).collect();
        let by_hash = modules.values().map(|bytes| (Hash::of(bytes), bytes.clone())).collect();
        let replayers = Target::ALL.into_iter().map(|target| Replayer::new(target, &by_hash)).collect();
        Recorder { corpus: Corpus::current(), modules, replayers }
    }

    /// Runs a definition on every target and adds it to the corpus, with its modules.
    ///
    /// # Errors
    /// What differs between targets, or the run's error: such a case is not added.
    pub fn add(&self, definition: &Definition) -> Result<Case, String> {
        let case = self.case(definition)?;
        for step in definition.steps {
            self.corpus.add_module(step.module, &self.modules[step.module]);
        }
        self.corpus.add_case(definition.name, &case);
        Ok(case)
    }

    fn case(&self, definition: &Definition) -> Result<Case, String> {
        let plan = self.plan(definition);
        let stdin = definition.stdin.map(|text| text.as_bytes().to_vec());
        let trees = self.corpus.trees();
        let world = World::new(trees, definition.tree, stdin.clone());
        let lists = self.replayers[0].run(&plan, &world).map_err(|error| error.to_string())?;
        let case = Case::new(definition.tree, stdin, &Record::new(plan, &lists), &lists);
        // A target may refuse a module, but not do otherwise.
        let differing = self.replayers.iter().filter_map(|replayer| match replayer.replay_in(&case, &world) {
            Replayed::Differs(lines) => Some(lines.join("\n")),
            Replayed::Same | Replayed::Refused(_) => None,
        });
        let differing: Vec<String> = differing.collect();
        if differing.is_empty() { Ok(case) } else { Err(differing.join("\n")) }
    }

    fn plan(&self, definition: &Definition) -> Plan {
        let stdin = definition.stdin.map(|text| Hash::of(text.as_bytes()));
        Plan {
            format: FORMAT_VERSION,
            steps: definition.steps.iter().map(|step| self.step(step, stdin)).collect(),
            clock_start: definition.clock_start,
            seed: (*definition.seed.as_bytes().first_chunk::<16>().unwrap()).into(),
            limits: definition.memory_pages.map(|memory_pages| RunLimits { memory_pages }),
            profile: PROFILE,
        }
    }

    fn step(&self, definition: &StepDefinition, blob: Option<Hash>) -> Step {
        let arguments = std::iter::once(definition.module).chain(definition.arguments());
        let mut step = Step::new(Hash::of(&self.modules[definition.module]), arguments);
        let variables = definition
            .environment
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec().into(), value.as_bytes().to_vec().into()));
        step.environment = (!definition.environment.is_empty()).then(|| variables.collect());
        step.directory = definition.directory.map(|path| path.parse().unwrap());
        step.stdout = definition.stdout.map(|path| path.parse().unwrap());
        let mounts = definition.mounts.iter();
        let mounts = mounts.map(|(path, tree)| Mount { path: path.parse().unwrap(), tree: World::mounted(tree) });
        step.mounts = (!definition.mounts.is_empty()).then(|| mounts.collect());
        step.stdin = match definition.stdin {
            Input::Empty => None,
            Input::Blob => Some(Stdin::Blob { hash: blob.unwrap() }),
            Input::Path(path) => Some(Stdin::Path { path: path.parse().unwrap() }),
            Input::Step(step) => Some(Stdin::Step { step }),
        };
        step
    }
}

fn module(name: &str) -> Vec<u8> {
    let program = Corpus::root().join("programs").join(format!("{name}.wat"));
    if program.is_file() {
        return wat::parse_file(program).unwrap();
    }
    std::fs::read(guest(name)).unwrap()
}
