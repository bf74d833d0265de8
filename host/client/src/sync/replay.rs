//! Replaying others' operations instead of downloading what they made, where a record is cheaper than its results.
//!
//! A replay is never trusted: what it makes is taken only where its hash is one that the head's tree names. Whatever else
//! comes out of it, or nothing, is downloaded as if there had been none.

use super::pull::State;
use super::{PullReport, Replayed, Sync};
use crate::ClientError;
use crate::layout::ReplayOnPull;
use crate::net::OperationOfVersion;
use crate::staging::{Staging, StagingSpill};
use opship_engine::{Engine, Finished, LoadedModule, RUN_STACK_BYTES, Run};
use opship_record::Hash;
use opship_record::node::Node;
use opship_record::plan::{PROFILE, Plan, Stdin};
use opship_world::{Budget, FileContent, Fixtures, TreeSource, WorldConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Below this many bytes to download nothing is asked about operations: the records would cost as much.
const WORTH_ASKING: u64 = 16 << 10;
/// What an operation must save if its modules are compiled already: more than a record takes.
const WORTH_RUNNING: u64 = 1 << 10;
/// What it must save if a module has to be compiled first, which takes about as long as this many bytes on a slow link.
const WORTH_COMPILING: u64 = 256 << 10;
/// Versions of which operations are asked for at once.
const MOST_VERSIONS: u64 = 1000;
/// How long a replay may take; then its results are downloaded.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long all of one pull may take; then no further one is begun.
const ALL_DEADLINE: Duration = Duration::from_secs(120);

/// Contents by hash.
type Blobs = BTreeMap<Hash, Arc<dyn FileContent>>;

impl Sync<'_> {
    /// Replays what is cheaper so, and applies what it gave; gives the states that are left to be downloaded.
    pub(super) async fn replay_pulled(
        &mut self,
        base: u64,
        head: u64,
        wanted: Vec<State>,
        report: &mut PullReport,
    ) -> Result<Vec<State>, ClientError> {
        let lacking = self.lacking_contents(&wanted)?;
        let policy = self.copy.config().replay_on_pull;
        let few = base > 0 && head.saturating_sub(base) <= MOST_VERSIONS;
        let worth = total(lacking.values()) >= WORTH_ASKING;
        if policy == ReplayOnPull::Never || !few || !worth {
            return Ok(wanted);
        }
        let operations = match self.api.operations(base, head).await {
            // An older server, which does not tell.
            Err(ClientError::Problem { status: 404 | 405, .. }) => Vec::new(),
            operations => operations?,
        };
        let operations: Vec<OperationOfVersion> =
            operations.into_iter().filter(|operation| self.may_replay(operation, policy)).collect();
        let saved =
            |operation: &OperationOfVersion| total(operation.outputs.iter().filter_map(|hash| lacking.get(hash)));
        if operations.iter().all(|operation| saved(operation) < WORTH_RUNNING) {
            return Ok(wanted);
        }
        let Some(make) = &self.engine else { return Ok(wanted) };
        let engine = make()?;
        let made: BTreeSet<Hash> = operations.iter().flat_map(|operation| operation.outputs.iter().copied()).collect();
        let is_made = |(_, node): &State| matches!(node, Some(Node::File { hash, .. }) if made.contains(hash) && lacking.contains_key(hash));
        let (mut left, plain): (Vec<State>, Vec<State>) = wanted.into_iter().partition(is_made);
        // What the operations read comes first.
        self.apply_all(plain, report).await?;
        let until = Instant::now() + ALL_DEADLINE;
        for operation in operations.iter().take_while(|_| Instant::now() < until) {
            let least = if self.is_compiled(&engine, &operation.record.plan) { WORTH_RUNNING } else { WORTH_COMPILING };
            if saved(operation) < least {
                continue;
            }
            self.progress.step("replaying operations", operation.version.saturating_sub(base), head - base);
            match self.replay(&engine, operation, &lacking) {
                Ok(replayed) => report.replayed.extend(replayed),
                Err(error) => tracing::info!(%error, version = operation.version, "not replayed; it is downloaded"),
            }
            // Applied at once, since the next operation may read it.
            let given =
                |(_, node): &State| matches!(node, Some(Node::File { hash, .. }) if self.replayed.contains_key(hash));
            let (ready, rest): (Vec<State>, Vec<State>) = left.into_iter().partition(given);
            left = rest;
            self.apply(ready, report).await?;
        }
        Ok(left)
    }

    /// Contents of these states that are not here, with their lengths.
    fn lacking_contents(&self, states: &[State]) -> Result<BTreeMap<Hash, u64>, ClientError> {
        let mut lacking = BTreeMap::new();
        if self.engine.is_none() {
            return Ok(lacking);
        }
        for (_, node) in states {
            if let Some(Node::File { hash, length, .. }) = node
                && !lacking.contains_key(hash)
                && self.copy.blob_source(hash)?.is_none()
            {
                lacking.insert(*hash, *length);
            }
        }
        Ok(lacking)
    }

    fn may_replay(&self, operation: &OperationOfVersion, policy: ReplayOnPull) -> bool {
        let plan = &operation.record.plan;
        let trusted = |hash: &Hash| policy == ReplayOnPull::All || self.book.is_trusted(hash);
        let here = |hash: &Hash| self.book.bytes(hash).is_ok_and(|bytes| bytes.is_some());
        let mounted = |tree: &Hash| self.book.mounts().closure(tree).is_ok();
        plan.profile == PROFILE
            && plan.steps.iter().all(|step| trusted(&step.module) && here(&step.module))
            && plan.steps.iter().flat_map(|step| step.mounts.iter().flatten()).all(|mount| mounted(&mount.tree))
    }

    fn is_compiled(&self, engine: &Engine, plan: &Plan) -> bool {
        plan.steps.iter().all(|step| engine.is_compiled(&step.module))
    }

    /// Replays one operation on the folder as it is now, and keeps what it made that is wanted. `None`: nothing was.
    fn replay(
        &mut self,
        engine: &Engine,
        operation: &OperationOfVersion,
        lacking: &BTreeMap<Hash, u64>,
    ) -> Result<Option<Replayed>, ClientError> {
        let Some(stdin_blobs) = self.stdin_blobs(&operation.record.plan)? else { return Ok(None) };
        let staging = Arc::new(Staging::new(&self.copy.shared)?);
        let world = WorldConfig {
            plan: operation.record.plan.clone(),
            source: self.copy.tree()?,
            spill: Arc::new(StagingSpill(staging)),
            budget: Budget::default(),
            stdin_blobs,
            mounts: self.mounts(&operation.record.plan),
            fixtures: Fixtures::default(),
        };
        let modules = self.modules(engine, &operation.record.plan)?;
        let Finished { outcome, micros, .. } = run_on_own_stack(engine, world, &modules)?;
        let mut saved = 0;
        for made in outcome.files.values() {
            if !lacking.contains_key(&made.hash) || self.replayed.contains_key(&made.hash) {
                continue;
            }
            let folder = self.workplace()?;
            let failed = || ClientError::io("keeping what a replay made");
            let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
            made.copy_to(&mut file).map_err(failed())?;
            saved += made.length;
            self.replayed.insert(made.hash, file);
        }
        Ok((saved > 0).then_some(Replayed { version: operation.version, saved, micros }))
    }

    fn modules(&self, engine: &Engine, plan: &Plan) -> Result<BTreeMap<Hash, LoadedModule>, ClientError> {
        let mut modules = BTreeMap::new();
        for step in &plan.steps {
            let mut bytes = || {
                self.book.bytes(&step.module).map_err(std::io::Error::other)?.ok_or_else(|| ErrorKind::NotFound.into())
            };
            let loaded = engine.load(&step.module, &mut bytes);
            let (loaded, _) = loaded.map_err(|error| ClientError::Refused(error.to_string()))?;
            modules.insert(step.module, loaded);
        }
        Ok(modules)
    }

    fn mounts(&self, plan: &Plan) -> BTreeMap<Hash, Arc<dyn TreeSource>> {
        let store = self.book.mounts();
        let mounts = plan.steps.iter().flat_map(|step| step.mounts.iter().flatten());
        mounts.map(|mount| (mount.tree, Arc::new(store.tree(mount.tree)) as Arc<dyn TreeSource>)).collect()
    }

    /// The contents that steps read from standard input; `None` if one is not here.
    fn stdin_blobs(&self, plan: &Plan) -> Result<Option<Blobs>, ClientError> {
        let mut blobs = BTreeMap::new();
        for step in &plan.steps {
            if let Some(Stdin::Blob { hash }) = &step.stdin {
                match self.copy.blob_source(hash)? {
                    Some(content) => drop(blobs.insert(*hash, content)),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(blobs))
    }
}

/// A sum of lengths, which another end may have made up.
fn total<'a>(lengths: impl Iterator<Item = &'a u64>) -> u64 {
    lengths.fold(0, |sum, length| sum.saturating_add(*length))
}

fn run_on_own_stack(
    engine: &Engine,
    world: WorldConfig,
    modules: &BTreeMap<Hash, LoadedModule>,
) -> Result<Finished, ClientError> {
    let run = move || engine.run(Run { deadline: Some(DEADLINE), ..Run::new(world, modules) });
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("replay".to_owned()).stack_size(RUN_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, run).map_err(ClientError::io("starting a thread for a replay"))?;
        let ended = thread.join();
        Ok(ended.map_err(|_| ClientError::Refused("the replay ended by a fault of opship".to_owned()))??)
    })
}
