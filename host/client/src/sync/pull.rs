//! Pulling: what others did is brought here, never over local changes.

use super::{PullReport, SETTLED_AT, Sync, UNSETTLED};
use crate::ClientError;
use crate::fs::KeptContent;
use crate::remote::RemoteChange;
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
        let (head, wanted) = self.wanted(base).await?;
        let mut news = false;
        for batch in batches(wanted) {
            news |= self.apply(batch, report).await?;
        }
        self.copy.set_base(head.number, &head.id())?;
        report.version = head.number;
        news |= self.apply_deferred(report).await?;
        self.settled()?;
        Ok(news)
    }

    /// The index is as the version that the working copy stands on, but for what is deferred and what waits.
    fn settled(&mut self) -> Result<(), ClientError> {
        (self.interrupted, self.ahead) = (false, BTreeSet::new());
        self.copy.settle(SETTLED_AT, UNSETTLED)
    }

    /// The head, and what differs from it here: of what changed since `base`, and of what may be ahead of it. After an
    /// interrupted sync the whole tree is compared.
    async fn wanted(&mut self, base: u64) -> Result<(Version, Vec<State>), ClientError> {
        let from = if self.interrupted { 0 } else { base };
        let (head, mut changes) = self.api.changes(from).await?;
        let mut states: BTreeMap<TreePath, Option<Node>> = BTreeMap::new();
        while let Some((path, node)) = changes.next().await? {
            states.insert(path, node);
        }
        if self.interrupted {
            for path in self.copy.synced_paths()? {
                states.entry(path).or_insert(None);
            }
        } else {
            let ahead: Vec<TreePath> = self.ahead.iter().filter(|path| !states.contains_key(*path)).cloned().collect();
            if !ahead.is_empty() {
                states.extend(self.api.nodes(&ahead, Some(head.number)).await?);
            }
        }
        let mut wanted = Vec::new();
        for (path, node) in states {
            if self.copy.node(&path)? != node {
                wanted.push((path, node));
            }
        }
        Ok((head, wanted))
    }

    /// If all versions after `base` are known to be our own, the head is here already: its number, and the base is moved.
    fn own_versions_only(&mut self, base: u64) -> Result<Option<u64>, ClientError> {
        let own = std::mem::take(&mut self.own_versions);
        let newer: BTreeSet<u64> = own.into_iter().filter(|version| *version > base).collect();
        let Some(last) = newer.last().copied() else { return Ok(None) };
        if newer.len() as u64 != last - base {
            return Ok(None);
        }
        self.copy.set_base_number(last)?;
        Ok(Some(last))
    }

    /// Paths that were left alone before are tried again: the entries that stood against them may have ended.
    async fn apply_deferred(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let deferred = self.copy.deferred()?;
        if deferred.is_empty() {
            return Ok(false);
        }
        self.apply(deferred.into_iter().map(|d| (d.path, d.node)).collect(), report).await
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
        let mut changes = Vec::new();
        for (path, node) in batch.iter().cloned() {
            let content = match &node {
                Some(Node::File { hash, length, .. }) => {
                    contents.get(hash).map(|file| downloaded(file, *hash, *length))
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
            report.changed += u64::from(self.copy.node(&path)? == node);
        }
        report.deferred = self.copy.deferred()?.into_iter().map(|left| (left.path.to_string(), left.reason)).collect();
        Ok(true)
    }

    /// Gets the contents that are not here, into temporary files.
    async fn download(
        &mut self,
        batch: &[(TreePath, Option<Node>)],
    ) -> Result<BTreeMap<Hash, tempfile::NamedTempFile>, ClientError> {
        let mut wanted = BTreeMap::new();
        for (_, node) in batch {
            if let Some(Node::File { hash, length, .. }) = node
                && self.copy.blob_source(hash)?.is_none()
            {
                wanted.insert(*hash, *length);
            }
        }
        let folder = self.copy.own_folder().join("staging");
        let new_file =
            || tempfile::NamedTempFile::new_in(&folder).map_err(ClientError::io("making a file to download into"));
        let mut files = BTreeMap::new();
        let total = wanted.len() as u64;
        for hashes in groups(&wanted) {
            self.progress.step("downloading files", files.len() as u64, total);
            for (hash, bytes) in self.api.fetch_blobs(&hashes).await? {
                let mut file = new_file()?;
                file.write_all(&bytes).map_err(ClientError::io("writing a download"))?;
                files.insert(hash, file);
            }
        }
        for (hash, length) in &wanted {
            if files.contains_key(hash) {
                continue;
            }
            self.progress.step("downloading files", files.len() as u64, total);
            let mut file = new_file()?;
            self.api.get_blob(hash, *length, file.as_file_mut() as &mut File).await?;
            files.insert(*hash, file);
        }
        Ok(files)
    }
}

type State = (TreePath, Option<Node>);

/// What is applied together: parents before what they hold, and not too much at once.
fn batches(wanted: Vec<State>) -> Vec<Vec<State>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (path, node) in wanted {
        bytes += match &node {
            Some(Node::File { length, .. }) => *length,
            _ => 0,
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
fn downloaded(file: &tempfile::NamedTempFile, hash: Hash, length: u64) -> Result<Arc<dyn FileContent>, ClientError> {
    let file = file.reopen().map_err(ClientError::io("reading a download"))?;
    Ok(Arc::new(KeptContent { file, length, hash, path: "download".to_owned() }))
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
