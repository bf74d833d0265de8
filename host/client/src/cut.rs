//! Where a large import is cut into entries, each of which makes a version: what has arrived then stays, whatever happens
//! to the rest.
//!
//! Any entry can stand alone: parents come before what they hold, and what goes goes behind what comes, children first.
//! So a file that was renamed across a cut is never nowhere, and whoever pulls finds its bytes in place.

use crate::values::{States, value_bytes};
use opship_record::TreePath;
use opship_record::effect::{After, Before, Change};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Most paths that an entry changes.
const MAX_PATHS: usize = 1000;
/// Most bytes of contents of an entry; one file may be larger.
const MAX_BYTES: u64 = 64 << 20;
/// Time that an entry may take on the link, in seconds.
const LINK_SECONDS: u64 = 30;
/// However slow the link is, an entry may have as many bytes.
const LEAST_BYTES: u64 = 64 << 10;
/// The named value that holds the last rate at which entries were sent, in bytes a second.
const RATE: &str = "net.rate";
/// The named value that holds how many bytes of contents the budget of the link that is used allows an entry.
const BUDGET: &str = "net.budget";
/// What is shorter tells nothing about a link, unless it took long, which it does on a slow one.
const MEASURED_FROM: u64 = 256 << 10;
/// So many bytes are enough if they took so many seconds.
const FEW_BYTES: u64 = 16 << 10;
const LONG_SECONDS: f64 = 8.0;

/// How large a value entry may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    paths: usize,
    bytes: u64,
}

impl Limits {
    /// The limits on the link that was measured last.
    pub(crate) fn of(db: &Connection) -> rusqlite::Result<Limits> {
        let bytes = rate(db)?.map_or(MAX_BYTES, |rate| rate.saturating_mul(LINK_SECONDS));
        let budget: Option<i64> = crate::db::meta(db, BUDGET)?;
        let most = budget.map_or(MAX_BYTES, crate::db::uint);
        Ok(Limits { paths: max_paths(), bytes: bytes.clamp(LEAST_BYTES, MAX_BYTES).min(most) })
    }

    /// May these be one entry?
    pub(crate) fn allow(self, changes: &[Change]) -> bool {
        changes.len() <= self.paths && value_bytes(changes) <= self.bytes
    }
}

/// A test may ask for smaller entries.
#[cfg(feature = "failpoints")]
fn max_paths() -> usize {
    std::env::var("OPSHIP_TEST_ENTRY_PATHS").ok().and_then(|text| text.parse().ok()).unwrap_or(MAX_PATHS)
}

#[cfg(not(feature = "failpoints"))]
fn max_paths() -> usize {
    MAX_PATHS
}

/// The last rate at which entries were sent, in bytes a second.
pub(crate) fn rate(db: &Connection) -> rusqlite::Result<Option<u64>> {
    let rate: Option<i64> = crate::db::meta(db, RATE)?;
    Ok(rate.map(crate::db::uint))
}

/// Remembers how fast `bytes` were sent. Too few of them say nothing.
pub(crate) fn note_rate(db: &Connection, bytes: u64, seconds: f64) -> rusqlite::Result<()> {
    let took_long = bytes >= FEW_BYTES && seconds >= LONG_SECONDS;
    if !took_long && (bytes < MEASURED_FROM || seconds <= 0.0) {
        return Ok(());
    }
    crate::db::set_meta(db, RATE, (bytes as f64 / seconds) as i64)
}

/// From here on entries have at most so many bytes, for the budget's sake; `None`: there is none.
pub(crate) fn set_budget(db: &Connection, bytes: Option<u64>) -> rusqlite::Result<()> {
    match bytes {
        Some(bytes) => crate::db::set_meta(db, BUDGET, crate::db::int(bytes)),
        None => crate::db::unset_meta(db, BUDGET),
    }
}

