//! What to run: the part of a record that decides what a run sees.

use crate::limits::{self, MAX_ARGUMENTS, MAX_MEMORY_PAGES, MAX_MOUNTS, MAX_STEPS};
use crate::{Error, FORMAT_VERSION, Hash, TreePath};
use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

/// The engine profile that this build records under. It is raised only when something changes that a module can observe.
pub const PROFILE: u32 = 1;

/// Everything that decides what a run sees, but for the tree.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Plan {
    /// [`FORMAT_VERSION`].
    #[n(0)]
    pub format: u8,
    /// The steps, run one after the other on the same tree; 1 to [`MAX_STEPS`].
    #[n(1)]
    pub steps: Vec<Step>,
    /// Real time at the start of the first step, in nanoseconds since 1970.
    #[n(2)]
    pub clock_start: u64,
    /// Key of the random source.
    #[n(3)]
    pub seed: ByteArray<16>,
    /// Limits that a module can observe; absent: the profile's.
    #[n(4)]
    pub limits: Option<RunLimits>,
    /// The engine profile.
    #[n(5)]
    pub profile: u32,
}

/// Limits that a module can observe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RunLimits {
    /// Most pages (64 KiB each) of a module's memory; `memory.grow` beyond gives -1.
    #[n(0)]
    pub memory_pages: u32,
}

impl Default for RunLimits {
    /// The limits of [`PROFILE`] 1: 16,384 pages, 1 GiB.
    fn default() -> RunLimits {
        RunLimits { memory_pages: 16_384 }
    }
}

/// One run of one module.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Step {
    /// Hash of the module.
    #[n(0)]
    pub module: Hash,
    /// Arguments; the first is the name that the module is called by.
    #[n(1)]
    pub arguments: Vec<ByteVec>,
    /// Environment beyond the fixed variables, in the order that the module sees; absent: none.
    #[n(2)]
    pub environment: Option<Vec<(ByteVec, ByteVec)>>,
    /// Current directory; absent: the root.
    #[n(3)]
    pub directory: Option<TreePath>,
    /// Standard input; absent: empty.
    #[n(4)]
    pub stdin: Option<Stdin>,
    /// The file that standard output is written to, created or truncated at the step's start; absent: a stream.
    #[n(5)]
    pub stdout: Option<TreePath>,
    /// Read-only trees beside the workspace's; absent: none. Sorted by path.
    #[n(6)]
    pub mounts: Option<Vec<Mount>>,
}

/// Where a step's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Stdin {
    /// A blob that travels beside the record.
    #[n(0)]
    Blob {
        /// Its hash.
        #[n(0)]
        hash: Hash,
    },
    /// A file of the tree, as it is when the step starts.
    #[n(1)]
    Path {
        /// The file.
        #[n(0)]
        path: TreePath,
    },
    /// The standard output stream of an earlier step.
    #[n(2)]
    Step {
        /// The step's index, from 0.
        #[n(0)]
        step: u8,
    },
}

/// A read-only tree that a module sees beside the workspace's.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Mount {
    /// Where it stands, relative to `/`.
    #[n(0)]
    pub path: TreePath,
    /// Its tree ([`crate::tree`]).
    #[n(1)]
    pub tree: Hash,
}

impl Step {
    /// A step with arguments only.
    pub fn new(module: Hash, arguments: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Step {
        let arguments = arguments.into_iter().map(|a| ByteVec::from(a.into())).collect();
        Step { module, arguments, environment: None, directory: None, stdin: None, stdout: None, mounts: None }
    }

    /// The current directory, the root unless another was set.
    pub fn current_directory(&self) -> TreePath {
        self.directory.clone().unwrap_or_default()
    }
}

impl Plan {
    /// The limits in force.
    pub fn run_limits(&self) -> RunLimits {
        self.limits.unwrap_or_default()
    }

    /// Checks what the encoding alone cannot.
    ///
    /// # Errors
    /// [`Error`] names the field.
    pub fn validate(&self) -> Result<(), Error> {
        if self.format != FORMAT_VERSION {
            return Err(Error::FormatVersion { found: self.format });
        }
        if self.steps.is_empty() {
            return Err(Error::Inconsistent { what: "plan", detail: "an operation has at least one step" });
        }
        limits::check("number of steps", self.steps.len(), MAX_STEPS)?;
        if self.limits == Some(RunLimits::default()) {
            return Err(Error::Inconsistent { what: "plan", detail: "default limits must be left out" });
        }
        if self.run_limits().memory_pages > MAX_MEMORY_PAGES {
            return Err(Error::Inconsistent { what: "plan", detail: "a memory has at most 65,536 pages" });
        }
        self.steps.iter().enumerate().try_for_each(|(index, step)| step.validate(index))
    }
}

impl Step {
    fn validate(&self, index: usize) -> Result<(), Error> {
        let refuse = |detail| Err(Error::Inconsistent { what: "step", detail });
        let environment = self.environment.as_deref().unwrap_or_default();
        let size = self.arguments.iter().map(|a| a.len() + 1).sum::<usize>()
            + environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum::<usize>();
        limits::check("arguments and environment", size, MAX_ARGUMENTS)?;
        if self.arguments.is_empty() {
            return refuse("the first argument, the module's name, is missing");
        }
        let has_nul = |bytes: &ByteVec| bytes.contains(&0);
        if self.arguments.iter().any(has_nul) || environment.iter().any(|(k, v)| has_nul(k) || has_nul(v)) {
            return refuse("an argument or variable holds a NUL byte");
        }
        if environment.iter().any(|(k, _)| k.is_empty() || k.contains(&b'=')) {
            return refuse("a variable's name is empty or holds '='");
        }
        let absent_if_default = [
            self.environment.as_ref().is_some_and(Vec::is_empty),
            self.directory.as_ref().is_some_and(TreePath::is_root),
            self.mounts.as_ref().is_some_and(Vec::is_empty),
        ];
        if absent_if_default.contains(&true) {
            return refuse("a field with its default value must be left out");
        }
        if self.stdout.as_ref().is_some_and(TreePath::is_root) {
            return refuse("standard output cannot be the root");
        }
        match &self.stdin {
            Some(Stdin::Step { step }) if usize::from(*step) >= index => {
                return refuse("standard input must come from an earlier step");
            }
            Some(Stdin::Path { path }) if path.is_root() => return refuse("standard input cannot be the root"),
            _ => {}
        }
        self.validate_mounts()
    }

    fn validate_mounts(&self) -> Result<(), Error> {
        let mounts = self.mounts.as_deref().unwrap_or_default();
        limits::check("number of mounts", mounts.len(), MAX_MOUNTS)?;
        // Not only neighbours: "a-b" sorts between "a" and "a/b".
        let nested = |m: &Mount| mounts.iter().any(|other| other != m && m.path.starts_with(&other.path));
        if mounts.iter().any(|m| m.path.is_root() || nested(m)) || !mounts.is_sorted_by(|a, b| a.path < b.path) {
            return Err(Error::Inconsistent {
                what: "step",
                detail: "mounts must be sorted, below the root and not nested",
            });
        }
        Ok(())
    }
}
