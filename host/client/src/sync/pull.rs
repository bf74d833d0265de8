//! Pulling: what others did is brought here, never over local changes.

use super::batches::{Batches, Wanted};
use super::{PullReport, Sync, UNSETTLED};
use crate::ClientError;
use crate::fs::KeptContent;
use crate::log::Deferred;
use crate::remote::{Files, RemoteChange};
use opship_record::TreePath;
use opship_record::node::Node;
use opship_record::version::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The problem of a version that is beyond the workspace's retention.
const FORGOTTEN: &str = "forgotten";
impl Sync<'_> {
    /// Brings the working copy to the head. `true`: something came that may need another round.
    pub(super) async fn pull(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let (base, _) = self.copy.base()?;
        if !self.interrupted
            && let Some(version) = self.own_versions_only(base)?
        {
            report.version = version;
            let news = self.apply_deferred(report).await?;
            self.settled()?;
            return Ok(news);
        }
        let (head, mut wanted, operations) = self.wanted(base).await?;
        let mut news = false;
        if let Some(head) = head.as_ref().filter(|_| operations) {
            wanted = self.replay_pulled(base, head.number, wanted, report).await?;
        }
        news |= self.apply_all(wanted, report).await?;
        report.version = base;
        if let Some(head) = head {
            self.copy.set_base(head.number, Some(head.id().mark()))?;
            report.version = head.number;
        }
        news |= self.apply_deferred(report).await?;
        self.settled()?;
        Ok(news)
    }

    /// The index is as the version that the working copy stands on, but for what is deferred and what waits.
    fn settled(&mut self) -> Result<(), ClientError> {
        (self.interrupted, self.ahead) = (false, BTreeSet::new());
        self.copy.settle(UNSETTLED)
    }

    /// The head, `None` where that is `base`, and what differs from it here: of what changed since `base`, and of what may
    /// be ahead of it; and may there be operations to be replayed for it? After an interrupted sync, or for a version that retention has let go, the whole tree is compared.
    async fn wanted(&mut self, base: u64) -> Result<(Option<Version>, Vec<State>, bool), ClientError> {
        let mut whole = self.interrupted;
        let changes = match self.api.changes(if whole { 0 } else { base }).await {
            // The server no longer knows what the working copy stands on: then the whole tree is compared.
            Err(ClientError::Problem { kind, .. }) if kind == FORGOTTEN => {
                whole = true;
                self.api.changes(0).await?
            }
            changes => changes?,
        };
        let mut states: BTreeMap<TreePath, Option<Node>> = BTreeMap::new();
        let (mut head, mut operations) = (None, true);
        if let Some((version, mut changes)) = changes {
            (head, operations) = (Some(version), changes.may_hold_operations());
            while let Some((path, node)) = changes.next().await? {
                states.insert(path, node);
            }
        }
        if let Some(here) = self.adopting.take() {
            self.copy.set_setting(UNSETTLED, "1")?;
            self.copy.adopt(&here, &states)?;
            self.unindexed = here.contents();
        }
        if whole {
            for path in self.copy.settled_paths()? {
                states.entry(path).or_insert(None);
            }
        } else {
            let ahead: Vec<TreePath> = self.ahead.iter().filter(|path| !states.contains_key(*path)).cloned().collect();
            if !ahead.is_empty() {
                states.extend(self.api.nodes(&ahead, Some(head.as_ref().map_or(base, |head| head.number))).await?);
            }
        }
        let deferred: BTreeSet<TreePath> = self.copy.deferred()?.into_iter().map(|deferred| deferred.path).collect();
        let mut wanted = Vec::new();
        for (path, node) in states {
            if self.copy.node(&path)? != node {
                wanted.push((path, node));
            } else if deferred.contains(&path) {
                self.copy.undefer(&path)?;
            }
        }
        Ok((head, wanted, operations))
    }

    /// If all versions after `base` are known to be our own, the head is here already: its number, and the base is moved.
    fn own_versions_only(&mut self, base: u64) -> Result<Option<u64>, ClientError> {
        let mut newer = std::mem::take(&mut self.own_versions);
        newer.retain(|version, _| *version > base);
        let Some((last, mark)) = newer.last_key_value().map(|(last, mark)| (*last, *mark)) else { return Ok(None) };
        if newer.len() as u64 != last - base {
            return Ok(None);
        }
        self.copy.set_base(last, mark)?;
        Ok(Some(last))
    }

    /// Paths that were left alone before are tried again: what stood against them may have gone. What the server holds of
    /// these is asked for anew, since own entries may have changed it.
    async fn apply_deferred(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let deferred = self.copy.deferred()?.into_iter().map(|deferred| (deferred.path, deferred.node)).collect();
        let paths = self.worth_trying(deferred)?;
        let mut differing = Vec::new();
        if !paths.is_empty() {
            for (path, node) in self.api.nodes(&paths, Some(report.version)).await? {
                if self.copy.node(&path)? == node {
                    self.copy.undefer(&path)?;
                } else {
                    differing.push((path, node));
                }
            }
        }
        self.apply_all(differing, report).await
    }

    /// Of paths that were left alone, with the server's states then, those that may come now, or of which the server may
    /// hold another state that no pull has met.
    fn worth_trying(&self, deferred: Vec<State>) -> Result<Vec<TreePath>, ClientError> {
        let left_alone: BTreeSet<TreePath> =
            self.copy.left_alone(&deferred)?.into_iter().map(|skip| skip.path).collect();
        let mut left = self.left_for_contents()?;
        let mut paths = Vec::new();
        for (path, node) in deferred {
            let is_unknown = self.interrupted || self.ahead.contains(&path);
            if is_unknown || !left_alone.contains(&path) && self.refuses(&mut left, &path, node.as_ref())?.is_none() {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn report_deferred(&self, report: &mut PullReport) -> Result<(), ClientError> {
        report.deferred = self.copy.deferred()?.into_iter().map(|left| (left.path.to_string(), left.reason)).collect();
        Ok(())
    }

    /// Applies states, one batch after the other. `true`: there was something that could be applied.
    pub(super) async fn apply_all(&mut self, states: Vec<State>, report: &mut PullReport) -> Result<bool, ClientError> {
        let copy = self.copy;
        let mut is_folder = |path: &TreePath| Ok(matches!(copy.node(path)?, Some(Node::Directory { .. })));
        let mut batches = Batches::new::<ClientError>(states, &mut is_folder)?;
        let (mut news, mut kept) = (false, false);
        while let Some(batch) = batches.next() {
            let begun = Instant::now();
            kept |= !batches.later().is_empty();
            news |= self.apply_keeping(batch, batches.later(), report).await?;
            // Over a metered link a batch that is cut off is dearer than requests.
            if self.limited_link().is_none() {
                batches.took(begun.elapsed());
            }
        }
        if kept {
            let copies = self.copy.release_left()?;
            report.conflict_copies.extend(copies.iter().map(ToString::to_string));
        }
        self.report_deferred(report)?;
        Ok(news)
    }

    /// Applies states together.
    pub(super) async fn apply(&mut self, batch: Vec<State>, report: &mut PullReport) -> Result<bool, ClientError> {
        let news = self.apply_keeping(batch, &Wanted::new(), report).await?;
        self.report_deferred(report)?;
        Ok(news)
    }

    /// As [`Sync::apply`]; of what is displaced the contents that are wanted `later` stay.
    async fn apply_keeping(
        &mut self,
        batch: Vec<State>,
        later: &Wanted,
        report: &mut PullReport,
    ) -> Result<bool, ClientError> {
        let batch = self.affordable(self.possible(batch)?)?;
        if batch.is_empty() {
            return Ok(false);
        }
        let mut files = Files::new();
        let came = self.download(&batch, &mut files).await;
        let batch = match came {
            Ok(()) => batch,
            Err(_) => self.complete(batch, &files)?,
        };
        self.place(batch, files, later, report)?;
        came.map(|()| true)
    }

    /// Leaves alone, before anything is downloaded, what cannot come now.
    fn possible(&self, batch: Vec<State>) -> Result<Vec<State>, ClientError> {
        let skipped = self.copy.left_alone(&batch)?;
        let mut reasons: BTreeMap<TreePath, String> = skipped.into_iter().map(|s| (s.path, s.reason)).collect();
        let (mut possible, mut deferred) = (Vec::new(), Vec::new());
        for (path, node) in batch {
            match reasons.remove(&path) {
                Some(reason) => deferred.push(Deferred { path, node, reason }),
                None => possible.push((path, node)),
            }
        }
        self.copy.defer(&deferred)?;
        Ok(possible)
    }

    /// Of a batch that did not come whole, the states whose contents are here.
    fn complete(&self, batch: Vec<State>, files: &Files) -> Result<Vec<State>, ClientError> {
        let mut complete = Vec::new();
        for (path, node) in batch {
            let is_complete = match &node {
                Some(Node::File { hash, .. }) => files.contains_key(hash) || self.is_here(hash)?,
                _ => true,
            };
            if is_complete {
                complete.push((path, node));
            }
        }
        Ok(complete)
    }

    fn place(
        &mut self,
        batch: Vec<State>,
        files: Files,
        later: &Wanted,
        report: &mut PullReport,
    ) -> Result<(), ClientError> {
        for (path, _) in &batch {
            self.changed.replaces(path, self.copy.node(path)?.as_ref());
        }
        let mut changes = Vec::new();
        for (path, node) in batch.iter().cloned() {
            let content = match &node {
                Some(Node::File { hash, .. }) => {
                    self.replayed.get(hash).map(|file| KeptContent::downloaded(file.path(), *hash))
                }
                _ => None,
            };
            changes.push(RemoteChange { path, node, content: content.transpose()? });
        }
        self.copy.set_setting(UNSETTLED, "1")?;
        let skipped = self.copy.apply_downloaded(changes, files, later)?;
        if let Some(skip) = skipped.iter().find(|skip| skip.content_missing) {
            // What was here when it was asked for has gone since. The base stays, and the next sync looks at everything.
            return Err(ClientError::Changed { path: skip.path.to_string() });
        }
        for (path, node) in batch {
            if self.copy.node(&path)? == node {
                report.changed += 1;
                self.arrived.note(&path, node.is_some());
            }
        }
        Ok(())
    }
}

/// What the server holds of a path.
pub(crate) type State = (TreePath, Option<Node>);
