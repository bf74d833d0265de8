//! How an operation is decided.

use crate::lists::{Halt, Parts, Sent};
use crate::modules;
use crate::policy::{Refusal, may_be_refused, refusal, reject};
use crate::problem::Problem;
use crate::race::unless_value_comes;
use crate::rebase::{Hindrance, Rebase, hindrance};
use crate::repair::repair;
use crate::replay::{Attempt, NotMatched, Ran, attempt};
use crate::report;
use crate::ship::{Closing, Context, End, Origin, Standing};
use crate::ship::{conflict, end, halted, outputs_changed, standing, try_end};
use crate::state::blocking;
use crate::workers::Place;
use opship_record::answer::{Answer, Difference, Need, Reason, Status, Verdict};
use opship_record::plan::{PROFILE, Stdin};
use opship_record::record::{Lists, Record};
use opship_storage::{Ending, Rebase as Allowed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often a run is repeated at most because the head moved under it.
const REPEATS: u32 = 3;

/// Decides an operation and says the answer.
pub(crate) async fn decide(context: &Arc<Context>, record: Record, parts: Parts) -> Answer {
    let (record, parts) = (Arc::new(record), Arc::new(parts));
    for left in (0..=REPEATS).rev() {
        let replayed = match unless_value_comes(context, &record, replay(context, &record, &parts)).await {
            Ok(replayed) => replayed,
            Err(answer) => return answer,
        };
        let decided = match replayed {
            Ok(Replay::Matched(ran)) => matched(context, &record, &parts, ran, left).await,
            Ok(Replay::Not(not)) => by_value(context, &record, &parts, not, left).await,
            Err(halt) => Some(halted(context, halt)),
        };
        if let Some(answer) = decided {
            return answer;
        }
        // It was decided on a head that is none any more.
        context.state.outcomes.forget(context.scope.workspace_id(), &context.envelope.body);
    }
    halted(context, Halt::Failed("the head moved each time; send the entry again".to_owned()))
}

enum Replay {
    Matched(Arc<Ran>),
    Not(Arc<NotMatched>),
}

/// Replays a record, unless that cannot be or was done a moment ago.
async fn replay(context: &Arc<Context>, record: &Arc<Record>, parts: &Arc<Parts>) -> Result<Replay, Halt> {
    let state = &context.state;
    let without =
        |reason, detail: &str| Ok(Replay::Not(Arc::new(NotMatched::without_replay(reason, Some(detail.to_owned())))));
    if !state.replay {
        return without(Reason::Policy, "this server does not replay operations; the result was asked for instead");
    }
    if record.plan.profile != PROFILE {
        return without(Reason::EngineDiffers, "the record is of another engine profile; update the older side");
    }
    let (workspace, body) = (context.scope.workspace_id(), context.envelope.body);
    if parts.has_lists()
        && let Some(not) = state.outcomes.get(workspace, &body)
    {
        return Ok(Replay::Not(not));
    }
    let principal = context.scope.principal();
    let (mut loaded, mut repeats, mut is_long, mut is_large) = (BTreeSet::new(), 0, false, false);
    loop {
        let (own, record, sent) = (Arc::clone(context), Arc::clone(record), Arc::clone(parts));
        let room = state.memory.room(if is_large { state.memory.reserve().await } else { None });
        let work = move |place: &Place| attempt(&own, &record, &sent, place, room);
        let attempted = match is_long {
            true => state.workers.run_long(principal, work).await,
            false => state.workers.run(principal, work).await,
        };
        match attempted.map_err(|_| Halt::Failed("the replay was broken off; send the entry again".to_owned()))? {
            Attempt::Matched(ran) => return Ok(Replay::Matched(ran)),
            Attempt::Halt(halt) => return Err(halt),
            Attempt::Crowded => is_long = true,
            Attempt::NoMemory if !is_large => is_large = true,
            Attempt::NoMemory => {
                let detail = "the replay needs more memory than the server has for all; its result travels instead";
                return without(Reason::Limit, detail);
            }
            // The head may have moved on to what the record was made on.
            Attempt::Not(not) if repeats < REPEATS && has_moved(context, &not).await? => repeats += 1,
            Attempt::Not(not) => {
                let not = Arc::new(not);
                state.outcomes.keep(workspace, body, Arc::clone(&not));
                return Ok(Replay::Not(not));
            }
            Attempt::Load(hashes) => {
                for hash in hashes {
                    if !loaded.insert(hash) {
                        let detail = "more modules are used at once than the server keeps ready; send the entry again";
                        return Err(Halt::Failed(detail.to_owned()));
                    }
                    let inline = parts.blobs.get(&hash).cloned();
                    modules::load(state, &context.scope, hash, inline).await?;
                }
            }
        }
    }
}

/// Is the head another by now than the one that a run stood on?
async fn has_moved(context: &Arc<Context>, not: &NotMatched) -> Result<bool, Halt> {
    let Some(root) = not.ran.as_ref().map(|ran| ran.root) else { return Ok(false) };
    let own = Arc::clone(context);
    let head = blocking(move || own.state.store.head(&own.scope)).await;
    let head = head.map_err(|problem: Problem| Halt::Failed(problem.detail().to_owned()))?;
    Ok(head.map_err(|error| Halt::Failed(Problem::from(error).detail().to_owned()))?.root != root)
}

/// Every digest agrees: commit, if all that the run saw and overwrote is still as it saw it. `None`: its inputs are others
/// by now, and there is time to run it on those.
async fn matched(
    context: &Arc<Context>,
    record: &Record,
    parts: &Arc<Parts>,
    ran: Arc<Ran>,
    left: u32,
) -> Option<Answer> {
    if let Err(halt) = keep_inputs(context, record, parts).await {
        return Some(halted(context, halt));
    }
    opship_engine::failpoint::hit("server-replayed");
    match refused(context, &ran).await {
        Ok(None) => {}
        Ok(Some(refusal)) => return Some(reject(context, ran.outcome.lists.clone(), refusal).await),
        Err(halt) => return Some(halted(context, halt)),
    }
    let ending = Ending { replay_micros: Some(ran.micros), ..context.ending(Verdict::Matched) };
    let (pinned, based_on) = (ran.pinned(), Some(ran.root));
    match try_end(context, Closing { origin: Origin::Run(ran), pinned, ending, based_on }).await {
        End::Answered(answer) => Some(answer),
        End::Stale(_, Reason::InputsChanged) if left > 0 => None,
        End::Stale(closing, reason) => Some(conflict(context, *closing, reason).await),
    }
}

/// Does the workspace refuse what a run made?
async fn refused(context: &Arc<Context>, ran: &Arc<Ran>) -> Result<Option<Refusal>, Halt> {
    if !may_be_refused(&ran.outcome.lists.changes) {
        return Ok(None);
    }
    let (own, ran) = (Arc::clone(context), Arc::clone(ran));
    let asked = blocking(move || refusal(&own, &ran.outcome.lists.changes)).await;
    asked.map_err(|problem: Problem| Halt::Failed(problem.detail().to_owned()))?
}

/// Modules and standard input that came inline stay, so that the next operation need not bring them.
async fn keep_inputs(context: &Arc<Context>, record: &Record, parts: &Arc<Parts>) -> Result<(), Halt> {
    let stdin = |stdin: &Option<Stdin>| matches!(stdin, Some(Stdin::Blob { hash }) if parts.blobs.contains_key(hash));
    let inline = record.plan.steps.iter().any(|step| parts.blobs.contains_key(&step.module) || stdin(&step.stdin));
    if !inline {
        return Ok(());
    }
    let (own, parts) = (Arc::clone(context), Arc::clone(parts));
    let kept = blocking(move || parts.keep(&own.state, &own.scope)).await;
    Ok(kept.map_err(|problem: Problem| Halt::Failed(problem.detail().to_owned()))??)
}

/// What to do with an entry that goes by value.
enum ByValue {
    Ship(Closing),
    Conflict(Closing, Reason),
    Rebase(Box<Rebase>),
    Refused(Lists, Refusal),
    Answer(Answer),
}

/// `None`: the head has moved, and there is time to run on the one that it is now.
async fn by_value(
    context: &Arc<Context>,
    record: &Arc<Record>,
    parts: &Arc<Parts>,
    not: Arc<NotMatched>,
    left: u32,
) -> Option<Answer> {
    let (own, record, parts) = (Arc::clone(context), Arc::clone(record), Arc::clone(parts));
    let decided = blocking(move || match weigh(&own, &record, &parts, &not, left) {
        Ok(decided) => decided,
        Err(Halt::Failed(detail)) => ByValue::Answer(halted(&own, Halt::Failed(detail))),
        Err(Halt::Needs(needs)) => ByValue::Answer(asks(&own, &parts, &not, needs, not.reason, report::summary(&not))),
    });
    Some(match decided.await {
        Ok(ByValue::Ship(closing)) => end(context, closing).await,
        Ok(ByValue::Conflict(closing, reason)) => conflict(context, closing, reason).await,
        Ok(ByValue::Rebase(rebase)) => return rebase.commit(context).await,
        Ok(ByValue::Refused(lists, refusal)) => reject(context, lists, refusal).await,
        Ok(ByValue::Answer(answer)) => answer,
        Err(problem) => halted(context, Halt::Failed(problem.detail().to_owned())),
    })
}

/// Weighs an entry that is not `matched`: the client's lists against the head, then against the replay. `left`: how often
/// it may be decided again.
fn weigh(context: &Context, record: &Record, parts: &Parts, not: &Arc<NotMatched>, left: u32) -> Result<ByValue, Halt> {
    let lists = parts.lists(&context.state, &context.scope, record, not.ran.as_deref())?;
    if let Some(refusal) = refusal(context, &lists.changes)? {
        return Ok(ByValue::Refused(lists, refusal));
    }
    let standing = standing(context, &lists)?;
    let repaired = match (&standing, &not.ran) {
        (Standing::Holds, Some(ran)) if ran.agreement.exits => repair(context, parts, &lists, ran)?,
        _ => 0,
    };
    let sent = Sent::new(&context.state, &context.scope, parts, lists, not.ran.as_deref())?;
    let (rebases, conflict) = match standing {
        Standing::Holds => (None, None),
        Standing::OutputsChanged(detail) => (None, Some((Reason::OutputsChanged, detail))),
        Standing::InputsChanged(changed) if context.state.store.settings(&context.scope)?.rebase == Allowed::Forbid => {
            let detail = format!("{changed}, and this workspace does not let it be run again on that; run it anew");
            (None, Some((Reason::Policy, detail)))
        }
        Standing::InputsChanged(changed) => match on_new_inputs(&sent.lists, not, left, &changed) {
            Ok(ran) => match refusal(context, &ran.outcome.lists.changes)? {
                Some(refusal) => return Ok(ByValue::Refused(sent.lists, refusal.after(&changed))),
                None => (Some((ran, changed)), None),
            },
            Err(conflict) => (None, Some(conflict)),
        },
    };
    if conflict.is_none() && rebases.is_none() && record.is_native() && not.is_native_match() {
        return Ok(ByValue::Ship(matched_natively(context, parts, not, sent)?));
    }
    let (reason, detail, report) = match (&conflict, &rebases) {
        (Some((reason, detail)), _) => (*reason, Some(detail.clone()), Vec::new()),
        (None, Some((_, changed))) => (Reason::InputsChanged, Some(changed.clone()), Vec::new()),
        (None, None) => (not.reason, not.detail.clone(), report::whole(context, parts, &sent, not)),
    };
    if !sent.lacking.is_empty() {
        return Ok(ByValue::Answer(asks(context, parts, not, sent.needs(), reason, report)));
    }
    if let Some((ran, changed)) = rebases {
        return Ok(ByValue::Rebase(Box::new(Rebase::new(context, record, ran, sent, &changed)?)));
    }
    let verdict = match conflict {
        Some(_) => Verdict::Conflicted,
        // The lists have the record's digests, and all that they name is here.
        None if repaired > 0 => Verdict::Repaired,
        None => Verdict::Shipped,
    };
    if verdict == Verdict::Repaired {
        parts.keep(&context.state, &context.scope)?;
    }
    let ending =
        Ending { reason: Some(reason), report, detail, replay_micros: not.micros(), ..context.ending(verdict) };
    let closing = Closing { pinned: sent.pinned.clone(), origin: Origin::Sent(Arc::new(sent)), ending, based_on: None };
    Ok(match conflict {
        Some((reason, _)) => ByValue::Conflict(closing, reason),
        None => ByValue::Ship(closing),
    })
}

/// A program of the client's own wrote what the module writes: modes and times are the program's, and came with the list.
fn matched_natively(context: &Context, parts: &Parts, not: &NotMatched, sent: Sent) -> Result<Closing, Halt> {
    parts.keep(&context.state, &context.scope)?;
    let ending = Ending { replay_micros: not.micros(), ..context.ending(Verdict::Matched) };
    Ok(Closing { pinned: sent.pinned.clone(), origin: Origin::Sent(Arc::new(sent)), ending, based_on: None })
}

/// The run on inputs that are others now, if it may stand for the recorded one; else why the entry is a conflict.
fn on_new_inputs(recorded: &Lists, not: &NotMatched, left: u32, changed: &str) -> Result<Arc<Ran>, (Reason, String)> {
    let Some(ran) = not.ran.as_ref().filter(|_| left > 0) else {
        let trapped = not.broke_off && not.reason == Reason::OutcomeChanged;
        let reason = if trapped { Reason::OutcomeChanged } else { Reason::InputsChanged };
        return Err((reason, not.detail.as_ref().map_or(changed.to_owned(), |why| format!("{changed} ({why})"))));
    };
    match hindrance(recorded, &ran.outcome.lists) {
        None => Ok(Arc::clone(ran)),
        Some(Hindrance::Outcome) => {
            Err((Reason::OutcomeChanged, format!("{changed}: on the new inputs it ends with another exit code")))
        }
        Some(Hindrance::Blind(path)) => Err((Reason::OutputsChanged, outputs_changed(&path))),
    }
}

/// Asks for what is lacking; what came inline stays, so that it need not come again.
fn asks(
    context: &Context,
    parts: &Parts,
    not: &NotMatched,
    needs: Vec<Need>,
    reason: Reason,
    report: Vec<Difference>,
) -> Answer {
    if let Err(error) = parts.keep(&context.state, &context.scope) {
        return halted(context, error.into());
    }
    Answer {
        reason: Some(reason),
        needs: Some(needs),
        report: (!report.is_empty()).then_some(report),
        detail: not.detail.clone(),
        replay_micros: not.micros(),
        ..Answer::new(context.envelope.sequence, Status::Needs)
    }
}
