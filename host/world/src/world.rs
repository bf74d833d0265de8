//! A world: made from a plan and a tree, used by one run, and turned into what the run did.

use crate::body::Body;
use crate::clock::{Clock, Random};
use crate::descriptors::{Descriptor, Descriptors, Handle, Output};
use crate::effects::Effects;
use crate::inode::InodeId;
use crate::store::Store;
use crate::tree::Tree;
use crate::{Fault, FileContent, Outcome, Spill, TreeSource};
use opship_record::Hash;
use opship_record::plan::Plan;
use opship_record::record::{Lists, StepStreams};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a world is made from.
pub struct WorldConfig {
    /// What to run.
    pub plan: Plan,
    /// The tree that it runs on.
    pub source: Arc<dyn TreeSource>,
    /// Where large contents go.
    pub spill: Arc<dyn Spill>,
    /// The operator's limits.
    pub budget: Budget,
    /// Contents for steps whose standard input is a blob, by hash.
    pub stdin_blobs: BTreeMap<Hash, Arc<dyn FileContent>>,
    /// Trees for the steps' mounts, by tree hash.
    pub mounts: BTreeMap<Hash, Arc<dyn TreeSource>>,
    /// What each step finds besides. All of it, wherever a run is recorded or replayed.
    pub fixtures: Fixtures,
}

/// What each step finds that its plan does not name. It is part of the engine profile, so only conformance cases, which
/// say exactly what they want, leave some of it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixtures {
    /// The variables `LANG` and `TZ`, and `PWD` where the current directory is not the root.
    pub variables: bool,
    /// The preopened directories.
    pub directories: bool,
}

impl Default for Fixtures {
    /// All of it.
    fn default() -> Fixtures {
        Fixtures { variables: true, directories: true }
    }
}

/// The operator's own limits. Exceeding one ends the run with [`Fault::Limit`]; the guest never sees an errno for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes of produced contents and streams.
    pub produced_bytes: u64,
    /// Most files, directories and links that the world keeps track of.
    pub inodes: u64,
    /// Most bytes of the host's memory for what the world keeps track of: small contents, names, link targets, listings.
    /// Counted about; the module's own memory is counted elsewhere.
    pub world_bytes: u64,
    /// Most produced contents that are too large for memory, at one time: each takes a file on disk, and a descriptor.
    pub spilled_files: u64,
}

impl Default for Budget {
    /// 64 GiB, 4 million, 2 GiB and 8,192.
    fn default() -> Budget {
        Budget { produced_bytes: 64 << 30, inodes: 4_000_000, world_bytes: 2 << 30, spilled_files: 8192 }
    }
}

/// Is called while the world itself works for long, in a call or in [`World::finish`]: after each MiB or so that it reads,
/// hashes or copies. An error ends the run with [`Fault::Stopped`].
pub type Look = Box<dyn FnMut() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send>;

/// How often a run asked for what differs from one operation to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Readings of a clock.
    pub clock: u64,
    /// Calls for random bytes.
    pub random: u64,
    /// Calls of `poll_oneoff`: sleeping, or waiting for a file.
    pub poll: u64,
}

/// Everything that a module sees while it runs.
///
/// Descriptor 3 is the root, preopened as `/`; where the step has another current directory, 4 is that one, preopened as
/// `.`, and then one for each mount. wasi-libc (and with it Rust's standard library) takes both `/` and `.` as the
/// empty prefix and uses the one that comes last: relative names mean the current directory, as in a shell, and so do
/// absolute names, but for those below a mount. From the current directory `..` therefore leads up to the root. Go
/// takes absolute names from `/` and puts `PWD` before relative ones, so `PWD` is set where the current directory is not
/// the root.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) stdin_blobs: BTreeMap<Hash, Arc<dyn FileContent>>,
    pub(crate) mounts: BTreeMap<Hash, Arc<dyn TreeSource>>,
    pub(crate) fixtures: Fixtures,
    pub(crate) tree: Tree,
    pub(crate) descriptors: Descriptors,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// Standard output and standard error of each step begun.
    pub(crate) streams: Vec<(Body, Body)>,
    /// Arguments of the step, each with its NUL.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Environment of the step, each `NAME=value` with its NUL.
    pub(crate) environment: Vec<Vec<u8>>,
    pub(crate) progress: Option<(u64, u64)>,
    pub(crate) asked: Asked,
    exits: Vec<u32>,
}

