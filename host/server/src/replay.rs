//! One replay on the head as it is now, on a thread of the pool.

use crate::decide::{self, Agreement, Unfinished, compare, unfinished};
use crate::lists::{Halt, Parts};
use crate::modules::{Known, known};
use crate::ship::Context;
use crate::workers::Place;
use opship_engine::{LoadedModule, Room, Run, RunError, Slow};
use opship_record::Hash;
use opship_record::answer::{Need, Reason};
use opship_record::plan::Stdin;
use opship_record::record::Record;
use opship_storage::{SMALL_BLOB, StorageError};
use opship_world::{FileContent, Fixtures, MemoryContent, Outcome, Produced, ProducedBody, TreeSource, WorldConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After this time a run is a long one.
const LONG_AFTER: Duration = Duration::from_millis(20);

/// A replay that came to its end.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Root of the tree that it ran on.
    pub(crate) root: Hash,
    pub(crate) outcome: Outcome,
    pub(crate) agreement: Agreement,
    pub(crate) micros: u64,
}

/// Why a record is not `matched`, and what is known of it.
#[derive(Debug)]
pub(crate) struct NotMatched {
    pub(crate) reason: Reason,
    /// Text for people, where the reason does not say it all.
    pub(crate) detail: Option<String>,
    /// The replay, if it came to its end.
    pub(crate) ran: Option<Arc<Ran>>,
    /// Did a replay begin and not come to its end?
    pub(crate) broke_off: bool,
}

/// What an attempt gave.
pub(crate) enum Attempt {
    /// These modules must be loaded first.
    Load(Vec<Hash>),
    /// Every digest is the record's; what it made is durable but for what travels in the transaction.
    Matched(Arc<Ran>),
    /// It goes by value.
    Not(NotMatched),
    /// It is a long run, and there are too many already: it starts again once there is room.
    Crowded,
    /// Others have the memory that it needs: it starts again once that is set aside for it.
    NoMemory,
    /// It stops here.
    Halt(Halt),
}

impl NotMatched {
    /// A record that cannot be replayed at all.
    pub(crate) fn without_replay(reason: Reason, detail: Option<String>) -> NotMatched {
        NotMatched { reason, detail, ran: None, broke_off: false }
    }

    /// Did the module do what the program did that it stands for?
    pub(crate) fn is_native_match(&self) -> bool {
        self.ran.as_ref().is_some_and(|ran| ran.agreement.is_native_match())
    }

    /// Time of the replay in microseconds.
    pub(crate) fn micros(&self) -> Option<u64> {
        self.ran.as_ref().map(|ran| ran.micros)
    }

    /// Roughly what it takes in memory, in bytes. A content on disk counts too, for its descriptor and some of its length.
    pub(crate) fn memory_bytes(&self) -> u64 {
        const DESCRIPTOR: u64 = 64 << 10;
        const DISK_SHARE: u64 = 64;
        self.ran.as_ref().map_or(0, |ran| {
            let lists = &ran.outcome.lists;
            let items = lists.observations.len() + lists.changes.len() + lists.streams.len();
            let contents = produced(&ran.outcome).map(|produced| match &produced.body {
                ProducedBody::Memory(bytes) => bytes.len() as u64,
                ProducedBody::Spilled(_) => DESCRIPTOR + produced.length / DISK_SHARE,
            });
            items as u64 * 256 + contents.sum::<u64>()
        })
    }
}

/// Every content that a run made: files and streams.
fn produced(outcome: &Outcome) -> impl Iterator<Item = &Produced> {
    let streams = outcome.streams.iter().flat_map(|(stdout, stderr)| [stdout, stderr]);
    outcome.files.values().chain(streams.filter(|stream| stream.length > 0))
}

impl Ran {
    /// Every content that it made.
    pub(crate) fn produced(&self) -> impl Iterator<Item = &Produced> {
        produced(&self.outcome)
    }

