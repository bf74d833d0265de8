//! Operations whose inputs were changed by others: may the run on the new inputs stand for the recorded one?
//!
//! The check is a plain function over two lists. What is committed is the new run's, and what the author had recorded
//! stays pinned by the entry, so that it can be brought back.

use crate::lists::{Halt, Sent};
use crate::replay::{Ran, is_small};
use crate::ship::{Context, ended, merge_pins};
use opship_record::answer::{Answer, Reason, Verdict};
use opship_record::effect::{After, Before, Change, Origins};
use opship_record::observation::Observation;
use opship_record::record::{Lists, Record};
use opship_record::{Hash, TreePath};
use opship_storage::{Commit, Committed, Ending, StorageError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a run on other inputs must not take the recorded one's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// It exits otherwise.
    Outcome,
    /// It would overwrite or delete what another made of this path, without having looked at it.
    Blind(TreePath),
}

/// Compares a recorded run with one of the same plan on other inputs.
pub(crate) fn hindrance(recorded: &Lists, new: &Lists) -> Option<Hindrance> {
    if recorded.exits != new.exits {
        return Some(Hindrance::Outcome);
    }
    let befores: BTreeMap<&TreePath, &Before> = recorded.changes.iter().map(|c| (&c.path, &c.before)).collect();
    let looked_at = looked_at(&new.observations);
    let origins = Origins::new(&new.changes);
    let is_blind = |change: &&Change| {
        let known = befores.get(&change.path);
        let nothing_lost = match (&change.before, known) {
            // A mode or time, and no content.
            (Before::Kind { .. }, _) | (Before::Absent { .. }, None | Some(Before::Absent { .. })) => true,
            (before, Some(known)) => before == *known,
            (_, None) => false,
        };
        !nothing_lost && !origins.of(&change.path).is_some_and(|origin| looked_at.contains(&origin))
    };
    let blind = new.changes.iter().find(is_blind).map(|change| change.path.clone());
    blind.or_else(|| moved_over(recorded, new)).map(Hindrance::Blind)
}

/// The paths of whose contents a run knew.
fn looked_at(observations: &[Observation]) -> BTreeSet<TreePath> {
    let knows = |observation: &&Observation| {
        matches!(
            observation,
            Observation::Content { .. } | Observation::LinkTarget { .. } | Observation::Listing { .. }
        )
    };
    observations.iter().filter(knows).map(|observation| observation.path().clone()).collect()
}

/// Where a directory is moved over another, what that one held is in the observations alone: something there that the
/// recorded run did not see so.
fn moved_over(recorded: &Lists, new: &Lists) -> Option<TreePath> {
    let over = |change: &&Change| matches!(change.after, After::Moved { .. }) && change.before == Before::Directory;
    let targets: Vec<&TreePath> = new.changes.iter().filter(over).map(|change| &change.path).collect();
    let unseen = new.observations.iter().find(|observation| {
        let path = observation.path();
        targets.iter().any(|target| path.starts_with(target) && path != *target)
            && recorded.observations.binary_search(observation).is_err()
    });
    unseen.map(|observation| observation.path().clone())
}

/// An entry that may end `rebased`.
pub(crate) struct Rebase {
    record: Record,
    ran: Arc<Ran>,
    sent: Sent,
    detail: String,
}

impl Rebase {
    /// Makes what the new run made durable, but for what travels in the transaction. `changed` says which input is
    /// another.
    pub(crate) fn new(
        context: &Context,
        record: &Record,
        ran: Arc<Ran>,
        sent: Sent,
        changed: &str,
    ) -> Result<Rebase, Halt> {
        let mut seen = BTreeSet::new();
        for made in ran.produced().filter(|made| !is_small(made) && seen.insert(made.hash)) {
            context.state.store.put_produced(&context.scope, made)?;
        }
        let record = Record::new(record.plan.clone(), &ran.outcome.lists);
        let detail =
            format!("{changed}; it was run again on the new inputs, and your own result is kept on the server");
        Ok(Rebase { record, ran, sent, detail })
    }

    /// Commits. `None`: the head has moved once more, so that this run says nothing any more.
    pub(crate) async fn commit(self, context: &Arc<Context>) -> Option<Answer> {
        let Rebase { record, ran, sent, detail } = self;
        let mut ending = Ending {
            reason: Some(Reason::InputsChanged),
            detail: Some(detail),
            replay_micros: Some(ran.micros),
            record: Some(Box::new(record)),
            ..context.ending(Verdict::Rebased)
        };
        ending.sent_bytes = context.answer_bytes(&ending);
        let commit = Commit {
            envelope: context.envelope.clone(),
            body: context.body.clone(),
            lists: ran.outcome.lists.clone(),
            small_blobs: small_blobs(&ran, &sent),
            pinned: merge_pins(ran.pinned(), &sent.pinned),
            ending,
            based_on: Some(ran.root),
        };
        match context.state.store.commit_async(&context.scope, commit).await {
            Ok(Committed::Stale { .. }) | Err(StorageError::Unfit { .. }) => None,
            other => Some(ended(context, other)),
        }
    }
}

