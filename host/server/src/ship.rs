//! Entries from their arrival to their answer.

use crate::inflight::{Joined, Key, Task, Waiting, answered};
use crate::lists::{Halt, Parts, Sent};
use crate::problem::Problem;
use crate::race::{Offer, Offers};
use crate::replay::Ran;
use crate::shares::Reserved;
use crate::state::{State, blocking};
use crate::{operation, value};
use opship_record::Hash;
use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_record::entry::{Body, Entry, Envelope};
use opship_record::record::Lists;
use opship_storage::check::Unmet;
use opship_storage::{Commit, Committed, Ending, Finish, Scope, StorageError, StoredEntry};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An entry being decided.
pub(crate) struct Context {
    pub(crate) state: Arc<State>,
    pub(crate) scope: Arc<Scope>,
    pub(crate) envelope: Envelope,
    pub(crate) body: Body,
    /// Bytes that it took in the request.
    received: u64,
    /// Values that come for it meanwhile.
    pub(crate) offers: Arc<Offers>,
    /// Set once one of them has ended it: then its replay stops.
    pub(crate) over: Arc<AtomicBool>,
}

/// An entry that came, and where its answer will be.
pub(crate) enum Arrived {
    Answered(Answer),
    Waiting(u64, Waiting),
}

/// An entry that this request is to decide.
struct Begun {
    task: Task,
    entry: Entry,
    received: u64,
    waits: Vec<Wait>,
    stored: Option<StoredEntry>,
}

/// An earlier entry that one waits for.
enum Wait {
    Running(u64, Waiting),
    Ended(u64, Verdict),
    /// To be looked up, or not known here.
    Unknown(u64),
}

/// Takes in the entries of one request, in their order. Work on them goes on whatever becomes of the request; `memory`
/// is what they take of the server's.
pub(crate) fn take(
    state: &Arc<State>,
    scope: &Arc<Scope>,
    entries: Vec<(Entry, u64)>,
    memory: Reserved,
) -> Vec<Arrived> {
    opship_engine::failpoint::hit("server-received");
    let memory = Arc::new(memory);
    let (arrived, begun) = join_all(state, scope, entries, &memory);
    state.tasks.spawn(begin(Arc::clone(state), Arc::clone(scope), begun, memory));
    arrived
}

/// Begins the work on each entry. Where that cannot be, its task is dropped, which answers it.
async fn begin(state: Arc<State>, scope: Arc<Scope>, begun: Vec<Begun>, memory: Arc<Reserved>) {
    let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
    let begun = match blocking(move || look_up(&own, &own_scope, begun)).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => return tracing::error!(%error, "entries could not be looked up"),
        Err(_) => return,
    };
    for begun in begun {
        let (own, scope, memory) = (Arc::clone(&state), Arc::clone(&scope), Arc::clone(&memory));
        state.tasks.spawn(async move {
            let (task, answer) = process(own, scope, begun).await;
            drop(memory);
            if answer.status == Status::Ended {
                opship_engine::failpoint::hit("server-committed");
            }
            task.answer(answer);
        });
    }
}

fn join_all(
    state: &State,
    scope: &Scope,
    entries: Vec<(Entry, u64)>,
    memory: &Arc<Reserved>,
) -> (Vec<Arrived>, Vec<Begun>) {
    let (mut arrived, mut begun) = (Vec::new(), Vec::new());
    for (entry, received) in entries {
        let (client, sequence) = (entry.envelope.client, entry.envelope.sequence);
        let key = |sequence| -> Key { (scope.workspace_id(), client, sequence) };
        match state.inflight.join(key(sequence), entry.envelope.body) {
            Joined::Forked => arrived.push(Arrived::Answered(forked(sequence))),
            Joined::Running(waiting, offers) => {
                let parts = Parts::new(entry.parts);
                if parts.has_lists() {
                    offers.put(Offer::new(parts, received, Arc::clone(memory)));
                }
                arrived.push(Arrived::Waiting(sequence, waiting));
            }
            Joined::First(task, waiting) => {
                let wait = |sequence: &u64| match state.inflight.running(&key(*sequence)) {
                    Some((_, waiting)) => Wait::Running(*sequence, waiting),
                    None => Wait::Unknown(*sequence),
                };
                let waits = entry.envelope.waits().iter().map(wait).collect();
                arrived.push(Arrived::Waiting(sequence, waiting));
                begun.push(Begun { task, entry, received, waits, stored: None });
            }
        }
    }
    (arrived, begun)
}

