//! Collecting: versions beyond retention are forgotten, and what nothing names any more goes.
//!
//! Steps, each of small transactions and each safe to be cut off after: forget versions, mark what is kept, take blobs out
//! of workspaces, remove tree nodes, blobs and chunks, rewrite packs. Marking begins after a mark in the database from
//! which on the writer notes what is named, so that whatever is named again meanwhile is spared; what is read or taken in
//! meanwhile is held ([`crate::in_use`]).

use super::mark::{Marks, Workspace, mark, workspaces};
use super::{DAY, OnProgress, Progress, alone};
use crate::packs::list::unpack;
use crate::sqlite::upkeep::{self, BlobRow};
use crate::sqlite::{Result, nodes, now};
use crate::store::Inner;
use crate::visible::Bits;
use crate::{Principal, Store, failpoint};
use opship_record::Hash;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How to collect.
#[derive(Debug, Clone, Copy)]
pub struct CollectOptions {
    /// Only count.
    pub dry_run: bool,
    /// How long what nobody names stays after it was last named: uploads whose entry is still to come.
    pub unused: Duration,
    /// How much later it is than the clock says, for who wants to know what will go.
    pub ahead: Duration,
}

impl Default for CollectOptions {
    fn default() -> CollectOptions {
        CollectOptions { dry_run: false, unused: Duration::from_millis(7 * DAY), ahead: Duration::ZERO }
    }
}

/// What was collected, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CollectReport {
    /// Versions forgotten.
    pub versions: u64,
    /// Tree nodes removed.
    pub nodes: u64,
    /// Blobs removed from the server.
    pub blobs: u64,
    /// Chunks removed.
    pub chunks: u64,
    /// Packs removed or written again with what is left of them.
    pub packs: u64,
    /// Unfinished uploads removed.
    pub uploads: u64,
    /// Bytes that became free on disk or within the database.
    pub bytes: u64,
}

impl Store {
    /// Forgets versions beyond retention and removes what nothing names any more, beside readers and writers. On a full disk
    /// too: what the data directory has set aside is given up first. Blocks.
    ///
    /// # Errors
    /// [`crate::StorageError::AdminOnly`], [`crate::StorageError::Busy`], [`crate::StorageError::Damaged`] if a tree that
    /// is kept is damaged: then nothing is removed.
    pub fn collect(
        &self,
        by: &Principal,
        options: &CollectOptions,
        progress: &mut OnProgress<'_>,
    ) -> Result<CollectReport> {
        by.needs_admin()?;
        let _alone = alone(&self.0)?;
        if !options.dry_run {
            self.0.data.give_up_reserve();
        }
        let collected = Collection::begin(&self.0, options).and_then(|mut collection| collection.run(progress));
        self.0.in_use.end_collecting();
        self.0.database.nodes.end_collecting();
        let ended = self.0.database.write(upkeep::end_collecting);
        self.0.data.set_reserve();
        collected.and_then(|report| ended.map(|()| report))
    }
}

struct Collection<'a> {
    inner: &'a Arc<Inner>,
    dry_run: bool,
    unused: Duration,
    now: u64,
    /// What was named before, may go.
    cutoff: u64,
    report: CollectReport,
    /// In how many workspaces each blob was, that are no longer or would be no longer.
    hidden: HashMap<Hash, u64>,
}

impl<'a> Collection<'a> {
    fn begin(inner: &'a Arc<Inner>, options: &CollectOptions) -> Result<Collection<'a>> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let until = now() + 1;
        inner.in_use.begin_collecting();
        inner.database.nodes.begin_collecting();
        inner.database.write(move |connection| upkeep::begin_collecting(connection, until))?;
        Ok(Collection {
            inner,
            dry_run: options.dry_run,
            unused: options.unused,
            now: now().saturating_add(millis(options.ahead)),
            cutoff: until.min(now().saturating_add(millis(options.ahead)).saturating_sub(millis(options.unused))),
            report: CollectReport::default(),
            hidden: HashMap::new(),
        })
    }

