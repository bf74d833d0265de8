//! How record and replay differ: every path, stream and exit code, with the first differing offset where both contents
//! are at hand.

use crate::contents::{Replayed, first_difference};
use crate::decide::difference;
use crate::lists::{Parts, Sent};
use crate::replay::NotMatched;
use crate::ship::Context;
use opship_record::answer::{Aspect, Difference};
use opship_record::effect::{self, Change};
use opship_record::limits::MAX_REPORT;
use opship_record::observation::Observation;
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, MemoryContent, Outcome, Produced};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes that one report compares to find offsets.
const COMPARE_BYTES: u64 = 1 << 30;

/// What is known before the client has sent its lists.
pub(crate) fn summary(not: &NotMatched) -> Vec<Difference> {
    if not.broke_off {
        return vec![difference(Aspect::Finish)];
    }
    not.ran.as_ref().map(|ran| ran.agreement.summary()).unwrap_or_default()
}

/// The whole report, bounded by [`MAX_REPORT`].
pub(crate) fn whole(context: &Context, parts: &Parts, sent: &Sent, not: &NotMatched) -> Vec<Difference> {
    let Some(ran) = &not.ran else { return summary(not) };
    let mut report = differences(&sent.lists, &ran.outcome.lists);
    report.truncate(MAX_REPORT);
    let mut budget = COMPARE_BYTES;
    for difference in &mut report {
        let Some(replayed) = replayed_content(&ran.outcome, difference) else { continue };
        let Some(recorded) = difference.recorded.and_then(|hash| recorded_content(context, parts, &hash)) else {
            continue;
        };
        let cost = recorded.length().min(replayed.length);
        if cost > budget {
            continue;
        }
        budget -= cost;
        difference.offset = first_difference(&*recorded, &Replayed(replayed)).ok().flatten();
    }
    report
}

fn recorded_content(context: &Context, parts: &Parts, hash: &Hash) -> Option<Box<dyn FileContent>> {
    if let Some(bytes) = parts.blobs.get(hash) {
        return Some(Box::new(MemoryContent::new(Arc::clone(bytes))));
    }
    // A content that cannot be opened only costs the report its offset.
    let content = context.state.store.open_blob(&context.scope, hash).ok()??;
    Some(Box::new(content))
}

fn replayed_content<'a>(outcome: &'a Outcome, difference: &Difference) -> Option<&'a Produced> {
    let stream = || outcome.streams.get(usize::from(difference.step?));
    match difference.aspect {
        Aspect::Content => outcome.files.get(difference.path.as_ref()?),
        Aspect::Stdout => stream().map(|(stdout, _)| stdout),
        Aspect::Stderr => stream().map(|(_, stderr)| stderr),
        _ => None,
    }
}

/// How two runs' lists differ; `a` is the recorded one.
fn differences(a: &Lists, b: &Lists) -> Vec<Difference> {
    let mut found = changes(&a.changes, &b.changes);
    found.extend(streams(a, b));
    found.extend(exits(a, b));
    found.extend(observations(&a.observations, &b.observations));
    found
}

fn changes(a: &[Change], b: &[Change]) -> Vec<Difference> {
    let mut pairs: BTreeMap<&TreePath, (Option<&Change>, Option<&Change>)> = BTreeMap::new();
    a.iter().for_each(|change| pairs.entry(&change.path).or_default().0 = Some(change));
    b.iter().for_each(|change| pairs.entry(&change.path).or_default().1 = Some(change));
    let mut found = Vec::new();
    for (path, (recorded, replayed)) in pairs {
        let digests = |change: Option<&Change>| change.map(|c| effect::digests(std::slice::from_ref(c)));
        let (x, y) = (digests(recorded), digests(replayed));
        let only_one = recorded.is_none() != replayed.is_none();
        let aspects = [
            (!only_one && x.map(|d| d.before) != y.map(|d| d.before), Aspect::Before),
            (x.map(|d| d.content) != y.map(|d| d.content), Aspect::Content),
            (!only_one && x.map(|d| d.metadata) != y.map(|d| d.metadata), Aspect::Metadata),
        ];
        for (_, aspect) in aspects.into_iter().filter(|(differs, _)| *differs) {
            let (x, y) = (recorded.and_then(|c| c.after.blob()), replayed.and_then(|c| c.after.blob()));
            found.push(Difference { path: Some(path.clone()), ..sides(aspect, x, y) });
        }
    }
    found
}

