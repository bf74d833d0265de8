//! Undoing an entry: the states before come back, or, of one that ended `rebased`, the result that was recorded. It is an
//! ordinary change, so it can itself be undone.

use super::Sync;
use super::put::{PutReport, State, made};
use super::ship::changes_something;
use crate::log::LogEntry;
use crate::{ClientError, TreeDifference};
use opship_record::TreePath;
use opship_record::answer::Verdict;
use opship_record::effect::After;
use opship_record::node::{Kind, Node};
use std::collections::{BTreeMap, BTreeSet};

/// How to undo.
#[derive(Debug, Clone, Copy, Default)]
pub struct UndoOptions {
    /// Go on where a path was changed since; what it is then is kept beside.
    pub force: bool,
    /// Change nothing, only tell.
    pub dry_run: bool,
}

impl Sync<'_> {
    /// Undoes an entry that has ended with a version.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the entry has no result in the workspace, or if paths were changed since and `force` is
    /// not given; [`ClientError`] from the network or the disk.
    pub async fn undo(mut self, number: u64, options: UndoOptions) -> Result<PutReport, ClientError> {
        let _lock = self.lock().await?;
        let entry = self.copy.entry(number)?;
        check_undoable(&entry)?;
        self.copy.append_changes()?;
        let version = entry.answer.as_ref().and_then(|answer| answer.version).unwrap_or_default();
        let mut states = if made_version(&entry)? {
            self.differences(version, version.saturating_sub(1)).await?
        } else {
            Vec::new()
        };
        if entry.verdict() == Some(Verdict::Rebased) {
            states = self.with_recorded(&entry, version, states).await?;
        }
        let (mut states, changed) = self.changed_since(states, version).await?;
        if !changed.is_empty() && !options.force {
            let shown = changed.iter().map(|path| format!("'{path}'")).collect::<Vec<_>>().join(", ");
            return Err(ClientError::Refused(format!(
                "changed since: {shown}; use '--force' to undo anyway and keep what is there now beside it"
            )));
        }
        if options.dry_run {
            return Ok(PutReport { paths: states.into_iter().map(|(path, _)| path).collect(), ..PutReport::default() });
        }
        let kept = self.beside(&changed, &mut states)?;
        let report = self.put(states, &format!("undo {number}: {}", entry.command)).await?;
        let decided: Vec<(u64, TreePath)> = self.copy.undecided_of(number)?.into_iter().map(|p| (number, p)).collect();
        self.copy.remove_undecided(&decided)?;
        Ok(PutReport { kept, ..report })
    }

    /// What paths are in version `to`, of those that differ between two versions.
    pub(super) async fn differences(&mut self, from: u64, to: u64) -> Result<Vec<State>, ClientError> {
        let (_, mut changes) = self.api.changes_between(from, to, &TreePath::root()).await?;
        let mut states = Vec::new();
        while let Some(state) = changes.next().await? {
            states.push(state);
        }
        Ok(states)
    }

    /// What an entry had recorded, in place of what was there before it. Directories that it moved stay where they are.
    async fn with_recorded(
        &mut self,
        entry: &LogEntry,
        version: u64,
        states: Vec<State>,
    ) -> Result<Vec<State>, ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let moved: Vec<TreePath> = changes
            .iter()
            .filter_map(|change| match &change.after {
                After::Moved { from, .. } => Some([from.clone(), change.path.clone()]),
                _ => None,
            })
            .flatten()
            .collect();
        let mut before: BTreeMap<TreePath, Option<Node>> = states.into_iter().collect();
        let paths: Vec<TreePath> = changes.iter().map(|change| change.path.clone()).collect();
        let now: BTreeMap<TreePath, Option<Node>> = self.api.nodes(&paths, Some(version)).await?.into_iter().collect();
        for change in &changes {
            let was = before.get(&change.path).or_else(|| now.get(&change.path)).cloned().flatten();
            if let Some(node) = made(change, was.as_ref()) {
                before.insert(change.path.clone(), node);
            }
        }
        before.retain(|path, _| !moved.iter().any(|moved| path.starts_with(moved)));
        Ok(before.into_iter().collect())
    }

    /// The states that are still to be brought, and the paths of them that are no longer as the version made them.
    async fn changed_since(
        &mut self,
        states: Vec<State>,
        version: u64,
    ) -> Result<(Vec<State>, BTreeSet<TreePath>), ClientError> {
        let paths: Vec<TreePath> = states.iter().map(|(path, _)| path.clone()).collect();
        let named: BTreeSet<&TreePath> = paths.iter().collect();
        let expected: BTreeMap<TreePath, Option<Node>> =
            self.api.nodes(&paths, Some(version)).await?.into_iter().collect();
        let (mut left, mut changed) = (Vec::new(), BTreeSet::new());
        for (path, node) in states {
            let now = self.copy.node(&path)?;
            if now == node {
                continue;
            }
            let no_folder = !matches!(node, Some(Node::Directory { .. }));
            let below = if no_folder { self.copy.nodes(&path)? } else { Vec::new() };
            if below.iter().any(|(below, _)| !named.contains(below)) {
                // It holds what came later, and stays for that.
                changed.insert(path);
                continue;
            }
            let is_as_made =
                expected.get(&path).is_some_and(|expected| TreeDifference::same(expected.as_ref(), now.as_ref()));
            if !is_as_made {
                changed.insert(path.clone());
            }
            left.push((path, node));
        }
        Ok((left, changed))
    }

    /// Adds copies of what is at paths that were changed since.
    fn beside(&self, changed: &BTreeSet<TreePath>, states: &mut Vec<State>) -> Result<Vec<TreePath>, ClientError> {
        let mut kept = Vec::new();
        for path in
            changed.iter().filter(|path| states.iter().any(|(state, _)| state == *path)).cloned().collect::<Vec<_>>()
        {
            let Some(node) = self.copy.node(&path)?.filter(|node| node.kind() != Kind::Directory) else { continue };
            let to = self.copy.free_beside(&path)?;
            states.push((to.clone(), Some(node)));
            kept.push(to);
        }
        Ok(kept)
    }
}

fn check_undoable(entry: &LogEntry) -> Result<(), ClientError> {
    let number = entry.number;
    match entry.verdict() {
        None => Err(ClientError::Refused(format!(
            "entry {number} has not ended; run 'opship sync' first, or take it out of the log with 'opship drop {number}'"
        ))),
        Some(Verdict::Conflicted | Verdict::Rejected) => Err(ClientError::Refused(format!(
            "the result of entry {number} is not in the workspace, so there is nothing to undo; 'opship conflicts' shows it"
        ))),
        Some(Verdict::Rebased) => Ok(()),
        Some(_) if made_version(entry)? => Ok(()),
        Some(_) => Err(ClientError::Refused(format!("entry {number} changed no file, so there is nothing to undo"))),
    }
}

/// Did an entry that has ended make a version?
fn made_version(entry: &LogEntry) -> Result<bool, ClientError> {
    if let Some(record) = entry.answer.as_ref().and_then(|answer| answer.record.as_ref()) {
        return Ok(record.content.is_some());
    }
    changes_something(entry)
}
