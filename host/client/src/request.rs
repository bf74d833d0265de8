//! What to run, as the caller says it, and as the world needs it.

use crate::ClientError;
use crate::fs::{KeptContent, stream_hashed};
use crate::staging::Staging;
use minicbor::bytes::ByteVec;
use opship_engine::{LoadedModule, Progress};
use opship_record::plan::{Mount, PROFILE, Plan, Stdin, Step};
use opship_record::{FORMAT_VERSION, Hash, TreePath};
use opship_world::{Budget, FileContent, TreeSource};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An operation to run.
#[derive(Default)]
pub struct RunRequest {
    /// The steps, one at least.
    pub steps: Vec<StepRequest>,
    /// The modules of the steps, by hash.
    pub modules: BTreeMap<Hash, LoadedModule>,
    /// The command line for people; empty: made from the steps.
    pub command: String,
    /// How long it may run.
    pub deadline: Option<Duration>,
    /// What it may produce and take of this machine, besides the module's memory.
    pub budget: Budget,
    /// Set it to end the run.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Is told about progress.
    pub progress: Option<Progress>,
}

/// One step.
pub struct StepRequest {
    /// Hash of the module, which must be in [`RunRequest::modules`].
    pub module: Hash,
    /// The module's name for people.
    pub name: String,
    /// Arguments, the first of them argv\[0\].
    pub arguments: Vec<Vec<u8>>,
    /// Environment beyond the fixed variables.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Current directory.
    pub directory: TreePath,
    /// Standard input.
    pub stdin: StdinRequest,
    /// The file that standard output goes to; `None`: a stream.
    pub stdout: Option<TreePath>,
    /// Read-only trees: where, hash of the tree, the tree.
    pub mounts: Vec<(TreePath, Hash, Arc<dyn TreeSource>)>,
}

impl StepRequest {
    /// A step with arguments only.
    pub fn new(module: Hash, name: &str, arguments: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> StepRequest {
        StepRequest {
            module,
            name: name.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            directory: TreePath::root(),
            stdin: StdinRequest::Empty,
            stdout: None,
            mounts: Vec::new(),
        }
    }

    /// The step as a plan has it, with empty standard input.
    pub(crate) fn without_stdin(&self) -> Step {
        let mut step = Step::new(self.module, self.arguments.iter().cloned());
        let environment: Vec<(ByteVec, ByteVec)> =
            self.environment.iter().map(|(k, v)| (k.clone().into(), v.clone().into())).collect();
        step.environment = (!environment.is_empty()).then_some(environment);
        step.directory = (!self.directory.is_root()).then(|| self.directory.clone());
        step.stdout = self.stdout.clone();
        let mut mounts: Vec<Mount> =
            self.mounts.iter().map(|(path, tree, _)| Mount { path: path.clone(), tree: *tree }).collect();
        mounts.sort_by(|a, b| a.path.cmp(&b.path));
        step.mounts = (!mounts.is_empty()).then_some(mounts);
        step
    }
}

/// Standard input of a step.
pub enum StdinRequest {
    /// Nothing.
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of this file or pipe, from where it stands.
    File(File),
    /// A file of the tree.
    Path(TreePath),
    /// The standard output of an earlier step, by index from 0.
    Step(u8),
}

impl RunRequest {
    /// The command line for people.
    pub(crate) fn command_line(&self) -> String {
        if !self.command.is_empty() {
            return self.command.clone();
        }
        let steps = self.steps.iter().map(|step| {
            let arguments = step.arguments.iter().skip(1).map(|a| String::from_utf8_lossy(a).into_owned());
            std::iter::once(step.name.clone()).chain(arguments).collect::<Vec<_>>().join(" ")
        });
        steps.collect::<Vec<_>>().join(" | ")
    }
}

/// A request as the world needs it.
pub(crate) struct Prepared {
    pub plan: Plan,
    pub stdin_blobs: BTreeMap<Hash, Arc<dyn FileContent>>,
    pub mounts: BTreeMap<Hash, Arc<dyn TreeSource>>,
    /// Copies of standard inputs in the staging folder, to be kept with the record.
    pub copies: BTreeMap<Hash, String>,
    /// Is a step's standard output read by a later one?
    pub piped: Vec<bool>,
}

/// Makes the plan: the clock starts now, the seed is random.
pub(crate) fn prepare(request: &RunRequest, staging: &Staging) -> Result<Prepared, ClientError> {
    let mut seed = [0; 16];
    let filled = getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()));
    filled.map_err(ClientError::io("asking for random bytes"))?;
    let clock_start = u64::try_from(crate::fs::clock_nanos()).unwrap_or(0);
    let mut prepared = Prepared {
        plan: Plan {
            format: FORMAT_VERSION,
            steps: Vec::new(),
            clock_start,
            seed: seed.into(),
            limits: None,
            profile: PROFILE,
        },
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        copies: BTreeMap::new(),
        piped: Vec::new(),
    };
    for step in &request.steps {
        let step = prepared.step(step, staging)?;
        prepared.plan.steps.push(step);
    }
    let steps = &prepared.plan.steps;
    let read: BTreeSet<usize> = steps
        .iter()
        .filter_map(|step| match step.stdin {
            Some(Stdin::Step { step }) => Some(usize::from(step)),
            _ => None,
        })
        .collect();
    prepared.piped = (0..steps.len()).map(|index| read.contains(&index)).collect();
    prepared.plan.validate()?;
    Ok(prepared)
}

impl Prepared {
    fn step(&mut self, request: &StepRequest, staging: &Staging) -> Result<Step, ClientError> {
        let mut step = request.without_stdin();
        step.stdin = self.stdin(&request.stdin, staging)?;
        self.mounts.extend(request.mounts.iter().map(|(_, tree, source)| (*tree, source.clone())));
        Ok(step)
    }

    fn stdin(&mut self, stdin: &StdinRequest, staging: &Staging) -> Result<Option<Stdin>, ClientError> {
        let failed = "keeping standard input";
        Ok(match stdin {
            StdinRequest::Empty => None,
            StdinRequest::Path(path) => Some(Stdin::Path { path: path.clone() }),
            StdinRequest::Step(step) => Some(Stdin::Step { step: *step }),
            StdinRequest::Bytes(bytes) => {
                let (mut file, path) = staging.new_file().map_err(ClientError::io(failed))?;
                file.write_all(bytes).map_err(ClientError::io(failed))?;
                Some(self.blob(file, path, bytes.len() as u64, Hash::of(bytes)))
            }
            StdinRequest::File(from) => {
                let (mut file, path) = staging.new_file().map_err(ClientError::io(failed))?;
                // From where it stands, and it may be a pipe.
                let (length, hash) = stream_hashed(&mut &*from, &mut file).map_err(ClientError::io(failed))?;
                Some(self.blob(file, path, length, hash))
            }
        })
    }

    fn blob(&mut self, file: File, path: String, length: u64, hash: Hash) -> Stdin {
        let content = KeptContent { file, length, hash, path: "standard input".to_owned() };
        self.stdin_blobs.insert(hash, Arc::new(content));
        self.copies.insert(hash, path);
        Stdin::Blob { hash }
    }
}