/// States in the parts that become an entry each, in the order in which they must be appended. `changes` is what the states
/// change; a state that changes nothing goes with the first part.
pub(crate) fn parts(mut states: States, changes: &[Change], limits: Limits) -> Vec<States> {
    if limits.allow(changes) {
        return vec![states];
    }
    let mut parts = Vec::new();
    let (mut part, mut bytes) = (States::new(), 0);
    for change in in_order(changes) {
        let size = change.after.blob().map_or(0, |(length, _)| length);
        if !part.is_empty() && (part.len() >= limits.paths || bytes + size > limits.bytes) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.extend(states.remove_entry(&change.path));
    }
    parts.push(part);
    if let Some(first) = parts.first_mut() {
        first.extend(states);
    }
    parts
}

/// First what a file or link takes the place of a folder with, children first; then what comes, parents first; then what
/// goes, children first.
fn in_order(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let replaced: BTreeSet<&TreePath> =
        changes.iter().filter(|change| replaces_folder(change)).map(|c| &c.path).collect();
    let is_below_replaced = |change: &Change| {
        !replaced.is_empty()
            && std::iter::successors(change.path.parent(), TreePath::parent).any(|above| replaced.contains(&above))
    };
    let (mut first, mut coming, mut going) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let into = match change.after {
            After::Removed if is_below_replaced(change) => &mut first,
            After::Removed => &mut going,
            _ => &mut coming,
        };
        into.push(change);
    }
    first.into_iter().rev().chain(coming).chain(going.into_iter().rev())
}

fn replaces_folder(change: &Change) -> bool {
    change.before == Before::Directory && matches!(change.after, After::File { .. } | After::Symlink { .. })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::values::State;
    use opship_record::Hash;
    use opship_record::node::Node;

    const LIMITS: Limits = Limits { paths: 3, bytes: 100 };

    fn path(path: &str) -> TreePath {
        TreePath::new(path).unwrap()
    }

    /// The paths of each part, for changes given as path and bytes written; `None`: it goes.
    fn cut(changes: &[(&str, Before, Option<u64>)]) -> Vec<Vec<String>> {
        let file = |length| Node::File { mode: 0o644, mtime: 0, length, hash: Hash::of(b"") };
        let mut states = States::new();
        let mut list = Vec::new();
        for (name, before, length) in changes {
            let node = length.map(file);
            states.insert(path(name), State { node: node.clone(), signature: None, racy: false });
            let after = node.as_ref().map_or(After::Removed, crate::values::after);
            list.push(Change { path: path(name), before: before.clone(), after });
        }
        list.sort_by(|a, b| a.path.cmp(&b.path));
        let parts = parts(states, &list, LIMITS);
        parts.into_iter().map(|part| part.into_keys().map(|path| path.to_string()).collect()).collect()
    }

    fn absent(at: &str) -> Before {
        Before::Absent { missing: path(at), above: opship_record::node::Kind::Directory }
    }

    #[test]
    fn what_comes_stands_before_what_goes_and_children_go_first() {
        let gone = || Before::File { hash: Hash::of(b"1") };
        let parts = cut(&[
            ("a", Before::Directory, None),
            ("a/1", gone(), None),
            ("a/2", gone(), None),
            ("b", absent("b"), Some(1)),
            ("c", absent("c"), Some(1)),
        ]);
        assert_eq!(parts, [vec!["a/2", "b", "c"], vec!["a", "a/1"]]);
    }

    #[test]
    fn a_folder_is_emptied_before_a_file_takes_its_place() {
        let gone = || Before::File { hash: Hash::of(b"1") };
        let parts = cut(&[
            ("a", Before::Directory, Some(1)),
            ("a/1", gone(), None),
            ("a/2", gone(), None),
            ("a/3", gone(), None),
        ]);
        assert_eq!(parts, [vec!["a/1", "a/2", "a/3"], vec!["a"]]);
    }

    #[test]
    fn bytes_cut_too_and_a_large_file_stands_alone() {
        let parts = cut(&[
            ("a", absent("a"), Some(60)),
            ("b", absent("b"), Some(60)),
            ("c", absent("c"), Some(500)),
            ("d", absent("d"), Some(1)),
        ]);
        assert_eq!(parts, [vec!["a"], vec!["b"], vec!["c"], vec!["d"]]);
    }
}
