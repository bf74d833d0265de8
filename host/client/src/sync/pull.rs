//! Pulling: what others did is brought here, never over local changes.

use super::{PullReport, Sync, UNSETTLED};
use crate::ClientError;
use crate::fs::KeptContent;
use crate::remote::RemoteChange;
use crate::transfer::{Base, download, unpack_small};
use opship_record::node::Node;
use opship_record::version::Version;
use opship_record::{Hash, TreePath};
use opship_world::FileContent;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

/// Paths applied at once: each batch is one durable intent.
const BATCH_PATHS: usize = 1000;
/// Bytes of contents downloaded for one batch.
const BATCH_BYTES: u64 = 256 << 20;
/// Longest content that is fetched together with others.
const SMALL: u64 = 64 << 10;
/// Least length of a content that is fetched as its difference to the one before.
const WITH_BASE: u64 = 2 << 10;
/// A small content, and what is here that it is likely like.
type Different = (Hash, u64, Base);
/// The problem of a version that is beyond the workspace's retention.
const FORGOTTEN: &str = "forgotten";
/// Bytes of small contents asked for in one request.
const FETCH_BYTES: u64 = 8 << 20;

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
        for batch in batches(wanted) {
            news |= self.apply(batch, report).await?;
        }
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
        let mut wanted = Vec::new();
        for (path, node) in states {
            if self.copy.node(&path)? != node {
                wanted.push((path, node));
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

    /// Paths that were left alone before are tried again: the entries that stood against them may have ended. What the
    /// server holds of them is asked for anew, since these entries changed it.
    async fn apply_deferred(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let deferred: Vec<TreePath> = self.copy.deferred()?.into_iter().map(|deferred| deferred.path).collect();
        if deferred.is_empty() {
            return Ok(false);
        }
        let mut differing = Vec::new();
        for (path, node) in self.api.nodes(&deferred, Some(report.version)).await? {
            if self.copy.node(&path)? == node {
                self.copy.undefer(&path)?;
            } else {
                differing.push((path, node));
            }
        }
        self.apply(differing, report).await
    }

    pub(super) async fn apply(
        &mut self,
        batch: Vec<(TreePath, Option<Node>)>,
        report: &mut PullReport,
    ) -> Result<bool, ClientError> {
        let batch = self.affordable(batch, report)?;
        if batch.is_empty() {
            return Ok(false);
        }
        let contents = self.download(&batch).await?;
        for (path, _) in &batch {
            self.changed.replaces(path, self.copy.node(path)?.as_ref());
        }
        let mut changes = Vec::new();
        for (path, node) in batch.iter().cloned() {
            let content = match &node {
                Some(Node::File { hash, length, .. }) => {
                    let file = contents.get(hash).or_else(|| self.replayed.get(hash));
                    file.map(|file| downloaded(file, *hash, *length))
                }
                _ => None,
            };
            changes.push(RemoteChange { path, node, content: content.transpose()? });
        }
        self.copy.set_setting(UNSETTLED, "1")?;
        let skipped = self.copy.apply_remote(changes)?;
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
        report.deferred = self.copy.deferred()?.into_iter().map(|left| (left.path.to_string(), left.reason)).collect();
        Ok(true)
    }

    /// Is a content here, or did a replay make it?
    pub(super) fn is_here(&self, hash: &Hash) -> Result<bool, ClientError> {
        Ok(self.replayed.contains_key(hash) || self.copy.blob_source(hash)?.is_some())
    }

    /// Gets the contents that are not here, into temporary files.
    pub(super) async fn download(
        &mut self,
        batch: &[(TreePath, Option<Node>)],
    ) -> Result<BTreeMap<Hash, tempfile::NamedTempFile>, ClientError> {
        let (mut together, mut with_base, mut alone) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for (path, node) in batch {
            let Some(Node::File { hash, length, .. }) = node else { continue };
            if self.is_here(hash)? || !seen.insert(*hash) {
                continue;
            }
            let base = if *length >= WITH_BASE { self.base_at(path)? } else { None };
            match base {
                Some(base) if *length <= SMALL => with_base.push((*hash, *length, base)),
                None if *length <= SMALL => drop(together.insert(*hash, *length)),
                base => alone.push((*hash, *length, base)),
            }
        }
        let folder = self.workplace()?;
        let new_file =
            || tempfile::NamedTempFile::new_in(&folder).map_err(ClientError::io("making a file to download into"));
        let mut files = BTreeMap::new();
        let total = (together.len() + with_base.len() + alone.len()) as u64;
        for group in difference_groups(&with_base) {
            self.progress.step("downloading files", files.len() as u64, total);
            for (hash, content) in self.fetch_differences(group).await? {
                let mut file = new_file()?;
                file.write_all(&content).map_err(ClientError::io("writing a download"))?;
                files.insert(hash, file);
            }
        }
        let left_out = with_base.into_iter().filter(|(hash, ..)| !files.contains_key(hash));
        together.extend(left_out.map(|(hash, length, _)| (hash, length)));
        for hashes in groups(&together) {
            self.progress.step("downloading files", files.len() as u64, total);
            for (hash, bytes) in self.api.fetch_blobs(&hashes).await? {
                let mut file = new_file()?;
                file.write_all(&bytes).map_err(ClientError::io("writing a download"))?;
                files.insert(hash, file);
            }
        }
        let left_out = together.into_iter().filter(|(hash, _)| !files.contains_key(hash)).collect::<Vec<_>>();
        alone.extend(left_out.into_iter().map(|(hash, length)| (hash, length, None)));
        for (hash, length, base) in alone {
            self.progress.step("downloading files", files.len() as u64, total);
            let mut file = new_file()?;
            let own = self.copy.own_folder();
            if !download(&mut self.api, &own, (&hash, length), base, file.as_file_mut()).await? {
                file = new_file()?;
                self.api.get_blob(&hash, length, file.as_file_mut() as &mut File).await?;
            }
            files.insert(hash, file);
        }
        Ok(files)
    }

    /// Small contents that the server gives as their difference to what is here, verified.
    async fn fetch_differences(&mut self, wanted: &[Different]) -> Result<Vec<(Hash, Vec<u8>)>, ClientError> {
        let pairs: Vec<(Hash, Hash)> = wanted.iter().map(|(hash, _, base)| (*hash, base.0)).collect();
        let documents: BTreeMap<Hash, Vec<u8>> = self.api.fetch_documents(&pairs).await?.into_iter().collect();
        let made = wanted
            .iter()
            .filter_map(|(hash, length, base)| Some((*hash, unpack_small(documents.get(hash)?, hash, *length, base)?)));
        Ok(made.collect())
    }

    /// The content that a path has here, if it is large enough to be worth copying from.
    fn base_at(&self, path: &TreePath) -> Result<Option<Base>, ClientError> {
        let Some(Node::File { hash, length, .. }) = self.copy.node(path)? else { return Ok(None) };
        if length < WITH_BASE {
            return Ok(None);
        }
        Ok(self.copy.blob_source(&hash)?.map(|content| (hash, content)))
    }
}

pub(crate) type State = (TreePath, Option<Node>);

/// What is applied together: parents before what they hold, and not too much at once.
pub(crate) fn batches(wanted: Vec<State>) -> Vec<Vec<State>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (path, node) in wanted {
        // What another end says of lengths may be anything.
        bytes = match &node {
            Some(Node::File { length, .. }) => length.saturating_add(bytes),
            _ => bytes,
        };
        batch.push((path, node));
        if batch.len() >= BATCH_PATHS || bytes >= BATCH_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    batches.push(batch);
    batches
}

/// A downloaded file as a content; its bytes were verified on their way in.
pub(super) fn downloaded(
    file: &tempfile::NamedTempFile,
    hash: Hash,
    length: u64,
) -> Result<Arc<dyn FileContent>, ClientError> {
    let file = file.reopen().map_err(ClientError::io("reading a download"))?;
    Ok(Arc::new(KeptContent { file, length, hash, path: "download".to_owned() }))
}

/// Small contents with their bases in groups for one request each.
fn difference_groups(wanted: &[Different]) -> Vec<&[Different]> {
    let (mut groups, mut rest) = (Vec::new(), wanted);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|(_, length, _)| {
            bytes += length;
            bytes <= FETCH_BYTES
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        groups.push(group);
        rest = others;
    }
    groups
}

/// Small contents in groups for one request each.
fn groups(wanted: &BTreeMap<Hash, u64>) -> Vec<Vec<Hash>> {
    let (mut groups, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (hash, length) in wanted.iter().filter(|(_, length)| **length <= SMALL) {
        if bytes + length > FETCH_BYTES {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += length;
        group.push(*hash);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}