    fn run(&mut self, progress: &mut OnProgress<'_>) -> Result<CollectReport> {
        self.stale_uploads(&self.inner.data.path().join("uploads"));
        let workspaces = workspaces(self.inner, self.now)?;
        self.forget(&workspaces)?;
        failpoint::hit("gc-forgotten");
        let mut marked = Vec::new();
        for workspace in &workspaces {
            marked.push((workspace.id, mark(self.inner, workspace, (self.now, self.cutoff), progress)?));
        }
        let mut kept = HashSet::new();
        for (workspace, mut marks) in marked {
            self.uploads_of(workspace, &mut marks)?;
            self.blobs_of(workspace, &marks.blobs, progress)?;
            kept.extend(marks.nodes);
        }
        self.inner.visible.clear();
        self.inner.database.checkpoint();
        failpoint::hit("gc-hidden");
        self.nodes(&kept, progress)?;
        failpoint::hit("gc-nodes");
        self.inner.database.checkpoint();
        let named = self.blobs(progress)?;
        failpoint::hit("gc-blobs");
        self.chunks(&named, progress)?;
        failpoint::hit("gc-chunks");
        self.inner.database.checkpoint();
        if !self.dry_run {
            super::repack::repack(self.inner, &mut self.report, progress)?;
        }
        Ok(self.report)
    }

    fn forget(&mut self, workspaces: &[Workspace]) -> Result<()> {
        for workspace in workspaces {
            self.report.versions += workspace.beyond.len() as u64;
            if self.dry_run {
                continue;
            }
            for numbers in workspace.beyond.chunks(upkeep::BATCH as usize) {
                let (id, numbers) = (workspace.id, numbers.to_vec());
                self.inner.database.write(move |connection| upkeep::forget(connection, id, &numbers))?;
            }
        }
        Ok(())
    }

    /// Forgets uploaded trees that nothing names. All in one transaction of the writer, which looks first at those that were
    /// named since marking: with a tree all that is below it must stay.
    fn uploads_of(&mut self, workspace: i64, marks: &mut Marks) -> Result<()> {
        if self.dry_run {
            return Ok(());
        }
        let (cutoff, mut taken) = (self.cutoff, std::mem::take(marks));
        *marks = self.inner.database.write(move |connection| {
            let mut load = |hash: &Hash| nodes::load(connection, hash);
            let (recent, mut again) = (upkeep::named(connection, workspace, u64::MAX, cutoff)?.trees, Marks::default());
            for root in recent.iter().filter(|root| !taken.nodes.contains(root)) {
                again.tree(root, &mut load)?;
            }
            taken.add(again);
            for hash in upkeep::old_uploads(connection, workspace, cutoff)? {
                if !taken.nodes.contains(&hash) {
                    upkeep::remove_upload(connection, workspace, &hash)?;
                }
            }
            Ok(taken)
        })?;
        Ok(())
    }

    /// Takes blobs out of a workspace that it no longer needs.
    fn blobs_of(&mut self, workspace: i64, kept: &HashSet<Hash>, progress: &mut OnProgress<'_>) -> Result<()> {
        let (cutoff, mut after) = (self.cutoff, Hash::from_bytes([0; 32]));
        loop {
            let old = self.inner.database.read(|c| upkeep::old_blobs(c, workspace, cutoff, &after))?;
            let Some(last) = old.last() else { return Ok(()) };
            after = *last;
            let locked = self.inner.in_use.lock();
            let gone: Vec<Hash> =
                old.into_iter().filter(|hash| !kept.contains(hash) && !locked.holds_blob(hash)).collect();
            let hidden = if self.dry_run {
                gone
            } else {
                self.inner.database.write(move |connection| {
                    let hide = |hash: &Hash| upkeep::hide_blob(connection, workspace, hash, cutoff);
                    gone.into_iter()
                        .map(|hash| Ok(hide(&hash)?.then_some(hash)))
                        .filter_map(Result::transpose)
                        .collect()
                })?
            };
            drop(locked);
            for hash in hidden {
                *self.hidden.entry(hash).or_default() += 1;
            }
            progress(Progress { step: "looking for what is not", done: self.hidden.len() as u64, total: 0 });
        }
    }

    fn nodes(&mut self, kept: &HashSet<Hash>, progress: &mut OnProgress<'_>) -> Result<()> {
        let mut after = 0;
        loop {
            let some = self.inner.database.read(|connection| upkeep::nodes(connection, after))?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            let gone: Vec<Hash> = some.into_iter().map(|(_, hash)| hash).filter(|hash| !kept.contains(hash)).collect();
            let written = self.inner.database.nodes.clone();
            self.report.nodes += if self.dry_run {
                gone.len() as u64
            } else {
                self.inner.database.write(move |connection| {
                    let mut removed = 0;
                    for hash in gone.iter().filter(|hash| !written.is_written(hash)) {
                        removed += u64::from(upkeep::remove_node(connection, hash)?);
                    }
                    Ok(removed)
                })?
            };
            progress(Progress { step: "removing tree nodes", done: self.report.nodes, total: 0 });
        }
    }