/// Looks up what ended before. After joining, so that nothing that ends meanwhile is missed.
fn look_up(state: &State, scope: &Scope, mut begun: Vec<Begun>) -> Result<Vec<Begun>, StorageError> {
    for begun in &mut begun {
        let envelope = &begun.entry.envelope;
        begun.stored = state.store.entry(scope, &envelope.client, envelope.sequence)?;
        for wait in &mut begun.waits {
            if let Wait::Unknown(sequence) = *wait
                && let Some(stored) = state.store.entry(scope, &envelope.client, sequence)?
            {
                *wait = Wait::Ended(sequence, stored.verdict);
            }
        }
    }
    Ok(begun)
}

async fn process(state: Arc<State>, scope: Arc<Scope>, begun: Begun) -> (Task, Answer) {
    let Begun { task, entry, received, waits, stored } = begun;
    let Entry { envelope, body, parts } = entry;
    if let Some(stored) = stored {
        let answer = if stored.body == envelope.body { stored.answer() } else { forked(envelope.sequence) };
        return (task, answer);
    }
    if let Some(answer) = parked(envelope.sequence, waits).await {
        return (task, answer);
    }
    let (offers, over) = (task.offers(), Arc::default());
    let context = Arc::new(Context { state, scope, envelope, body: body.clone(), received, offers, over });
    let parts = Parts::new(parts);
    let answer = match body {
        Body::Operation(record) => operation::decide(&context, record, parts).await,
        Body::Value(value) => value::decide(&context, value, parts).await,
    };
    if answer.status == Status::Ended {
        context.state.outcomes.forget(context.scope.workspace_id(), &context.envelope.body);
    }
    (task, answer)
}

/// Waits for the entries that one waits for; an answer if it cannot go on.
async fn parked(sequence: u64, waits: Vec<Wait>) -> Option<Answer> {
    let mut refused = Vec::new();
    let mut details = Vec::new();
    for wait in waits {
        let (earlier, verdict) = match wait {
            Wait::Ended(earlier, verdict) => (earlier, Some(verdict)),
            Wait::Running(earlier, waiting) => (earlier, answered(waiting).await.and_then(|answer| answer.verdict)),
            Wait::Unknown(earlier) => (earlier, None),
        };
        match verdict {
            Some(Verdict::Conflicted | Verdict::Rejected) => details.push(format!("entry {earlier} ended otherwise")),
            Some(_) => continue,
            None => details.push(format!("entry {earlier} has not ended here; send it first")),
        }
        refused.push(earlier);
    }
    (!refused.is_empty()).then(|| Answer {
        waits: Some(refused),
        detail: Some(details.join(", ")),
        ..Answer::new(sequence, Status::Parked)
    })
}

fn forked(sequence: u64) -> Answer {
    let detail = "another entry is held under this number: the working copy is a copy; it must take a new identity";
    Answer { detail: Some(detail.to_owned()), ..Answer::new(sequence, Status::Forked) }
}

/// The answer to an entry that stops without an ending.
pub(crate) fn halted(context: &Context, halt: Halt) -> Answer {
    let sequence = context.envelope.sequence;
    match halt {
        Halt::Needs(needs) => Answer { needs: Some(needs), ..Answer::new(sequence, Status::Needs) },
        Halt::Failed(detail) => Answer { detail: Some(detail), ..Answer::new(sequence, Status::Failed) },
    }
}

impl Context {
    /// An ending with the bytes on the wire filled in.
    pub(crate) fn ending(&self, verdict: Verdict) -> Ending {
        Ending { received_bytes: self.received, ..Ending::new(verdict) }
    }

    /// Bytes that the answer will take, but for the version's number, which is not known yet.
    pub(crate) fn answer_bytes(&self, ending: &Ending) -> u64 {
        let answer = Answer {
            verdict: Some(ending.verdict),
            reason: ending.reason,
            version: Some(0),
            report: (!ending.report.is_empty()).then(|| ending.report.clone()),
            detail: ending.detail.clone(),
            replay_micros: ending.replay_micros,
            record: ending.record.clone(),
            ..Answer::new(self.envelope.sequence, Status::Ended)
        };
        answer.encode().len() as u64
    }
}

/// How a list of changes stands to the head.
pub(crate) enum Standing {
    /// All that it depends on and all that it overwrites is there as it says.
    Holds,
    /// Something that it depends on is not; the text says what.
    InputsChanged(String),
    /// Something that it overwrites is not; the text says what.
    OutputsChanged(String),
}

/// Checks lists against the head of this moment.
pub(crate) fn standing(context: &Context, lists: &Lists) -> Result<Standing, Halt> {
    let Context { state, scope, .. } = context;
    let root = state.store.head(scope)?.root;
    let view =
        state.store.tree(scope, &root)?.ok_or_else(|| Halt::Failed("the head moved; send it again".to_owned()))?;
    Ok(match view.unmet(lists)? {
        None => Standing::Holds,
        Some(Unmet::Observation(observation)) => Standing::InputsChanged(inputs_changed(observation.path())),
        Some(Unmet::Before(path)) => Standing::OutputsChanged(outputs_changed(&path)),
    })
}

