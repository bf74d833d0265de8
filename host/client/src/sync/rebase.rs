//! Entries that ended `rebased`: the head holds what the server made of other inputs, and that comes here. What was recorded
//! is pinned by the entry, on the server, until its author has decided.

use super::{PullReport, Sync, UNSETTLED};
use crate::ClientError;
use crate::db::conflicts::Undecided;
use crate::log::LogEntry;
use opship_record::TreePath;
use opship_record::answer::Verdict;
use opship_record::effect::{After, Change};
use opship_record::node::Content;
use std::collections::{BTreeMap, BTreeSet};

impl Sync<'_> {
    /// Brings the new outputs of entries that ended `rebased`, so that what depends on them comes after. Interrupted, it
    /// is done again by the next sync.
    pub(super) async fn settle_rebased(&mut self, report: &mut PullReport) -> Result<(), ClientError> {
        let rebased = |entry: &LogEntry| entry.verdict() == Some(Verdict::Rebased);
        let entries: Vec<LogEntry> = self.copy.unreleased()?.into_iter().filter(rebased).collect();
        for entry in entries {
            self.settle_one(&entry, report).await?;
        }
        Ok(())
    }

    async fn settle_one(&mut self, entry: &LogEntry, report: &mut PullReport) -> Result<(), ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let mut moved = BTreeSet::new();
        for change in &changes {
            self.note_moved(change, &mut moved)?;
        }
        let paths: BTreeSet<TreePath> = changes.iter().map(|change| change.path.clone()).chain(moved).collect();
        let paths: Vec<TreePath> = paths.into_iter().collect();
        self.ahead.extend(paths.iter().cloned());
        let by_path: BTreeMap<&TreePath, &Change> = changes.iter().map(|change| (&change.path, change)).collect();
        let mut wanted = Vec::new();
        for (path, theirs) in self.api.nodes(&paths, None).await? {
            let content = theirs.as_ref().map(opship_record::node::Node::content);
            if by_path.get(&path).is_some_and(|change| made_other(change, content.as_ref())) {
                self.copy.add_undecided(&Undecided { entry: entry.number, path: path.clone(), copy: None })?;
            }
            // A later entry speaks for the path now; it is decided when that one ends.
            let maker = self.copy.origin(&path)?.and_then(|origin| origin.entry);
            if maker.is_none_or(|number| number == entry.number) {
                wanted.push((path, theirs));
            }
        }
        self.copy.add_pinned(entry.number)?;
        self.copy.set_setting(UNSETTLED, "1")?;
        self.copy.settle_rebased(entry.number)?;
        self.apply(wanted, report).await?;
        let displaced = self.copy.release(entry.number)?;
        report.conflict_copies.extend(displaced.iter().map(TreePath::to_string));
        Ok(())
    }
}

/// Did a change make bytes that are not what the server holds now?
fn made_other(change: &Change, theirs: Option<&Content>) -> bool {
    match (&change.after, theirs) {
        (After::File { hash, .. }, Some(Content::File { hash: theirs, .. })) => hash != theirs,
        (After::Symlink { target, .. }, Some(Content::Symlink { target: theirs })) => target != theirs,
        (After::File { .. } | After::Symlink { .. }, _) => true,
        _ => false,
    }
}