    /// Removes blobs that nothing names. Gives the chunks of the others.
    fn blobs(&mut self, progress: &mut OnProgress<'_>) -> Result<Bits> {
        let (mut after, mut named) = (0, Bits::default());
        loop {
            let some = self.inner.database.read(|connection| upkeep::blobs(connection, after, upkeep::BATCH))?;
            let Some(last) = some.last() else { return Ok(named) };
            after = last.row;
            let locked = self.inner.in_use.lock();
            let mut gone = Vec::new();
            for blob in some {
                // In a dry run the rows of workspaces are still there.
                let names = blob.names - self.dry_hidden(&blob.hash).min(blob.names);
                if names == 0 && !locked.holds_blob(&blob.hash) {
                    gone.push(blob);
                } else if let Some(packed) = &blob.chunks {
                    named.add(&unpack(&blob.hash, blob.length, packed)?);
                }
            }
            self.remove_blobs(gone, &mut named)?;
            drop(locked);
            progress(Progress { step: "removing contents", done: self.report.blobs, total: 0 });
        }
    }

    fn dry_hidden(&self, hash: &Hash) -> u64 {
        if self.dry_run { self.hidden.get(hash).copied().unwrap_or(0) } else { 0 }
    }

    fn remove_blobs(&mut self, gone: Vec<BlobRow>, named: &mut Bits) -> Result<()> {
        let (dry_run, inner) = (self.dry_run, self.inner);
        let removed: Vec<Option<bool>> = if dry_run {
            gone.iter().map(|blob| Some(blob.bytes.is_none() && blob.chunks.is_none())).collect()
        } else {
            let hashes: Vec<Hash> = gone.iter().map(|blob| blob.hash).collect();
            let remove = move |connection: &rusqlite::Connection| {
                hashes.iter().map(|hash| upkeep::remove_blob(connection, hash)).collect::<Result<Vec<_>>>()
            };
            inner.database.write(remove)?
        };
        failpoint::hit("gc-files");
        for (blob, removed) in gone.into_iter().zip(removed) {
            let Some(in_file) = removed else {
                // Named again meanwhile.
                if let Some(packed) = &blob.chunks {
                    named.add(&unpack(&blob.hash, blob.length, packed)?);
                }
                continue;
            };
            self.report.blobs += 1;
            if in_file && !dry_run {
                // A file that cannot be removed now is an orphan that the next check names.
                let _ = std::fs::remove_file(inner.files.path(&blob.hash));
            }
            if in_file || blob.bytes.is_some() {
                self.report.bytes += blob.length;
            }
        }
        Ok(())
    }

    fn chunks(&mut self, named: &Bits, progress: &mut OnProgress<'_>) -> Result<()> {
        let mut after = 0;
        // Chunks that come from now on have higher numbers, and were touched.
        loop {
            let some = self.inner.database.read(|connection| upkeep::chunks(connection, after))?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            let locked = self.inner.in_use.lock();
            let gone: Vec<(i64, u64)> =
                some.into_iter().filter(|(chunk, _)| !named.has(*chunk) && !locked.holds_chunk(*chunk)).collect();
            let removed = if self.dry_run {
                gone
            } else {
                let in_use = self.inner.in_use.clone();
                self.inner.database.write(move |connection| {
                    let gone: Vec<_> = gone.into_iter().filter(|(chunk, _)| !in_use.is_touched(*chunk)).collect();
                    gone.iter().try_for_each(|(chunk, _)| upkeep::remove_chunk(connection, *chunk))?;
                    Ok(gone)
                })?
            };
            drop(locked);
            self.report.chunks += removed.len() as u64;
            if self.dry_run {
                self.report.bytes += removed.iter().map(|(_, stored)| stored).sum::<u64>();
            }
            progress(Progress { step: "removing chunks", done: self.report.chunks, total: 0 });
        }
    }

    /// Removes uploads that nobody has gone on with.
    fn stale_uploads(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            if !metadata.is_file() || age.is_none_or(|age| age < self.unused) {
                continue;
            }
            if self.dry_run || std::fs::remove_file(entry.path()).is_ok() {
                self.report.uploads += 1;
                self.report.bytes += metadata.len();
            }
        }
    }
}
