//! What two runs did otherwise, by path and offset.

use opship_record::TreePath;
use opship_record::effect::{After, Change};
use opship_record::observation::Observation;
use opship_world::{Outcome, Produced};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// One thing that a run did otherwise than the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Other exit codes: of the first run and of this one.
    Exit(u32, u32),
    /// Other bytes.
    Bytes {
        /// Where.
        place: Place,
        /// The first byte that differs, or where the shorter one ends.
        offset: u64,
        /// Lengths in bytes: in the first run and in this one.
        lengths: [u64; 2],
    },
    /// Something else of a path.
    Path {
        /// The path.
        path: TreePath,
        /// What of it.
        aspect: Aspect,
    },
}

/// Where bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A written file.
    File(TreePath),
}

/// What of a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// Only one of the two runs changed it.
    Changed,
    /// It was changed to something of another kind.
    Kind,
    /// Content of a file that a run moved or linked.
    Content,
    /// Permission bits.
    Mode,
    /// Modification time.
    Time,
    /// Target of a symbolic link, or where a folder came from.
    Target,
    /// State before: only one of the two runs found it so.
    Before,
    /// Only one of the two runs looked at it.
    Observed,
}

impl Aspect {
    /// A name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Changed => "changed",
            Aspect::Kind => "kind",
            Aspect::Content => "content",
            Aspect::Mode => "mode",
            Aspect::Time => "time",
            Aspect::Target => "target",
            Aspect::Before => "before",
            Aspect::Observed => "observed",
        }
    }
}

/// All differences of two runs with one step. `times`: of modification times too.
pub(super) fn compare(first: &Outcome, other: &Outcome, times: bool) -> io::Result<Vec<Difference>> {
    let mut found = Vec::new();
    for (a, b) in first.lists.exits.iter().zip(&other.lists.exits) {
        if a != b {
            found.push(Difference::Exit(*a, *b));
        }
    }
    for (a, b) in first.streams.iter().zip(&other.streams) {
        found.extend(bytes(Place::Stdout, &a.0, &b.0)?);
        found.extend(bytes(Place::Stderr, &a.1, &b.1)?);
    }
    changes(first, other, times, &mut found)?;
    let (a, b): (BTreeSet<&Observation>, BTreeSet<_>) =
        (first.lists.observations.iter().collect(), other.lists.observations.iter().collect());
    let paths: BTreeSet<&TreePath> = a.symmetric_difference(&b).map(|observation| observation.path()).collect();
    found.extend(paths.into_iter().map(|path| Difference::Path { path: path.clone(), aspect: Aspect::Observed }));
    Ok(found)
}

fn changes(first: &Outcome, other: &Outcome, times: bool, found: &mut Vec<Difference>) -> io::Result<()> {
    let by_path = |outcome: &'_ Outcome| -> BTreeMap<TreePath, Change> {
        outcome.lists.changes.iter().map(|change| (change.path.clone(), change.clone())).collect()
    };
    let (a, b) = (by_path(first), by_path(other));
    for path in a.keys().chain(b.keys().filter(|path| !a.contains_key(path))) {
        let mut push = |aspect| found.push(Difference::Path { path: path.clone(), aspect });
        let (Some(a), Some(b)) = (a.get(path), b.get(path)) else {
            push(Aspect::Changed);
            continue;
        };
        if a.before != b.before {
            push(Aspect::Before);
        }
        aspects(&a.after, &b.after, times).into_iter().for_each(&mut push);
        if is_other_content(&a.after, &b.after) {
            match (first.files.get(path), other.files.get(path)) {
                (Some(a), Some(b)) => found.extend(bytes(Place::File(path.clone()), a, b)?),
                _ => push(Aspect::Content),
            }
        }
    }
    Ok(())
}

fn is_other_content(a: &After, b: &After) -> bool {
    matches!((a, b), (After::File { hash: a, .. }, After::File { hash: b, .. }) if a != b)
}

/// What differs but the content of files.
fn aspects(a: &After, b: &After, times: bool) -> Vec<Aspect> {
    if std::mem::discriminant(a) != std::mem::discriminant(b) {
        return vec![Aspect::Kind];
    }
    let (a, b) = (Metadata::of(a), Metadata::of(b));
    let differing = [
        (a.mode != b.mode, Aspect::Mode),
        (times && a.mtime != b.mtime, Aspect::Time),
        (a.target != b.target, Aspect::Target),
    ];
    differing.into_iter().filter_map(|(differs, aspect)| differs.then_some(aspect)).collect()
}

