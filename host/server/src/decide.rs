//! What a replay says of a record. Plain functions: no storage, no engine, no clock.

use opship_engine::{ModuleError, RunError};
use opship_record::answer::{Aspect, Difference, Reason};
use opship_record::record::{Lists, Record, streams_digest};
use opship_record::{effect, observation};

/// Which of a record's digests a list of observations and effects has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) observations: bool,
    pub(crate) before: bool,
    pub(crate) content: bool,
    pub(crate) metadata: bool,
    pub(crate) streams: bool,
    pub(crate) exits: bool,
}

/// Compares lists with a record, digest by digest.
pub(crate) fn compare(record: &Record, lists: &Lists) -> Agreement {
    let changes = effect::digests(&lists.changes);
    let steps = record.plan.steps.len();
    let exits = match &record.exits {
        Some(exits) => lists.exits == *exits,
        None => lists.exits.len() == steps && lists.exits.iter().all(|code| *code == 0),
    };
    Agreement {
        observations: record.observations == observation::digest(&lists.observations),
        before: record.before == changes.before,
        content: record.content == changes.content,
        metadata: record.metadata == changes.metadata,
        streams: lists.streams.len() == steps && record.streams == streams_digest(&lists.streams),
        exits,
    }
}

impl Agreement {
    /// Are all digests and exit codes the record's? Only then is an entry `matched`.
    pub(crate) fn is_match(self) -> bool {
        let Agreement { observations, before, content, metadata, streams, exits } = self;
        observations && before && content && metadata && streams && exits
    }

    /// Is all the record's but modes, times and streams? Those a module cannot give that stands for a program of the
    /// client's own.
    pub(crate) fn is_native_match(self) -> bool {
        Agreement { metadata: true, streams: true, ..self }.is_match()
    }

    /// Why an entry with this agreement is not `matched`, if its inputs are what the record says.
    pub(crate) fn reason(self) -> Reason {
        if self.exits { Reason::Diverged } else { Reason::OutcomeChanged }
    }

    /// What differs, while the paths are not known yet.
    pub(crate) fn summary(self) -> Vec<Difference> {
        let aspects = [
            (self.observations, Aspect::Observation),
            (self.before, Aspect::Before),
            (self.content, Aspect::Content),
            (self.metadata, Aspect::Metadata),
            (self.streams, Aspect::Stdout),
            (self.exits, Aspect::Exit),
        ];
        aspects.into_iter().filter(|(agrees, _)| !agrees).map(|(_, aspect)| difference(aspect)).collect()
    }
}

/// A difference of which only the aspect is known.
pub(crate) fn difference(aspect: Aspect) -> Difference {
    Difference {
        aspect,
        path: None,
        step: None,
        recorded: None,
        replayed: None,
        recorded_length: None,
        replayed_length: None,
        offset: None,
    }
}

/// What a run without a result means for its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// It cannot be replayed here, for this reason: it goes by value.
    ByValue(Reason),
    /// It says nothing of the entry: it may be sent again.
    Again,
}

/// Sorts the ends of runs.
pub(crate) fn unfinished(error: &RunError) -> Unfinished {
    match error {
        RunError::Limit { .. } => Unfinished::ByValue(Reason::Limit),
        RunError::Deadline => Unfinished::ByValue(Reason::ReplaySlow),
        RunError::Module(error) => refused(error),
        RunError::Trap { .. } | RunError::StackOverflow { .. } | RunError::Refused { .. } | RunError::Record(_) => {
            Unfinished::ByValue(Reason::OutcomeChanged)
        }
        _ => Unfinished::Again,
    }
}

/// Sorts what keeps a module from being used.
pub(crate) fn refused(error: &ModuleError) -> Unfinished {
    match error {
        ModuleError::Imports { .. } => Unfinished::ByValue(Reason::Imports),
        ModuleError::Host { .. } | ModuleError::HashMismatch { .. } => Unfinished::Again,
        _ => Unfinished::ByValue(Reason::ModuleRefused),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::effect::{After, Before, Change};
    use opship_record::node::Kind;
    use opship_record::observation::Observation;
    use opship_record::plan::{PROFILE, Plan, Step};
    use opship_record::record::StepStreams;
    use opship_record::{FORMAT_VERSION, Hash, TreePath};

    fn plan() -> Plan {
        let steps = vec![Step::new(Hash::of(b"module"), ["m"])];
        Plan { format: FORMAT_VERSION, steps, clock_start: 0, seed: [0; 16].into(), limits: None, profile: PROFILE }
    }

    fn lists() -> Lists {
        let path = TreePath::new("out").unwrap();
        let change = Change {
            path: path.clone(),
            before: Before::Absent { missing: path.clone(), above: Kind::Directory },
            after: After::File { length: 1, hash: Hash::of(b"x"), mode: None, mtime: 5 },
        };
        Lists {
            observations: vec![Observation::Exists { path, kind: Kind::File }],
            changes: vec![change],
            streams: vec![StepStreams { stdout_length: 1, stdout: Hash::of(b"o"), ..StepStreams::default() }],
            exits: vec![0],
        }
    }

    #[test]
    fn equal_lists_match_and_each_single_difference_does_not() {
        type Edit = (Aspect, fn(&mut Lists));
        let record = Record::new(plan(), &lists());
        assert!(compare(&record, &lists()).is_match());
        let edits: [Edit; 6] = [
            (Aspect::Observation, |l| l.observations.clear()),
            (Aspect::Before, |l| l.changes[0].before = Before::Directory),
            (Aspect::Content, |l| {
                l.changes[0].after = After::File { length: 1, hash: Hash::of(b"y"), mode: None, mtime: 5 };
            }),
            (Aspect::Metadata, |l| {
                l.changes[0].after = After::File { length: 1, hash: Hash::of(b"x"), mode: None, mtime: 6 };
            }),
            (Aspect::Stdout, |l| l.streams[0].stdout_length = 2),
            (Aspect::Exit, |l| l.exits[0] = 1),
        ];
        for (aspect, edit) in edits {
            let mut other = lists();
            edit(&mut other);
            let agreement = compare(&record, &other);
            assert!(!agreement.is_match(), "{aspect:?}");
            assert_eq!(agreement.summary(), vec![difference(aspect)]);
        }
    }

    #[test]
    fn an_exit_code_decides_the_reason() {
        let record = Record::new(plan(), &lists());
        let agreement = compare(&record, &Lists { exits: vec![3], ..lists() });
        assert_eq!(agreement.reason(), Reason::OutcomeChanged);
        let agreement = compare(&record, &Lists { streams: Vec::new(), ..lists() });
        assert_eq!(agreement.reason(), Reason::Diverged);
    }

    #[test]
    fn a_limit_of_the_operator_is_not_the_modules_fault() {
        assert_eq!(unfinished(&RunError::Deadline), Unfinished::ByValue(Reason::ReplaySlow));
        assert_eq!(unfinished(&RunError::Cancelled), Unfinished::Again);
        assert_eq!(refused(&ModuleError::Component), Unfinished::ByValue(Reason::ModuleRefused));
    }
}
