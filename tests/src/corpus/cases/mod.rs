//! What the corpus holds: how each case is called.

mod languages;
mod operations;
mod others;
mod probe;

/// A case as it is written down.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Its name, a file's name too.
    pub name: &'static str,
    /// The tree that it runs on.
    pub tree: &'static str,
    /// What it runs.
    pub steps: &'static [StepDefinition],
    /// The standard input of steps that ask for [`Input::Blob`].
    pub stdin: Option<&'static str>,
    /// Real time at the start, in nanoseconds since 1970.
    pub clock_start: u64,
    /// The first 16 bytes are the seed.
    pub seed: &'static str,
    /// Most pages of memory, where that is not the profile's.
    pub memory_pages: Option<u32>,
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub struct StepDefinition {
    /// A guest or a program of `tests/corpus/programs`.
    pub module: &'static str,
    /// Arguments after the name, with a blank between two; `''` is an empty one.
    pub arguments: &'static str,
    /// Environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// Current directory.
    pub directory: Option<&'static str>,
    /// Standard input.
    pub stdin: Input,
    /// The file that standard output goes to.
    pub stdout: Option<&'static str>,
    /// Read-only trees: where, and the name of the tree. Sorted by path.
    pub mounts: &'static [(&'static str, &'static str)],
}

/// Standard input of a step.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// Nothing.
    Empty,
    /// The definition's text.
    Blob,
    /// A file of the tree.
    Path(&'static str),
    /// An earlier step's standard output.
    Step(u8),
}

const CASE: Definition = Definition {
    name: "",
    tree: "files",
    steps: &[],
    stdin: None,
    clock_start: 1_796_000_000_123_456_789,
    seed: "0123456789abcdef",
    memory_pages: None,
};

const STEP: StepDefinition = StepDefinition {
    module: "",
    arguments: "",
    environment: &[],
    directory: None,
    stdin: Input::Empty,
    stdout: None,
    mounts: &[],
};

impl StepDefinition {
    /// The arguments after the name.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &'static str> {
        let words = self.arguments.split(' ').filter(|word| !word.is_empty());
        words.map(|word| if word == "''" { "" } else { word })
    }
}

const fn step(module: &'static str, arguments: &'static str) -> StepDefinition {
    StepDefinition { module, arguments, ..STEP }
}

const fn case(name: &'static str, steps: &'static [StepDefinition]) -> Definition {
    Definition { name, steps, ..CASE }
}

/// All cases. One that has been recorded is never changed: what is new gets a name of its own.
pub fn cases() -> Vec<Definition> {
    let operations = [operations::GZIP, operations::SORT, operations::TAR];
    let others = [others::OTHERS, others::PROGRAMS, probe::PROBE, languages::LANGUAGES];
    [operations.concat(), others.concat()].concat()
}
