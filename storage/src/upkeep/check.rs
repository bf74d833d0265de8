//! Checking a store: everything is read and compared with its hash, every name is followed, and what is damaged is told
//! with the places that it reaches.

use super::places::{Affected, Bad, Lack, Walk, modules};
use super::{OnProgress, Progress, alone};
use crate::packs::list::unpack;
use crate::packs::{MAGIC, check_run};
use crate::sqlite::Result;
use crate::sqlite::chunks::{self, StoredChunk};
use crate::sqlite::upkeep::{self, BlobRow, Kept};
use crate::store::Inner;
use crate::{Principal, StorageError, Store};
use opship_record::version::Version;
use opship_record::{Hash, tree};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckOptions {
    /// Remove what is safe to remove: files that nothing names.
    pub repair: bool,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind it is: `database`, `dangling-row`, `version-chain`, `node-damaged`, `node-missing`, `blob-damaged`,
    /// `blob-missing`, `blob-length`, `chunk-damaged`, `pack-missing`, `pack-short`, `orphan-file`.
    pub kind: &'static str,
    /// What it is, with hash or file.
    pub what: String,
    /// The places that it reaches.
    pub affected: Vec<Affected>,
    /// How many more there are than are named.
    pub more: u64,
    /// Was it put right?
    pub repaired: bool,
}

impl Finding {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self.kind {
            "orphan-file" if self.repaired => "it was removed",
            "orphan-file" => "nothing names it; 'opship admin fsck --repair' removes it",
            "database" | "dangling-row" | "version-chain" => {
                "stop the server and restore 'metadata.db' with the rest of the data folder from a backup"
            }
            _ if self.affected.is_empty() => "no version that is kept uses it; 'opship admin gc' may remove it",
            _ => "stop the server and restore the data folder from a backup; other files are not affected",
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// All findings; none if the store is well.
    pub findings: Vec<Finding>,
    /// Versions whose trees were followed.
    pub versions: u64,
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
        let _alone = alone(&self.0)?;
        let check =
            Check { inner: &self.0, report: CheckReport::default(), bad: Bad::default(), chunks: HashMap::new() };
        check.run(options, progress)
    }
}

struct Check<'a> {
    inner: &'a Arc<Inner>,
    report: CheckReport,
    bad: Bad,
    /// Damaged chunks by number, with their findings.
    chunks: HashMap<i64, usize>,
}

