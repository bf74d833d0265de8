//! In which order the server's states are applied, and how many of them at once.
//!
//! What comes stands before what goes: a file that was moved is then still here when its new place is filled, also where
//! both are not applied together.

use super::pull::State;
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Paths applied at once: each batch is one durable intent.
const BATCH_PATHS: usize = 1000;
/// Bytes of contents in the first batch. Whoever is killed finds at the next start what was applied, so little is lost.
const LEAST_BYTES: u64 = 1 << 20;
/// Bytes of contents in a batch where they come fast.
const MOST_BYTES: u64 = 64 << 20;
/// While batches take less than this the next one is twice as large.
const SOON: Duration = Duration::from_millis(500);
/// After one that took longer the next is half as large.
const LATE: Duration = Duration::from_secs(4);

/// Contents, each with the number of states that want it.
pub(crate) type Wanted = BTreeMap<Hash, usize>;

/// States that wait to be applied.
pub(crate) struct Batches {
    left: VecDeque<State>,
    wanted: Wanted,
    room: u64,
}

impl Batches {
    /// All of these states. `is_folder`: is there a directory at a path here?
    pub(crate) fn new<E>(
        states: Vec<State>,
        is_folder: &mut dyn FnMut(&TreePath) -> Result<bool, E>,
    ) -> Result<Batches, E> {
        let left = in_order(states, is_folder)?;
        let mut wanted = Wanted::new();
        for hash in left.iter().filter_map(content) {
            *wanted.entry(hash).or_default() += 1;
        }
        Ok(Batches { left, wanted, room: LEAST_BYTES })
    }

    /// The next states that are applied together; one large file may be more than there is room for.
    pub(crate) fn next(&mut self) -> Option<Vec<State>> {
        let (mut batch, mut bytes) = (Vec::new(), 0u64);
        while let Some(state) = self.left.front() {
            // What another end says of lengths may be anything.
            let with_it = bytes.saturating_add(match &state.1 {
                Some(Node::File { length, .. }) => *length,
                _ => 0,
            });
            if !batch.is_empty() && (batch.len() >= BATCH_PATHS || with_it > self.room) {
                break;
            }
            bytes = with_it;
            self.take(content(state));
            batch.extend(self.left.pop_front());
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// The last batch took this time.
    pub(crate) fn took(&mut self, time: Duration) {
        if time < SOON {
            self.room = (self.room * 2).min(MOST_BYTES);
        } else if time > LATE {
            self.room = (self.room / 2).max(LEAST_BYTES);
        }
    }

    /// The contents that states want which are still to come.
    pub(crate) fn later(&self) -> &Wanted {
        &self.wanted
    }

    fn take(&mut self, content: Option<Hash>) {
        let Some(hash) = content else { return };
        if let Some(count) = self.wanted.get_mut(&hash) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(&hash);
            }
        }
    }
}

fn content(state: &State) -> Option<Hash> {
    match &state.1 {
        Some(Node::File { hash, .. }) => Some(*hash),
        _ => None,
    }
}

/// First what comes, parents first; then what takes the place of a folder, behind all that goes from there; then what goes,
/// children first.
fn in_order<E>(
    mut states: Vec<State>,
    is_folder: &mut dyn FnMut(&TreePath) -> Result<bool, E>,
) -> Result<VecDeque<State>, E> {
    states.sort_by(|a, b| a.0.cmp(&b.0));
    let mut replaced = BTreeSet::new();
    for (path, node) in &states {
        if matches!(node, Some(Node::File { .. } | Node::Symlink { .. })) && is_folder(path)? {
            replaced.insert(path.clone());
        }
    }
    let is_below_replaced = |path: &TreePath| {
        !replaced.is_empty()
            && std::iter::successors(path.parent(), TreePath::parent).any(|above| replaced.contains(&above))
    };
    let (mut coming, mut making_room, mut replacing, mut going) = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
    for state in states {
        match &state.1 {
            Some(_) if replaced.contains(&state.0) => replacing.push(state),
            Some(_) => coming.push_back(state),
            None if is_below_replaced(&state.0) => making_room.push(state),
            None => going.push(state),
        }
    }
    coming.extend(making_room.into_iter().rev());
    coming.extend(replacing);
    coming.extend(going.into_iter().rev());
    Ok(coming)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::convert::Infallible;

    fn file(path: &str, length: u64) -> State {
        let hash = Hash::of(path.as_bytes());
        (path.parse().unwrap(), Some(Node::File { mode: 0o644, mtime: 0, length, hash }))
    }

    fn folder(path: &str) -> State {
        (path.parse().unwrap(), Some(Node::Directory { mode: 0o755 }))
    }

    fn gone(path: &str) -> State {
        (path.parse().unwrap(), None)
    }

    /// The paths of each batch, where these are folders here.
    fn batches(states: Vec<State>, folders: &[&str]) -> Vec<Vec<String>> {
        let mut is_folder = |path: &TreePath| Ok::<_, Infallible>(folders.contains(&path.as_str()));
        let mut batches = Batches::new(states, &mut is_folder).unwrap();
        std::iter::from_fn(|| batches.next())
            .map(|batch| batch.into_iter().map(|(path, _)| path.to_string()).collect())
            .collect()
    }

    #[test]
    fn what_comes_stands_before_what_goes_and_children_go_first() {
        let moved = vec![gone("d"), gone("d/1"), gone("d/2"), folder("e"), file("e/1", 1), file("e/2", 1)];
        assert_eq!(batches(moved, &["d"]), [["e", "e/1", "e/2", "d/2", "d/1", "d"]]);
    }

    #[test]
    fn a_folder_is_empty_before_a_file_takes_its_place() {
        let states = vec![file("a", 1), gone("a/b"), gone("a/b/c"), folder("b"), file("b/1", 1), gone("c")];
        assert_eq!(batches(states, &["a", "a/b"]), [["b", "b/1", "a/b/c", "a/b", "a", "c"]]);
    }

    #[test]
    fn batches_are_small_and_a_large_file_stands_alone() {
        let (large, whole) = (5 << 20, LEAST_BYTES);
        let states = vec![file("a", 1), file("b", large), file("c", whole), file("d", u64::MAX), file("e", 1)];
        assert_eq!(batches(states, &[]), [["a"], ["b"], ["c"], ["d"], ["e"]]);
        let many = (0..2500).map(|n| file(&format!("{n:04}"), 10)).collect();
        assert_eq!(batches(many, &[]).iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
    }

    #[test]
    fn a_content_is_wanted_until_its_last_state_was_taken() {
        let mut is_folder = |_: &TreePath| Ok::<_, Infallible>(false);
        let states = vec![file("a", LEAST_BYTES), file("b", LEAST_BYTES)];
        let mut batches = Batches::new(states, &mut is_folder).unwrap();
        batches.next().unwrap();
        assert_eq!(batches.later(), &Wanted::from([(Hash::of(b"b"), 1)]));
        batches.next().unwrap();
        assert_eq!(batches.later(), &Wanted::new());
    }
}