fn small_blobs(ran: &Ran, sent: &Sent) -> Vec<Vec<u8>> {
    let mut small: BTreeMap<Hash, Vec<u8>> = ran.small().into_iter().map(|bytes| (Hash::of(&bytes), bytes)).collect();
    small.extend(sent.small.iter().map(|bytes| (Hash::of(bytes), bytes.to_vec())));
    small.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::node::Kind;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn absent(at: &str) -> Before {
        Before::Absent { missing: path(at), above: Kind::Directory }
    }

    fn file(bytes: &[u8]) -> Before {
        Before::File { hash: Hash::of(bytes) }
    }

    fn written(at: &str, before: Before, bytes: &[u8]) -> Change {
        let after = After::File { length: bytes.len() as u64, hash: Hash::of(bytes), mode: None, mtime: 0 };
        Change { path: path(at), before, after }
    }

    fn content(at: &str, bytes: &[u8]) -> Observation {
        Observation::Content { path: path(at), hash: Hash::of(bytes) }
    }

    fn lists(observations: &[Observation], changes: &[Change]) -> Lists {
        Lists { observations: observations.to_vec(), changes: changes.to_vec(), exits: vec![0], ..Lists::default() }
    }

    #[test]
    fn only_what_the_new_run_did_not_look_at_hinders_it() {
        let blind = |at: &str| Some(Hindrance::Blind(path(at)));
        let removed = |at: &str, before| Change { path: path(at), before, after: After::Removed };
        let mode = After::Metadata { kind: Kind::File, mode: Some(0o600), mtime: None };
        let made = lists(&[content("in", b"1")], &[written("out", absent("out"), b"x")]);
        let replaced = lists(&[content("in", b"1")], &[written("out", file(b"old"), b"x")]);
        type Case<'a> = (&'a Lists, Vec<Observation>, Vec<Change>, Option<Hindrance>);
        let cases: [Case<'_>; 10] = [
            (&made, vec![content("in", b"2")], vec![written("out", absent("out"), b"y")], None),
            (&made, vec![content("in", b"2")], vec![written("other", absent("other"), b"y")], None),
            (&made, vec![], vec![written("out", file(b"theirs"), b"y")], blind("out")),
            (&made, vec![], vec![written("other", file(b"theirs"), b"y")], blind("other")),
            (&made, vec![content("out", b"theirs")], vec![written("out", file(b"theirs"), b"y")], None),
            (&replaced, vec![], vec![written("out", file(b"old"), b"y")], None),
            (&replaced, vec![], vec![written("out", file(b"theirs"), b"y")], blind("out")),
            (&replaced, vec![], vec![written("out", absent("out"), b"y")], blind("out")),
            (&replaced, vec![], vec![removed("d/theirs", file(b"theirs"))], blind("d/theirs")),
            (
                &made,
                vec![],
                vec![Change { path: path("in"), before: Before::Kind { kind: Kind::File }, after: mode }],
                None,
            ),
        ];
        for (number, (recorded, observations, changes, expected)) in cases.into_iter().enumerate() {
            assert_eq!(hindrance(recorded, &lists(&observations, &changes)), expected, "case {number}");
        }
        let exits = Lists { exits: vec![1], ..made.clone() };
        assert_eq!(hindrance(&made, &exits), Some(Hindrance::Outcome));
        assert_eq!(hindrance(&exits, &exits), None);
    }

    #[test]
    fn a_directory_moved_over_what_another_put_there_hinders() {
        let moved = Change {
            path: path("d"),
            before: Before::Directory,
            after: After::Moved { from: path("new"), mode: None },
        };
        let gone = Change { path: path("new"), before: Before::Directory, after: After::Removed };
        let recorded = lists(&[content("d/old", b"1")], &[moved.clone(), gone.clone()]);
        let same = lists(&[content("d/old", b"1")], &[moved.clone(), gone.clone()]);
        assert_eq!(hindrance(&recorded, &same), None);
        let more = lists(&[content("d/old", b"1"), content("d/theirs", b"2")], &[moved, gone]);
        assert_eq!(hindrance(&recorded, &more), Some(Hindrance::Blind(path("d/theirs"))));
    }
}