impl Check<'_> {
    fn run(mut self, options: &CheckOptions, progress: &mut OnProgress<'_>) -> Result<CheckReport> {
        let orphans = self.orphans()?;
        for what in self.inner.database.read(upkeep::quick_check)? {
            self.find("database", what);
        }
        for what in self.inner.database.read(upkeep::dangling)? {
            self.find("dangling-row", what);
        }
        self.nodes(progress)?;
        self.packs(progress)?;
        self.blobs(progress)?;
        for (workspace, name) in self.inner.database.read(upkeep::workspaces)? {
            self.workspace(workspace, &name, progress)?;
        }
        for file in orphans {
            let finding = self.find("orphan-file", file.display().to_string());
            self.report.findings[finding].repaired = options.repair && std::fs::remove_file(&file).is_ok();
        }
        Ok(self.report)
    }

    fn find(&mut self, kind: &'static str, what: String) -> usize {
        find(&mut self.report.findings, kind, what)
    }

    /// Files that nothing names. Those that an upload makes are named before it lets go of them.
    fn orphans(&self) -> Result<Vec<PathBuf>> {
        let mut orphans = Vec::new();
        for (pack, path) in self.inner.packs.files() {
            if pack.is_some_and(|pack| self.inner.packs.is_written(pack)) {
                continue;
            }
            let known = |pack| self.inner.database.read(|connection| chunks::is_pack(connection, pack));
            // One that was made and dropped meanwhile is no orphan either.
            if !pack.map_or(Ok(false), known)? && path.exists() {
                orphans.push(path);
            }
        }
        for path in self.inner.files.files() {
            let hash = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<Hash>().ok());
            let known = |hash| self.inner.database.read(|connection| upkeep::is_in_file(connection, &hash));
            if !hash.map_or(Ok(false), known)? {
                orphans.push(path);
            }
        }
        Ok(orphans)
    }

    fn nodes(&mut self, progress: &mut OnProgress<'_>) -> Result<()> {
        let mut after = 0;
        loop {
            let some = self.inner.database.read(|connection| upkeep::node_bytes(connection, after))?;
            let Some((last, _, _)) = some.last() else { return Ok(()) };
            after = *last;
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
        let packs = self.inner.database.read(chunks::packs)?;
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
            for chunk in self.inner.database.read(|connection| chunks::in_pack(connection, pack))? {
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
            let some = self.inner.database.read(|connection| upkeep::blobs(connection, after))?;
            let Some(last) = some.last() else { return Ok(()) };
            after = last.row;
            self.report.blobs += some.len() as u64;
            for blob in some {
                self.blob(&blob)?;
            }
            progress(Progress { step: "following contents", done: self.report.blobs, total: 0 });
        }
    }

    fn blob(&mut self, blob: &BlobRow) -> Result<()> {
        let hash = blob.hash;
        let damage = match (&blob.bytes, &blob.chunks) {
            (Some(bytes), _) if bytes.len() as u64 == blob.length && Hash::of(bytes) == hash => return Ok(()),
            (Some(_), _) => StorageError::damaged(format!("blob {hash} has other bytes in the database")),
            (None, Some(packed)) => match self.chunked(blob, packed) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            (None, None) => match self.inner.files.check(&hash, blob.length) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
        };
        let StorageError::Damaged(what) = damage else { return Err(damage) };
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

    fn workspace(&mut self, workspace: i64, name: &str, progress: &mut OnProgress<'_>) -> Result<()> {
        let versions = self.inner.database.read(|connection| upkeep::versions(connection, workspace))?;
        for what in broken_chain(&versions) {
            self.find("version-chain", format!("workspace '{name}': {what}"));
        }
        for number in self.inner.database.read(|connection| upkeep::without_entry(connection, workspace))? {
            self.find("version-chain", format!("workspace '{name}': version {number} has no entry"));
        }
        let (findings, inner) = (&mut self.report.findings, self.inner);
        let mut found = |lack| match lack {
            Lack::Node(hash) => find(findings, "node-missing", format!("tree node {hash} is missing or damaged")),
            Lack::Blob(hash) => find(findings, "blob-missing", format!("blob {hash} is missing")),
            Lack::Length(hash) => {
                find(findings, "blob-length", format!("blob {hash} has another length than the tree says"))
            }
        };
        let mut walk = Walk::new(inner, workspace, &mut self.bad, &mut found)?;
        let kept: Vec<Kept> = versions.iter().map(|(kept, _)| *kept).filter(|kept| !kept.is_forgotten).collect();
        let total = kept.len() as u64;
        for (done, version) in (0..).zip(&kept) {
            walk.version(version.number, &version.root)?;
            progress(Progress { step: "following versions", done, total });
        }
        let places = walk.places(name);
        self.report.versions += total;
        for (finding, (affected, more)) in places {
            self.report.findings[finding].affected.extend(affected);
            self.report.findings[finding].more += more;
        }
        for (finding, module) in modules(inner, (workspace, name), &self.bad)? {
            self.report.findings[finding].affected.push(module);
        }
        Ok(())
    }
}

fn find(findings: &mut Vec<Finding>, kind: &'static str, what: String) -> usize {
    findings.push(Finding { kind, what, affected: Vec::new(), more: 0, repaired: false });
    findings.len() - 1
}

/// What is wrong with the chain of a workspace's versions.
fn broken_chain(versions: &[(Kept, Vec<u8>)]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut before: Option<Version> = None;
    if versions.is_empty() {
        broken.push("it has no version".to_owned());
    }
    for (expected, (row, bytes)) in (0..).zip(versions) {
        let Ok(version) = Version::decode(bytes) else {
            broken.push(format!("version {} cannot be read", row.number));
            before = None;
            continue;
        };
        let parent = before.as_ref().map(Version::id);
        if row.number != expected || version.number != row.number || version.root != row.root {
            broken.push(format!("version {} stands where version {expected} should", version.number));
        } else if version.parent != parent && (before.is_some() || expected == 0) {
            broken.push(format!("version {} names another parent than the version before it", row.number));
        }
        before = Some(version);
    }
    broken
}