fn sides(aspect: Aspect, recorded: Option<(u64, Hash)>, replayed: Option<(u64, Hash)>) -> Difference {
    Difference {
        recorded: recorded.map(|(_, hash)| hash),
        replayed: replayed.map(|(_, hash)| hash),
        recorded_length: recorded.map(|(length, _)| length),
        replayed_length: replayed.map(|(length, _)| length),
        ..difference(aspect)
    }
}

fn streams(a: &Lists, b: &Lists) -> Vec<Difference> {
    let mut found = Vec::new();
    for (step, (x, y)) in (0u8..).zip(a.streams.iter().zip(&b.streams)) {
        let pairs = [
            (Aspect::Stdout, (x.stdout_length, x.stdout), (y.stdout_length, y.stdout)),
            (Aspect::Stderr, (x.stderr_length, x.stderr), (y.stderr_length, y.stderr)),
        ];
        for (aspect, recorded, replayed) in pairs.into_iter().filter(|(_, x, y)| x != y) {
            found.push(Difference { step: Some(step), ..sides(aspect, Some(recorded), Some(replayed)) });
        }
    }
    found
}

fn exits(a: &Lists, b: &Lists) -> Vec<Difference> {
    let pairs = (0u8..).zip(a.exits.iter().zip(&b.exits)).filter(|(_, (x, y))| x != y);
    pairs
        .map(|(step, (x, y))| Difference {
            step: Some(step),
            recorded_length: Some(u64::from(*x)),
            replayed_length: Some(u64::from(*y)),
            ..difference(Aspect::Exit)
        })
        .collect()
}

fn observations(a: &[Observation], b: &[Observation]) -> Vec<Difference> {
    let hash = |o: &Observation| match o {
        Observation::Content { hash, .. } => Some(*hash),
        Observation::Listing { digest, .. } => Some(*digest),
        _ => None,
    };
    let mut found: BTreeMap<&TreePath, Difference> = BTreeMap::new();
    let lacks = |list: &[Observation], item: &Observation| list.binary_search(item).is_err();
    for observation in a.iter().filter(|o| lacks(b, o)) {
        found.entry(observation.path()).or_insert_with(|| difference(Aspect::Observation)).recorded = hash(observation);
    }
    for observation in b.iter().filter(|o| lacks(a, o)) {
        found.entry(observation.path()).or_insert_with(|| difference(Aspect::Observation)).replayed = hash(observation);
    }
    found.into_iter().map(|(path, d)| Difference { path: Some(path.clone()), ..d }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::effect::{After, Before};
    use opship_record::node::Kind;
    use opship_record::record::StepStreams;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn written(at: &str, bytes: &[u8], mtime: i64) -> Change {
        Change {
            path: path(at),
            before: Before::Absent { missing: path(at), above: Kind::Directory },
            after: After::File { length: bytes.len() as u64, hash: Hash::of(bytes), mode: None, mtime },
        }
    }

    #[test]
    fn every_differing_path_stream_and_exit_is_named_once() {
        let recorded = Lists {
            observations: vec![Observation::Content { path: path("in"), hash: Hash::of(b"1") }],
            changes: vec![
                written("a", b"x", 1),
                written("b", b"x", 1),
                written("c", b"x", 1),
                written("same", b"x", 1),
            ],
            streams: vec![StepStreams::default()],
            exits: vec![0],
        };
        let replayed = Lists {
            observations: vec![Observation::Content { path: path("in"), hash: Hash::of(b"2") }],
            changes: vec![
                written("a", b"yy", 1),
                written("b", b"x", 2),
                written("d", b"x", 1),
                written("same", b"x", 1),
            ],
            streams: vec![StepStreams { stderr_length: 1, stderr: Hash::of(b"!"), ..StepStreams::default() }],
            exits: vec![2],
        };
        let named: Vec<_> = differences(&recorded, &replayed)
            .into_iter()
            .map(|d| (d.aspect, d.path.map(|p| p.to_string()), d.recorded_length, d.replayed_length))
            .collect();
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(
            named,
            vec![
                (Aspect::Content, at("a"), Some(1), Some(2)),
                (Aspect::Metadata, at("b"), Some(1), Some(1)),
                (Aspect::Content, at("c"), Some(1), None),
                (Aspect::Content, at("d"), None, Some(1)),
                (Aspect::Stderr, None, Some(0), Some(1)),
                (Aspect::Exit, None, Some(0), Some(2)),
                (Aspect::Observation, at("in"), None, None),
            ]
        );
        assert!(differences(&recorded, &recorded).is_empty());
    }
}
