//! Checking a store: everything is read and compared with its hash, every name is followed, and what is damaged is told
//! with the places that it reaches.

use super::places::{Affected, Bad};
use super::{OnProgress, Progress, alone};
use crate::packs::list::unpack;
use crate::packs::{MAGIC, check_run};
use crate::sqlite::chunks::{self, StoredChunk};
use crate::sqlite::upkeep::{self, BlobRow};
use crate::sqlite::{Result, rows};
use crate::store::Inner;
use crate::{Principal, StorageError, Store};
use opship_record::{Hash, tree};
use rusqlite::Connection;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckOptions {
    /// Remove what is safe to remove: files that nothing names.
    pub repair: bool,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind it is: `database`, `dangling-row`, `row-damaged`, `version-chain`, `entry-damaged`, `entry-missing`,
    /// `node-damaged`, `node-missing`, `blob-damaged`, `blob-missing`, `blob-length`, `chunk-damaged`, `pack-missing`,
    /// `pack-short`, `orphan-file`.
    pub kind: &'static str,
    /// What it is, with hash or file.
    pub what: String,
    /// The places that it reaches.
    pub affected: Vec<Affected>,
    /// How many more there are than are named.
    pub more: u64,
    /// Was it put right?
    pub repaired: bool,
    /// What to do about it.
    pub advice: &'static str,
}

impl Finding {
    fn advise(&self) -> &'static str {
        match self.kind {
            "orphan-file" if self.repaired => "it was removed",
            "orphan-file" => "nothing names it; 'opship admin fsck --repair' removes it",
            "database" | "dangling-row" | "row-damaged" | "version-chain" | "entry-damaged" | "entry-missing" => {
                "stop the server and restore 'metadata.db' with the rest of the data folder from a backup"
            }
            _ if self.affected.is_empty() => "no version that is kept uses it; 'opship admin gc' may remove it",
            _ => "stop the server and restore the data folder from a backup; other files are not affected",
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// All findings; none if the store is well.
    pub findings: Vec<Finding>,
    /// Versions whose trees were followed.
    pub versions: u64,
    /// Entries read.
    pub entries: u64,
    /// Tree nodes read.
    pub nodes: u64,
    /// Blobs followed.
    pub blobs: u64,
    /// Chunks read.
    pub chunks: u64,
    /// Bytes of chunks read.
    pub bytes: u64,
}

impl Store {
    /// Checks everything. Blocks, and reads all that is stored.
    ///
    /// # Errors
    /// [`StorageError::AdminOnly`], [`StorageError::Busy`]; damage is no error but a finding.
    pub fn check(&self, by: &Principal, options: &CheckOptions, progress: &mut OnProgress<'_>) -> Result<CheckReport> {
        by.needs_admin()?;
        check(&self.0, options, progress)
    }

    /// As [`Store::check`], of a data directory that no server uses; one that is so damaged that no server starts on it has
    /// a report too. Whoever may open the directory may do this.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::Newer`], [`StorageError::Io`]; damage is no error but a finding.
    pub fn check_closed(data: &Path, options: &CheckOptions, progress: &mut OnProgress<'_>) -> Result<CheckReport> {
        match Store::open(data).and_then(|store| check(&store.0, options, progress)) {
            Err(error) if error.is_damage() => Ok(unreadable(data, &error)),
            result => result,
        }
    }
}

fn check(inner: &Arc<Inner>, options: &CheckOptions, progress: &mut OnProgress<'_>) -> Result<CheckReport> {
    let _alone = alone(inner)?;
    Check { inner, report: CheckReport::default(), bad: Bad::default(), chunks: HashMap::new() }.run(options, progress)
}

/// The report on a directory whose database cannot be opened because of `error`.
fn unreadable(data: &Path, error: &StorageError) -> CheckReport {
    let mut report = CheckReport::default();
    let database = data.join("metadata.db");
    let opened = Connection::open_with_flags(&database, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
    let found = opened.map_err(StorageError::from).and_then(|connection| rows::integrity(&connection));
    for what in found.unwrap_or_default() {
        find(&mut report.findings, "database", what);
    }
    find(&mut report.findings, "database", format!("{}: {}", database.display(), plain(error)));
    report.advise();
    report
}

impl CheckReport {
    fn advise(&mut self) {
        for finding in &mut self.findings {
            finding.advice = finding.advise();
        }
    }
}

pub(super) struct Check<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) report: CheckReport,
    pub(super) bad: Bad,
    /// Damaged chunks by number, with their findings.
    chunks: HashMap<i64, usize>,
}