fn inputs_changed(path: &opship_record::TreePath) -> String {
    format!("'{path}' was changed by another before this arrived")
}

pub(crate) fn outputs_changed(path: &impl std::fmt::Display) -> String {
    format!("'{path}' was changed by another, and that change would be overwritten; both are kept: choose one")
}

/// Where the lists and contents of an ending come from.
pub(crate) enum Origin {
    Run(Arc<Ran>),
    Sent(Arc<Sent>),
}

impl Origin {
    fn lists(&self) -> Lists {
        match self {
            Origin::Run(ran) => ran.outcome.lists.clone(),
            Origin::Sent(sent) => sent.lists.clone(),
        }
    }

    fn small_blobs(&self) -> Vec<Vec<u8>> {
        match self {
            Origin::Run(ran) => ran.small(),
            Origin::Sent(sent) => sent.small.iter().map(|bytes| bytes.to_vec()).collect(),
        }
    }
}

/// All that is needed to end an entry.
pub(crate) struct Closing {
    pub(crate) origin: Origin,
    pub(crate) pinned: Vec<Hash>,
    pub(crate) ending: Ending,
    pub(crate) based_on: Option<Hash>,
}

/// The pins of what a run made and of what was recorded, each once.
pub(crate) fn merge_pins(made: Vec<Hash>, recorded: &[Hash]) -> Vec<Hash> {
    let all: BTreeSet<Hash> = made.into_iter().chain(recorded.iter().copied()).collect();
    all.into_iter().collect()
}

/// What ending an entry gave.
pub(crate) enum End {
    Answered(Answer),
    /// The head has moved so that the entry no longer fits, for this reason; nothing was changed.
    Stale(Box<Closing>, Reason),
}

/// Ends an entry with a version, or as a conflict if the head has moved so that it no longer fits.
pub(crate) async fn end(context: &Arc<Context>, closing: Closing) -> Answer {
    match try_end(context, closing).await {
        End::Answered(answer) => answer,
        End::Stale(closing, reason) => conflict(context, *closing, reason).await,
    }
}

/// Ends an entry with a version.
pub(crate) async fn try_end(context: &Arc<Context>, mut closing: Closing) -> End {
    closing.ending.sent_bytes = context.answer_bytes(&closing.ending);
    let commit = Commit {
        envelope: context.envelope.clone(),
        body: context.body.clone(),
        lists: closing.origin.lists(),
        small_blobs: closing.origin.small_blobs(),
        pinned: closing.pinned.clone(),
        ending: closing.ending.clone(),
        based_on: closing.based_on,
    };
    let (reason, detail) = match context.state.store.commit_async(&context.scope, commit).await {
        Ok(Committed::Stale { observation: Some(observation), .. }) => {
            (Reason::InputsChanged, inputs_changed(observation.path()))
        }
        Ok(Committed::Stale { before: Some(path), .. }) => (Reason::OutputsChanged, outputs_changed(&path)),
        Err(StorageError::Unfit { path, .. }) => (Reason::OutputsChanged, outputs_changed(&path)),
        other => return End::Answered(ended(context, other)),
    };
    closing.ending.detail = Some(detail);
    End::Stale(Box::new(closing), reason)
}

/// Ends an entry as `conflicted`: the head keeps the other's state, what this one made stays with the entry.
pub(crate) async fn conflict(context: &Arc<Context>, closing: Closing, reason: Reason) -> Answer {
    let lists = closing.origin.lists();
    let small_blobs = closing.origin.small_blobs();
    let mut ending = Ending {
        verdict: Verdict::Conflicted,
        reason: Some(reason),
        report: Vec::new(),
        record: None,
        ..closing.ending
    };
    ending.sent_bytes = context.answer_bytes(&ending);
    let (envelope, body) = (context.envelope.clone(), context.body.clone());
    let finish = Finish { envelope, body, lists, small_blobs, pinned: closing.pinned, ending };
    let finished = context.state.store.finish_async(&context.scope, finish).await;
    ended(context, finished)
}

pub(crate) fn ended(context: &Context, result: Result<Committed, StorageError>) -> Answer {
    match result {
        Ok(Committed::Done { entry, .. } | Committed::Duplicate(entry)) => entry.answer(),
        Ok(Committed::Forked) => forked(context.envelope.sequence),
        Ok(Committed::Stale { .. }) => {
            halted(context, Halt::Failed("the head moved meanwhile; send the entry again".to_owned()))
        }
        Err(error) => halted(context, error.into()),
    }
}

/// A problem of a whole request, as its last answer.
pub(crate) fn problem_answer(problem: &Problem) -> Answer {
    Answer { detail: Some(problem.detail().to_owned()), ..Answer::new(0, Status::Failed) }
}
