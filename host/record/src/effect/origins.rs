//! Where the states before of a list's paths were to be found in the tree before, once directories have moved.

use super::{After, Before, Change};
use crate::TreePath;
use std::collections::HashMap;

/// Where the states before of a list's paths were to be found in the tree before.
#[derive(Debug)]
pub struct Origins<'a> {
    /// Of each listed path, what lies below it now: what lay below this path of the tree before. `None`: nothing that
    /// was there before, the directory is new.
    below: HashMap<&'a str, Option<TreePath>>,
    /// Where each moved directory went, by where it was.
    destinations: HashMap<&'a str, &'a TreePath>,
    changes: &'a [Change],
}

impl<'a> Origins<'a> {
    /// Indexes a list of changes, which must be sorted by path.
    pub fn new(changes: &'a [Change]) -> Origins<'a> {
        let destinations = moves(changes).map(|(from, to)| (from.as_str(), to)).collect();
        let mut origins = Origins { below: HashMap::with_capacity(changes.len()), destinations, changes };
        // A path sorts behind all that it lies below, so that one step up always finds the answer for what is above.
        for change in changes {
            let below = match &change.after {
                After::Moved { from, .. } => Some(from.clone()),
                after => {
                    let origin = origins.of(&change.path);
                    let left = origin.as_ref().is_some_and(|o| origins.destinations.contains_key(o.as_str()));
                    let is_new =
                        matches!(after, After::Directory { .. }) && (left || change.before != Before::Directory);
                    if is_new { None } else { origin }
                }
            };
            origins.below.insert(change.path.as_str(), below);
        }
        origins
    }

    /// The path, in the tree before, of what `path`'s state before speaks of: itself, unless a directory above it was
    /// moved there. `None` if a directory above is new, so that nothing was there.
    pub fn of(&self, path: &TreePath) -> Option<TreePath> {
        for (ancestor, rest) in above(path.as_str()) {
            if let Some(below) = self.below.get(ancestor) {
                // A path that would be too long was never in the tree before.
                return below.as_ref()?.append_text(rest).ok();
            }
        }
        Some(path.clone())
    }

    /// Was what stood at `path` before moved elsewhere with all that it held?
    pub fn has_left(&self, path: &TreePath) -> bool {
        !self.destinations.is_empty()
            && self.of(path).is_some_and(|origin| self.destinations.contains_key(origin.as_str()))
    }

    /// Checks that no directory is moved twice and that each place that one left says what stands there now. Otherwise
    /// the directory would be in two places: a copy, where a move was meant.
    ///
    /// # Errors
    /// The path that a directory is moved to, and what is wrong with it.
    pub(crate) fn check_moves(&self) -> Result<(), (&'a TreePath, &'static str)> {
        for (from, to) in moves(self.changes) {
            if self.destinations.get(from.as_str()) != Some(&to) {
                return Err((to, "a directory is moved to two places"));
            }
            if !self.is_vacated(from) {
                return Err((to, "the place that a moved directory left must be in the list, with what is there now"));
            }
        }
        Ok(())
    }

    fn is_vacated(&self, from: &TreePath) -> bool {
        let Some(place) = self.place_of(from) else { return false };
        match self.of(&place) {
            Some(origin) if origin == *from => {
                let listed =
                    self.changes.binary_search_by(|c| c.path.cmp(&place)).ok().and_then(|at| self.changes.get(at));
                listed.is_some_and(|change| !matches!(change.after, After::Metadata { .. }))
            }
            // What was above it was replaced by another directory, and it went with that.
            Some(_) => true,
            None => false,
        }
    }

    /// Where what was at `from` would be now, had only the directories above it moved.
    fn place_of(&self, from: &TreePath) -> Option<TreePath> {
        for (ancestor, rest) in above(from.as_str()) {
            if let Some(to) = self.destinations.get(ancestor) {
                return to.append_text(rest).ok();
            }
        }
        Some(from.clone())
    }
}

fn moves(changes: &[Change]) -> impl Iterator<Item = (&TreePath, &TreePath)> {
    changes.iter().filter_map(|change| match &change.after {
        After::Moved { from, .. } => Some((from, &change.path)),
        _ => None,
    })
}

/// The directories above a path, nearest first and without the root, each with what remains below it.
fn above(path: &str) -> impl Iterator<Item = (&str, &str)> {
    path.rmatch_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..]))
}