#[derive(Default)]
struct Metadata<'a> {
    mode: Option<u16>,
    mtime: Option<i64>,
    target: &'a [u8],
}

impl Metadata<'_> {
    fn of(after: &After) -> Metadata<'_> {
        match after {
            After::Removed => Metadata::default(),
            After::File { mode, mtime, .. } => Metadata { mode: *mode, mtime: Some(*mtime), target: &[] },
            After::Directory { mode } => Metadata { mode: *mode, ..Metadata::default() },
            After::Symlink { target, mtime } => Metadata { mtime: Some(*mtime), target, ..Metadata::default() },
            After::Moved { from, mode } => {
                Metadata { mode: *mode, target: from.as_str().as_bytes(), ..Metadata::default() }
            }
            After::Metadata { mode, mtime, .. } => Metadata { mode: *mode, mtime: *mtime, target: &[] },
        }
    }
}

fn bytes(place: Place, a: &Produced, b: &Produced) -> io::Result<Option<Difference>> {
    if a.hash == b.hash {
        return Ok(None);
    }
    let offset = first_difference(a, b)?;
    Ok(Some(Difference::Bytes { place, offset, lengths: [a.length, b.length] }))
}

/// The first offset at which two contents differ; the shorter one's length if it starts the longer one.
fn first_difference(a: &Produced, b: &Produced) -> io::Result<u64> {
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut offset = 0;
    loop {
        let counts = (a.read_at(offset, &mut left)?, b.read_at(offset, &mut right)?);
        let count = counts.0.min(counts.1);
        if let Some(at) = left[..count].iter().zip(&right[..count]).position(|(a, b)| a != b) {
            return Ok(offset + at as u64);
        }
        offset += count as u64;
        if count < left.len() {
            return Ok(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::Hash;
    use opship_record::effect::Before;
    use opship_record::node::Kind;
    use opship_record::record::Lists;
    use opship_world::ProducedBody;

    fn produced(bytes: &[u8]) -> Produced {
        Produced { body: ProducedBody::Memory(bytes.to_vec()), length: bytes.len() as u64, hash: Hash::of(bytes) }
    }

    fn outcome(stdout: &[u8], files: &[(&str, &[u8], i64)], exit: u32) -> Outcome {
        let path = |path: &str| -> TreePath { path.parse().unwrap() };
        let change = |(at, bytes, mtime): &(&str, &[u8], i64)| Change {
            path: path(at),
            before: Before::Absent { missing: path(at), above: Kind::Directory },
            after: After::File { length: bytes.len() as u64, hash: Hash::of(bytes), mode: None, mtime: *mtime },
        };
        Outcome {
            lists: Lists { changes: files.iter().map(change).collect(), exits: vec![exit], ..Lists::default() },
            files: files.iter().map(|(at, bytes, _)| (path(at), produced(bytes))).collect(),
            streams: vec![(produced(stdout), produced(b""))],
        }
    }

    #[test]
    fn offsets_and_lengths_are_those_of_the_first_difference() {
        let long = vec![7; 200_000];
        let mut other = long.clone();
        other[150_000] = 8;
        let cases: [(&[u8], &[u8], u64); 4] =
            [(b"abc", b"abd", 2), (b"abc", b"ab", 2), (b"", b"x", 0), (&long, &other, 150_000)];
        for (a, b, offset) in cases {
            let found = compare(&outcome(a, &[], 0), &outcome(b, &[], 0), true).unwrap();
            let lengths = [a.len() as u64, b.len() as u64];
            assert_eq!(found, [Difference::Bytes { place: Place::Stdout, offset, lengths }]);
        }
    }

    #[test]
    fn equal_runs_have_no_difference_and_each_aspect_is_named() {
        let first = || outcome(b"out", &[("a", b"1", 5), ("b", b"2", 5)], 0);
        assert_eq!(compare(&first(), &first(), true).unwrap(), []);
        let other = outcome(b"out", &[("a", b"3", 6), ("c", b"2", 5)], 4);
        let found = compare(&first(), &other, true).unwrap();
        let at = |path: &str, aspect| Difference::Path { path: path.parse().unwrap(), aspect };
        let expected = [
            Difference::Exit(0, 4),
            at("a", Aspect::Time),
            Difference::Bytes { place: Place::File("a".parse().unwrap()), offset: 0, lengths: [1, 1] },
            at("b", Aspect::Changed),
            at("c", Aspect::Changed),
        ];
        assert_eq!(found, expected);
        assert!(!compare(&first(), &other, false).unwrap().contains(&at("a", Aspect::Time)));
    }
}
