//! Conflicts: the head keeps the other's state, and our own bytes stay beside it.

use super::{PullReport, Sync};
use crate::ClientError;
use crate::log::LogEntry;
use opship_record::TreePath;
use opship_record::answer::Verdict;
use opship_record::effect::After;
use opship_record::node::{DEFAULT_FILE_MODE, Node};
use std::collections::BTreeSet;

impl Sync<'_> {
    /// Settles every entry that ended `conflicted`: its outputs become conflict copies where the server has something
    /// else, and its paths get the server's state. Interrupted, it is done again by the next sync.
    pub(super) async fn settle_conflicts(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let unsettled = self.copy.unreleased()?;
        let conflicted: Vec<LogEntry> =
            unsettled.into_iter().filter(|entry| entry.verdict() == Some(Verdict::Conflicted)).collect();
        for entry in &conflicted {
            self.settle_conflict(entry, report).await?;
        }
        Ok(!conflicted.is_empty())
    }

    async fn settle_conflict(&mut self, entry: &LogEntry, report: &mut PullReport) -> Result<(), ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let mut paths = BTreeSet::new();
        for change in &changes {
            paths.insert(change.path.clone());
            if let After::Moved { from, .. } = &change.after {
                paths.insert(from.clone());
                let below = self.copy.nodes(&change.path)?;
                paths.extend(below.iter().map(|(path, _)| path.clone()));
                let old_places =
                    below.iter().filter_map(|(path, _)| from.append(&path.strip_prefix(&change.path)?).ok());
                paths.extend(old_places.collect::<Vec<_>>());
            }
        }
        let paths: Vec<TreePath> = paths.into_iter().collect();
        let states = self.api.nodes(&paths).await?;
        for change in &changes {
            let theirs = states.iter().find(|(path, _)| *path == change.path).and_then(|(_, node)| node.as_ref());
            if let After::File { hash, mode, mtime, .. } = &change.after
                && !matches!(theirs, Some(Node::File { hash: other, .. }) if other == hash)
                && self.copy.origin(&change.path)?.is_some_and(|origin| origin.entry == Some(entry.number))
            {
                let mode = mode.unwrap_or(DEFAULT_FILE_MODE);
                let copy = self.copy.conflict_copy_of(&change.path, hash, mode, *mtime)?;
                report.conflict_copies.push(copy.to_string());
            }
        }
        self.copy.settle_conflict(entry.number)?;
        self.apply(states, report).await?;
        let displaced = self.copy.release(entry.number)?;
        report.conflict_copies.extend(displaced.iter().map(TreePath::to_string));
        Ok(())
    }
}