impl World {
    /// Makes a world.
    ///
    /// # Errors
    /// [`Fault::Record`] if the plan is not valid.
    pub fn new(config: WorldConfig) -> Result<World, Fault> {
        config.plan.validate()?;
        let store = Store::new(config.spill, config.budget);
        Ok(World {
            tree: Tree::new(config.source, store, config.budget.inodes),
            descriptors: Descriptors::default(),
            clock: Clock::new(config.plan.clock_start),
            random: Random::new(&config.plan.seed),
            streams: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            progress: None,
            asked: Asked::default(),
            exits: Vec::new(),
            plan: config.plan,
            stdin_blobs: config.stdin_blobs,
            mounts: config.mounts,
            fixtures: config.fixtures,
        })
    }

    /// Has somebody look in; without, nobody does.
    pub fn watched_by(&mut self, look: Look) {
        self.tree.store.watched_by(look);
    }

    /// Has whoever watches look in now.
    ///
    /// # Errors
    /// [`Fault::Stopped`] if the run must end.
    pub fn look(&mut self) -> Result<(), Fault> {
        self.tree.store.look()
    }

    /// Ends a step: closes its descriptors and takes its mounts away.
    ///
    /// # Errors
    /// None today; a fault would end the run.
    pub fn end_step(&mut self, exit: u32) -> Result<(), Fault> {
        let open: Vec<Descriptor> = self.descriptors.drain().collect();
        for descriptor in open {
            self.closed(&descriptor);
        }
        self.tree.unmount_all();
        self.exits.push(exit);
        Ok(())
    }

    /// What the run did.
    ///
    /// # Errors
    /// [`Fault`] if the source or the disk fails, if what was done cannot be recorded (paths that became too long), or if
    /// whoever watches ends the run.
    pub fn finish(self) -> Result<Outcome, Fault> {
        let mut tree = self.tree;
        let effects = Effects::of(&mut tree)?;
        let Tree { observations, source, store, .. } = &mut tree;
        let observations = observations.finish(&**source, store)?;
        let mut finish = |body: Body| body.finish(store).map(|made| made.produced);
        let streams = self
            .streams
            .into_iter()
            .map(|(stdout, stderr)| Ok((finish(stdout)?, finish(stderr)?)))
            .collect::<Result<Vec<_>, Fault>>()?;
        let digests = streams.iter().map(|(stdout, stderr)| StepStreams {
            stdout_length: stdout.length,
            stdout: stdout.hash,
            stderr_length: stderr.length,
            stderr: stderr.hash,
        });
        let lists = Lists { observations, changes: effects.changes, streams: digests.collect(), exits: self.exits };
        Ok(Outcome { lists, files: effects.files, streams })
    }

    /// The last bytes of what the step wrote to standard error, at most `most`: a module that faults often says why there.
    ///
    /// # Errors
    /// [`Fault::Spill`] if they were on disk and cannot be read.
    pub fn last_words(&self, most: usize) -> Result<Vec<u8>, Fault> {
        let Some((_, stderr)) = self.streams.last() else { return Ok(Vec::new()) };
        let length = usize::try_from(stderr.length()).unwrap_or(usize::MAX).min(most);
        let mut bytes = vec![0; length];
        let count = stderr.read_at(stderr.length() - length as u64, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Bytes of the host's memory that the world takes, about.
    pub fn held_bytes(&self) -> u64 {
        self.tree.store.held()
    }

    /// What the guest has asked for until now.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// What the guest last said about its progress: done and total, in units of its own.
    pub fn progress(&self) -> Option<(u64, u64)> {
        self.progress
    }

    /// Appends to the step's standard output or standard error.
    pub(crate) fn append_stream(&mut self, output: Output, data: &[u8]) -> Result<(), Fault> {
        let Some((stdout, stderr)) = self.streams.last_mut() else { return Ok(()) };
        let body = if matches!(output, Output::Stderr) { stderr } else { stdout };
        body.write_at(&mut self.tree.store, body.length(), data)
    }

    /// Opens a descriptor and counts it at its inode.
    pub(crate) fn open(&mut self, handle: Handle, flags: u16, read: bool, write: bool) -> Result<u32, crate::Trap> {
        let descriptor = Descriptor { handle, flags, read, write };
        let inode = descriptor.inode();
        let fd = self.descriptors.insert(descriptor)?;
        if let Some(id) = inode {
            self.tree.inode_mut(id).opens += 1;
        }
        Ok(fd)
    }

    /// Forgets a descriptor that was taken out of the table.
    pub(crate) fn closed(&mut self, descriptor: &Descriptor) {
        if let Handle::Directory(directory) = &descriptor.handle {
            self.tree.store.let_go(directory.listing_bytes);
        }
        if let Some(id) = descriptor.inode() {
            self.close_inode(id);
        }
    }

    fn close_inode(&mut self, id: InodeId) {
        let inode = self.tree.inode_mut(id);
        inode.opens = inode.opens.saturating_sub(1);
        self.tree.closed(id);
    }
}