impl Check<'_> {
    fn run(mut self, options: &CheckOptions, progress: &mut OnProgress<'_>) -> Result<CheckReport> {
        let orphans = self.orphans()?;
        progress(Progress { step: "checking the database", done: 0, total: 0 });
        self.told("database", "the database", rows::integrity)?;
        self.told("dangling-row", "what rows refer to", rows::dangling)?;
        self.told("row-damaged", "smaller tables", rows::unlikely)?;
        self.entries(progress)?;
        self.nodes(progress)?;
        self.packs(progress)?;
        self.blobs(progress)?;
        for (workspace, name) in self.read("workspaces", upkeep::workspaces)?.unwrap_or_default() {
            self.workspace(workspace, &name, progress)?;
        }
        for file in orphans {
            let finding = self.find("orphan-file", file.display().to_string());
            self.report.findings[finding].repaired = options.repair && std::fs::remove_file(&file).is_ok();
        }
        self.report.advise();
        Ok(self.report)
    }

    pub(super) fn find(&mut self, kind: &'static str, what: String) -> usize {
        find(&mut self.report.findings, kind, what)
    }

    /// Reads from the database. What cannot be read is a finding, told once, and no error.
    pub(super) fn read<T>(&mut self, what: &str, work: impl FnOnce(&Connection) -> Result<T>) -> Result<Option<T>> {
        match self.inner.database.read(work) {
            Err(error) if error.is_damage() => {
                let what = format!("{what} cannot be read: {}", plain(&error));
                if !self.report.findings.iter().any(|finding| finding.what == what) {
                    self.find("database", what);
                }
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Makes a finding of each text.
    fn told(&mut self, kind: &'static str, what: &str, work: fn(&Connection) -> Result<Vec<String>>) -> Result<()> {
        for text in self.read(what, work)?.unwrap_or_default() {
            self.find(kind, text);
        }
        Ok(())
    }

    /// The next rows of a table behind number `after`, which is moved on; none at its end. Where some cannot be read, those
    /// that can come one by one.
    pub(super) fn next<T>(
        &mut self,
        table: &str,
        after: &mut i64,
        query: fn(&Connection, i64, i64) -> Result<Vec<T>>,
        number: fn(&T) -> i64,
    ) -> Result<Vec<T>> {
        let mut behind = *after;
        let mut rows = self.read(table, |connection| query(connection, behind, upkeep::BATCH))?;
        let mut last = None;
        while rows.is_none() {
            let end = match last {
                Some(end) => end,
                None => self.read(table, |connection| rows::last_row(connection, table))?.unwrap_or(behind),
            };
            last = Some(end);
            rows = match self.inner.database.read(|connection| query(connection, behind, 1)) {
                Err(error) if error.is_damage() && behind < end => None,
                Err(error) if error.is_damage() => Some(Vec::new()),
                rows => Some(rows?),
            };
            behind += 1;
        }
        let rows = rows.unwrap_or_default();
        *after = rows.last().map_or(*after, number);
        Ok(rows)
    }

    /// Files that nothing names. Those that an upload makes are named before it lets go of them.
    fn orphans(&mut self) -> Result<Vec<PathBuf>> {
        let mut orphans = Vec::new();
        for (pack, path) in self.inner.packs.files() {
            if pack.is_some_and(|pack| self.inner.packs.is_written(pack)) {
                continue;
            }
            let known = match pack {
                Some(pack) => self.read("packs", |connection| chunks::is_pack(connection, pack))?,
                None => Some(false),
            };
            // One that was made and dropped meanwhile is no orphan either, nor is one of which nothing can be said.
            if known == Some(false) && path.exists() {
                orphans.push(path);
            }
        }
        for path in self.inner.files.files() {
            let hash = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<Hash>().ok());
            let known = match hash {
                Some(hash) => self.read("contents", |connection| upkeep::is_in_file(connection, &hash))?,
                None => Some(false),
            };
            if known == Some(false) {
                orphans.push(path);
            }
        }
        Ok(orphans)
    }

    fn nodes(&mut self, progress: &mut OnProgress<'_>) -> Result<()> {
        let mut after = 0;
        loop {
            let some = self.next("node", &mut after, rows::nodes, |(row, ..)| *row)?;
            if some.is_empty() {
                return Ok(());
            }
            self.report.nodes += some.len() as u64;
            for (_, hash, bytes) in some {
                if tree::hash_of(&bytes) != hash || tree::references(&bytes).is_err() {
                    let finding = self.find("node-damaged", format!("tree node {hash} in the database"));
                    self.bad.nodes.insert(hash, finding);
                }
            }
            progress(Progress { step: "reading tree nodes", done: self.report.nodes, total: 0 });
        }
    }

    fn packs(&mut self, progress: &mut OnProgress<'_>) -> Result<()> {
        let packs = self.read("packs", chunks::packs)?.unwrap_or_default();
        let total = packs.iter().map(|(_, length)| length).sum();
        for (pack, length) in packs {
            let path = self.inner.packs.path(pack);
            let found = path.metadata().map(|metadata| metadata.len());
            let shown = path.display();
            let whole = match found {
                Err(_) => Some(self.find("pack-missing", format!("{shown} is missing"))),
                Ok(found) if found < length => {
                    let what = format!("{shown} has {found} bytes instead of {length}");
                    Some(self.find("pack-short", what))
                }
                Ok(_) => None,
            };
            let chunks =
                self.read(&format!("the chunks of pack {pack}"), |connection| chunks::in_pack(connection, pack))?;
            for chunk in chunks.unwrap_or_default() {
                self.chunk(&chunk, whole, length)?;
            }
            progress(Progress { step: "reading packs", done: self.report.bytes, total });
        }
        Ok(())
    }

    /// `whole`: the finding about the pack as a whole, which stands for each of its chunks that cannot be read.
    fn chunk(&mut self, chunk: &StoredChunk, whole: Option<usize>, length: u64) -> Result<()> {
        self.report.chunks += 1;
        self.report.bytes += chunk.place.stored;
        let end = chunk.place.offset.saturating_add(chunk.place.stored);
        let is_inside = chunk.place.offset >= MAGIC.len() as u64 && end <= length;
        let stored = if is_inside { self.inner.packs.stored(&chunk.place)? } else { None };
        let damage = match stored.map(|stored| self.inner.packs.unpack(chunk, stored)) {
            Some(Ok(_)) => return Ok(()),
            Some(Err(StorageError::Damaged(what))) => what,
            Some(Err(error)) => return Err(error),
            None => format!("chunk {} has no place in a pack", chunk.hash),
        };
        let finding = whole.unwrap_or_else(|| self.find("chunk-damaged", damage));
        self.chunks.insert(chunk.id, finding);
        Ok(())
    }

    fn blobs(&mut self, progress: &mut OnProgress<'_>) -> Result<()> {
        let mut after = 0;
        loop {
            let some = self.next("blob", &mut after, upkeep::blobs, |blob| blob.row)?;
            if some.is_empty() {
                return Ok(());
            }
            self.report.blobs += some.len() as u64;
            for blob in some {
                self.blob(&blob)?;
            }
            progress(Progress { step: "following contents", done: self.report.blobs, total: 0 });
        }
    }

    fn blob(&mut self, blob: &BlobRow) -> Result<()> {
        let hash = blob.hash;
        let other = || StorageError::damaged(format!("blob {hash} has other bytes in the database"));
        let result = match (&blob.bytes, &blob.chunks) {
            (Some(bytes), None) if bytes.len() as u64 == blob.length && Hash::of(bytes) == hash => Ok(()),
            (Some(_), _) => Err(other()),
            (None, Some(packed)) => self.chunked(blob, packed),
            (None, None) => self.inner.files.check(&hash, blob.length),
        };
        let what = match result {
            Ok(()) => return Ok(()),
            Err(error) if error.is_damage() => plain(&error),
            Err(error) => return Err(error),
        };
        let is_missing = blob.bytes.is_none() && blob.chunks.is_none() && !self.inner.files.path(&hash).exists();
        let finding = self.find(if is_missing { "blob-missing" } else { "blob-damaged" }, what);
        self.bad.blobs.insert(hash, finding);
        Ok(())
    }

    fn chunked(&mut self, blob: &BlobRow, packed: &[u8]) -> Result<()> {
        for run in unpack(&blob.hash, blob.length, packed)? {
            let found = self.inner.database.read(|connection| chunks::between(connection, run.first, run.last()))?;
            check_run(&blob.hash, &run, &found)?;
            if let Some(finding) = found.iter().find_map(|chunk| self.chunks.get(&chunk.id)) {
                self.bad.blobs.insert(blob.hash, *finding);
            }
        }
        Ok(())
    }
}

pub(super) fn find(findings: &mut Vec<Finding>, kind: &'static str, what: String) -> usize {
    findings.push(Finding { kind, what, affected: Vec::new(), more: 0, repaired: false, advice: "" });
    findings.len() - 1
}

/// What an error says of the damage, without the advice for who is not checking yet.
pub(super) fn plain(error: &StorageError) -> String {
    match error {
        StorageError::Damaged(what) => what.clone(),
        StorageError::Database(error) => error.to_string(),
        error => error.to_string(),
    }
}
