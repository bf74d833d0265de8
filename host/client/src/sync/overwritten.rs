//! States that entries had recorded and later ones replaced. When such an entry is taken out of the log no version will ever
//! hold them, so they are kept beside.

use super::conflict::{Ahead, is_pinned};
use super::{PullReport, Sync};
use crate::ClientError;
use crate::db::conflicts::Undecided;
use crate::log::LogEntry;
use opship_record::effect::After;
use opship_record::node::Content;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};

/// What stays, whatever becomes of the entries: files by their hashes, and targets of links.
#[derive(Default)]
pub(super) struct Staying {
    files: BTreeSet<Hash>,
    links: BTreeSet<Vec<u8>>,
}

impl Staying {
    pub(super) fn add_content(&mut self, content: &Content) {
        match content {
            Content::File { hash, .. } => drop(self.files.insert(*hash)),
            Content::Symlink { target } => drop(self.links.insert(target.clone())),
            Content::Directory => {}
        }
    }

    pub(super) fn add_after(&mut self, after: &After) {
        match after {
            After::File { hash, .. } => drop(self.files.insert(*hash)),
            After::Symlink { target, .. } => drop(self.links.insert(target.clone())),
            After::Removed | After::Directory { .. } | After::Moved { .. } | After::Metadata { .. } => {}
        }
    }

    /// Does this state hold bytes that are not among what stays?
    fn lacks(&self, after: &After) -> bool {
        match after {
            After::File { hash, .. } => !self.files.contains(hash),
            After::Symlink { target, .. } => !self.links.contains(target),
            After::Removed | After::Directory { .. } | After::Moved { .. } | After::Metadata { .. } => false,
        }
    }
}

impl Sync<'_> {
    /// Puts the states of entries that are not among what stays beside their paths. What is not here any more the server
    /// keeps, if the entry ended `conflicted`; otherwise it was replaced by hand, as if it had never been recorded.
    pub(super) fn keep_overwritten(
        &self,
        entries: &[LogEntry],
        settled: &BTreeSet<TreePath>,
        (ahead, staying): (&Ahead, &mut Staying),
        report: &mut PullReport,
    ) -> Result<(), ClientError> {
        for entry in entries {
            // Of several states that an entry has of a path only one was ever there.
            let changes: BTreeMap<TreePath, After> =
                self.copy.lists(entry.number)?.changes.into_iter().map(|change| (change.path, change.after)).collect();
            for (path, after) in changes {
                if !staying.lacks(&after) || self.is_elsewhere(&after, settled)? {
                    continue;
                }
                staying.add_after(&after);
                let copy = self.copy_beside(&path, &ahead.folder_of_both(&path), &after)?;
                report.conflict_copies.extend(copy.as_ref().map(TreePath::to_string));
                if copy.is_some() || is_pinned(entry) {
                    self.copy.add_undecided(&Undecided { entry: entry.number, path, copy })?;
                }
            }
        }
        Ok(())
    }

    /// Does the server hold these bytes at a path that is not settled now? What only this folder holds elsewhere may go.
    fn is_elsewhere(&self, after: &After, settled: &BTreeSet<TreePath>) -> Result<bool, ClientError> {
        let Some((_, hash)) = after.blob() else { return Ok(false) };
        Ok(self.copy.synced_paths_with(&hash)?.iter().any(|path| !settled.contains(path)))
    }
}
