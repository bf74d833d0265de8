//! A world: made from a plan and a tree, used by one run, and turned into what the run did.

use crate::{Fault, FileContent, Outcome, Spill, Trap, TreeSource};
use opship_record::Hash;
use opship_record::plan::Plan;
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
}

/// The operator's own limits. Exceeding one ends the run with [`Fault::Limit`]; the guest never sees an errno for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes of produced contents and streams.
    pub produced_bytes: u64,
    /// Most files, directories and links that the world keeps track of.
    pub inodes: u64,
}

impl Default for Budget {
    /// 64 GiB and 4 million.
    fn default() -> Budget {
        Budget { produced_bytes: 64 << 30, inodes: 4_000_000 }
    }
}

/// Everything that a module sees while it runs.
pub struct World {
    config: WorldConfig,
}

impl World {
    /// Makes a world.
    ///
    /// # Errors
    /// [`Fault::Record`] if the plan is not valid, [`Fault::Refused`] if something that it names was not supplied.
    pub fn new(config: WorldConfig) -> Result<World, Fault> {
        config.plan.validate()?;
        Ok(World { config })
    }
    /// Begins a step: arguments, environment, current directory, standard streams and preopens are those of the plan.
    ///
    /// # Errors
    /// [`Fault`] if the step does not fit the tree.
    pub fn begin_step(&mut self, index: usize) -> Result<(), Fault> { let _ = (&self.config, index); Ok(()) }
    /// Ends a step.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn end_step(&mut self, exit: u32) -> Result<(), Fault> { let _ = exit; Ok(()) }
    /// What the run did.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn finish(self) -> Result<Outcome, Fault> { Err(Fault::Refused { detail: String::new() }) }
    /// What the guest last said about its progress: done and total, in units of its own.
    pub fn progress(&self) -> Option<(u64, u64)> { None }
}

macro_rules! stubs {
    ($(($module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*));)*) => {
        impl World { $(
            #[allow(clippy::too_many_arguments, missing_docs)]
            pub fn $method(&mut self, memory: &mut [u8], $($argument: $type),*) -> Result<(), Trap> {
                let _ = (memory, $($argument),*);
                Err(Trap::Errno(crate::Errno::Nosys))
            }
        )* }
    };
}
crate::for_each_import!(stubs);