    /// The hashes of all that it made.
    pub(crate) fn pinned(&self) -> Vec<Hash> {
        produced(&self.outcome).map(|p| p.hash).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Contents that travel in the transaction.
    pub(crate) fn small(&self) -> Vec<Vec<u8>> {
        let small: BTreeMap<Hash, &Vec<u8>> =
            produced(&self.outcome).filter_map(|p| Some((p.hash, small(p)?))).collect();
        small.into_values().cloned().collect()
    }
}

/// Does a content travel in the transaction?
pub(crate) fn is_small(produced: &Produced) -> bool {
    small(produced).is_some()
}

fn small(produced: &Produced) -> Option<&Vec<u8>> {
    match &produced.body {
        ProducedBody::Memory(bytes) if bytes.len() <= SMALL_BLOB => Some(bytes),
        _ => None,
    }
}

/// Replays a record and compares. Runs on a thread of the pool.
/// `room` answers its wishes for memory.
pub(crate) fn attempt(context: &Context, record: &Record, parts: &Parts, place: &Place, room: Room) -> Attempt {
    match prepare(context, record, parts) {
        Ok(Prepared::Load(hashes)) => Attempt::Load(hashes),
        Ok(Prepared::Refused(reason, detail)) => Attempt::Not(NotMatched::without_replay(reason, Some(detail))),
        Ok(Prepared::Ready(world, root, modules)) => run(context, record, *world, root, &modules, (place, room)),
        Err(halt) => Attempt::Halt(halt),
    }
}

enum Prepared {
    Load(Vec<Hash>),
    Refused(Reason, String),
    Ready(Box<WorldConfig>, Hash, BTreeMap<Hash, LoadedModule>),
}

fn prepare(context: &Context, record: &Record, parts: &Parts) -> Result<Prepared, Halt> {
    let Context { state, scope, .. } = context;
    let mut needs = Vec::new();
    let mut modules = BTreeMap::new();
    let mut load = Vec::new();
    let mut refused = None;
    for hash in record.plan.steps.iter().map(|step| step.module).collect::<BTreeSet<_>>() {
        let visible = state.standard.contains_key(&hash)
            || parts.blobs.contains_key(&hash)
            || state.store.module_content(scope, &hash)?.is_some();
        if !visible {
            needs.push(Need::Module { hash });
            continue;
        }
        match known(state, scope, &hash)? {
            Known::Ready(module) => drop(modules.insert(hash, module)),
            Known::Refused(error) => refused = Some(error),
            Known::Unknown => load.push(hash),
        }
    }
    let mut stdin_blobs: BTreeMap<Hash, Arc<dyn FileContent>> = BTreeMap::new();
    let mut mounts: BTreeMap<Hash, Arc<dyn TreeSource>> = BTreeMap::new();
    for step in &record.plan.steps {
        if let Some(Stdin::Blob { hash }) = &step.stdin {
            match stdin_blob(context, parts, hash)? {
                Some(content) => drop(stdin_blobs.insert(*hash, content)),
                None => needs.push(Need::Blob { hash: *hash }),
            }
        }
        for mount in step.mounts.iter().flatten() {
            let known = state.store.has_tree(scope, &mount.tree)?;
            match state.store.tree(scope, &mount.tree)?.filter(|_| known) {
                Some(view) => drop(mounts.insert(mount.tree, Arc::new(view))),
                None => needs.push(Need::Tree { hash: mount.tree }),
            }
        }
    }
    if !needs.is_empty() {
        return Err(Halt::Needs(needs));
    }
    if let Some(error) = refused {
        return match decide::refused(&error) {
            Unfinished::ByValue(reason) => Ok(Prepared::Refused(reason, error.to_string())),
            Unfinished::Again => Err(Halt::Failed(error.to_string())),
        };
    }
    if !load.is_empty() {
        return Ok(Prepared::Load(load));
    }
    let root = state.store.head(scope)?.root;
    let view =
        state.store.tree(scope, &root)?.ok_or_else(|| Halt::Failed("the head moved; send it again".to_owned()))?;
    let world = WorldConfig {
        plan: record.plan.clone(),
        source: Arc::new(view),
        spill: Arc::clone(&state.spill),
        budget: state.budget,
        stdin_blobs,
        mounts,
        fixtures: Fixtures::default(),
    };
    Ok(Prepared::Ready(Box::new(world), root, modules))
}

fn stdin_blob(context: &Context, parts: &Parts, hash: &Hash) -> Result<Option<Arc<dyn FileContent>>, StorageError> {
    if let Some(bytes) = parts.blobs.get(hash) {
        return Ok(Some(Arc::new(MemoryContent::new(Arc::clone(bytes)))));
    }
    if *hash == Hash::of_empty() {
        return Ok(Some(Arc::new(MemoryContent::new([]))));
    }
    let content = context.state.store.open_blob(&context.scope, hash)?;
    Ok(content.map(|content| Arc::new(content) as Arc<dyn FileContent>))
}

fn run(
    context: &Context,
    record: &Record,
    world: WorldConfig,
    root: Hash,
    modules: &BTreeMap<Hash, LoadedModule>,
    (place, room): (&Place, Room),
) -> Attempt {
    let state = &context.state;
    let (long, started) = (place.clone(), Instant::now());
    let run = Run {
        deadline: Some(state.deadline),
        slow: Some(Slow { after: LONG_AFTER, call: Box::new(move || long.turn_long()) }),
        cancel: vec![Arc::clone(&state.cancel), Arc::clone(&context.over)],
        room: Some(room),
        ..Run::new(world, modules)
    };
    let finished = match state.engine.run(run) {
        Ok(finished) => finished,
        Err(RunError::Cancelled) if context.over.load(Ordering::Relaxed) => return Attempt::Halt(over()),
        Err(RunError::Cancelled) if !place.is_long() && !state.cancel.load(Ordering::Relaxed) => {
            return Attempt::Crowded;
        }
        Err(RunError::Crowded) => return Attempt::NoMemory,
        Err(error) => {
            return match unfinished(&error) {
                Unfinished::ByValue(reason) => {
                    let detail = Some(error.to_string());
                    Attempt::Not(NotMatched { reason, detail, ran: None, broke_off: true })
                }
                Unfinished::Again => {
                    tracing::warn!(%error, "a replay could not be done");
                    Attempt::Halt(Halt::Failed(format!("the server could not replay this now: {error}")))
                }
            };
        }
    };
    let agreement = compare(record, &finished.outcome.lists);
    let ran = Ran { root, outcome: finished.outcome, agreement, micros: finished.micros };
    if !agreement.is_match() {
        return Attempt::Not(NotMatched {
            reason: agreement.reason(),
            detail: None,
            ran: Some(Arc::new(ran)),
            broke_off: false,
        });
    }
    match keep(context, &ran.outcome, started, place) {
        Ok(None) => Attempt::Matched(Arc::new(ran)),
        Ok(Some(broke_off)) => broke_off,
        Err(error) => Attempt::Halt(error.into()),
    }
}

/// Its value has ended the entry, and nobody waits for the replay.
fn over() -> Halt {
    Halt::Failed("the entry has ended by its value".to_owned())
}

/// Makes what a run made durable, but for what travels in the transaction. That is part of the replay's time: many large
/// outputs turn it into a long one, and end it, as the run itself would.
fn keep(
    context: &Context,
    outcome: &Outcome,
    started: Instant,
    place: &Place,
) -> Result<Option<Attempt>, StorageError> {
    let state = &context.state;
    let mut seen = BTreeSet::new();
    for made in produced(outcome).filter(|p| !is_small(p) && seen.insert(p.hash)) {
        if state.cancel.load(Ordering::Relaxed) {
            return Ok(Some(Attempt::Halt(Halt::Failed("the server is stopping; send the entry again".to_owned()))));
        }
        if context.over.load(Ordering::Relaxed) {
            return Ok(Some(Attempt::Halt(over())));
        }
        let taken = started.elapsed();
        if taken >= state.deadline {
            let detail = Some(RunError::Deadline.to_string());
            let reason = Reason::ReplaySlow;
            return Ok(Some(Attempt::Not(NotMatched { reason, detail, ran: None, broke_off: true })));
        }
        if taken >= LONG_AFTER && !place.is_long() && !place.turn_long() {
            return Ok(Some(Attempt::Crowded));
        }
        state.store.put_produced(&context.scope, made)?;
    }
    Ok(None)
}
