//! Bringing a bundle's version to a folder, without the server.

use super::Bundle;
use super::format::{Claim, State};
use crate::fs::KeptContent;
use crate::stage::copy_checked;
use crate::staging::Staging;
use crate::sync::{Arrived, Batches, Progress, PullReport, Source, Unconfirmed};
use crate::transfer::Memory;
use crate::{ClientError, RemoteChange, WorkingCopy};
use opship_engine::failpoint;
use opship_record::node::Node;
use opship_record::{Hash, Hasher, TreePath};
use opship_residual::Signer;
use opship_world::FileContent;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tempfile::{NamedTempFile, TempPath};

/// What a file takes on a disk beyond its bytes.
const BLOCK: u64 = 4 << 10;

/// Contents with their lengths in bytes.
type Lengths = BTreeMap<Hash, u64>;

/// What applying a bundle did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// What came. Its version is the bundle's.
    pub pulled: PullReport,
    /// Contents that came out of the bundle.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
    /// Paths of which the bundle does not know the state: the next sync brings them.
    pub unknown: u64,
}

impl Bundle {
    /// Makes a working copy of the bundle's workspace in a folder that is new or empty. The server need not be there; its
    /// address is the one that the bundle names. `name`: what others see this client called, if not the host's name.
    ///
    /// # Errors
    /// [`ClientError::Refused`]; nothing is there then. After another failure what came stays, and [`Bundle::apply`] goes on.
    pub fn clone_into(
        &self,
        folder: &Path,
        name: Option<&str>,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<Applied, ClientError> {
        let source = self.source()?;
        Source::check_folder(folder)?;
        let claim = self.claim()?;
        if self.head().since.is_some_and(|since| since > 0) {
            return Err(self.lacks(0));
        }
        if let Some((path, ..)) = self.states().iter().find(|(_, node)| self.is_missing(node.as_ref())) {
            return Err(self.without_content(path));
        }
        check_room(
            folder,
            self.states().iter().filter_map(|(_, node)| content_of(node.as_ref())).map(|(_, length)| length),
        )?;
        if dry_run {
            return Ok(self.all_of_it(claim));
        }
        let copy = WorkingCopy::create(folder, &source.server.to_string(), &source.workspace)?;
        copy.set_client_name(name)?;
        self.apply(&copy, false, progress)
    }

    /// Brings a working copy of the same workspace to the bundle's version, under the rules of a pull: what was changed here
    /// is left alone. The bundle's word for what that version holds is put to the server by the next sync.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for a bundle of another workspace, of an older version, or without something that is needed:
    /// nothing is changed then. [`ClientError::Io`] for a full disk: applying again goes on.
    pub fn apply(&self, copy: &WorkingCopy, dry_run: bool, progress: &dyn Progress) -> Result<Applied, ClientError> {
        let _lock = copy.try_lock_sync()?.ok_or(ClientError::Busy)?;
        let claim = self.check_fits(copy)?;
        let wanted = self.wanted(copy)?;
        let (needed, moved) = self.needed(copy, &wanted)?;
        let is_new = |hash: &Hash| needed.contains_key(hash) || moved.contains_key(hash);
        let files = wanted.iter().filter_map(|(_, node)| content_of(node.as_ref()));
        check_room(copy.path(), files.filter(|(hash, _)| is_new(hash)).map(|(_, length)| length))?;
        let unknown = self.states().iter().filter(|(_, node)| node.is_none()).count() as u64;
        let mut applied = Applied {
            pulled: PullReport { version: claim.number, ..PullReport::default() },
            contents: needed.len() as u64,
            content_bytes: needed.values().sum(),
            unknown,
        };
        if dry_run {
            applied.pulled.changed = wanted.len() as u64;
            return Ok(applied);
        }
        let mut taking = Taking::new(self, copy)?;
        let (mut arrived, mut left) = (Arrived::default(), Vec::new());
        let (mut done, total) = (0, wanted.len() as u64);
        let mut is_folder = |path: &TreePath| Ok(matches!(copy.node(path)?, Some(Node::Directory { .. })));
        let mut batches = Batches::new::<ClientError>(wanted, &mut is_folder)?;
        taking.hold(&moved)?;
        failpoint::hit("bundle-checked");
        let unconfirmed = Unconfirmed::begin(copy, claim)?;
        while let Some(batch) = batches.next() {
            let begun = Instant::now();
            progress.step("applying the bundle", done, total);
            done += batch.len() as u64;
            applied.pulled.changed += taking.apply(batch, &mut arrived, &mut left)?;
            failpoint::hit("bundle-batch");
            batches.took(begun.elapsed());
        }
        // A folder that is to go stayed where what lies in it went later.
        let mut batches = Batches::new::<ClientError>(std::mem::take(&mut left), &mut is_folder)?;
        while let Some(batch) = batches.next() {
            applied.pulled.changed += taking.apply(batch, &mut arrived, &mut left)?;
        }
        unconfirmed.finish(copy, claim, unknown > 0)?;
        let deferred = copy.deferred()?.into_iter();
        applied.pulled.deferred = deferred.map(|left| (left.path.to_string(), left.reason)).collect();
        applied.pulled.names = arrived.remarkable(copy)?;
        Ok(applied)
    }

    fn claim(&self) -> Result<&Claim, ClientError> {
        let claim = self.head().version.as_ref().filter(|claim| claim.number > 0);
        claim.ok_or_else(|| {
            ClientError::Refused(
                "this bundle holds no version, only entries: it was made before the first sync, or after one that was cut off; \
                 'opship bundle apply --server URL' ships them, and a bundle that is made after a sync holds the version too"
                    .to_owned(),
            )
        })
    }

    /// Is this a bundle for the working copy, and ahead of it?
    fn check_fits(&self, copy: &WorkingCopy) -> Result<&Claim, ClientError> {
        let (head, source, config) = (self.head(), self.source()?, copy.config());
        if source != Source::new(config.server.parse()?, &config.workspace)? {
            return Err(ClientError::Refused(format!(
                "this bundle is of workspace '{}' on {}, and this is a working copy of '{}' on {}; nothing was changed, apply it \
                 in a copy of that workspace or in an empty folder",
                head.workspace, head.server, config.workspace, config.server
            )));
        }
        let claim = self.claim()?;
        let (base, _) = copy.base()?;
        if claim.number <= base {
            return Err(ClientError::Refused(format!(
                "this bundle holds version {}, and this working copy stands on version {base} already; nothing was changed",
                claim.number
            )));
        }
        if head.since.is_some_and(|since| since > base) {
            return Err(self.lacks(base));
        }
        Ok(claim)
    }

    fn lacks(&self, base: u64) -> ClientError {
        let since = self.head().since.unwrap_or_default();
        ClientError::Refused(format!(
            "this bundle leaves out what version {since} holds, and here is version {base}: what versions {} to {since} brought \
             is lacking; nothing was changed, make one with '--since {base}' or a whole one",
            base + 1
        ))
    }

    fn without_content(&self, path: &TreePath) -> ClientError {
        ClientError::Refused(format!(
            "the content of '{path}' is neither in this bundle nor here; nothing was changed, make a whole bundle"
        ))
    }

    /// What a clone would get.
    fn all_of_it(&self, claim: &Claim) -> Applied {
        let known = self.states().iter().filter(|(_, node)| node.is_some()).count() as u64;
        Applied {
            pulled: PullReport { version: claim.number, changed: known, ..PullReport::default() },
            contents: self.found.contents.len() as u64,
            content_bytes: self.found.contents.values().map(|(_, length)| length).sum(),
            unknown: self.states().len() as u64 - known,
        }
    }

    fn is_missing(&self, node: Option<&Node>) -> bool {
        content_of(node).is_some_and(|(hash, _)| self.length_of(&hash).is_none())
    }

    /// The paths that are to become another, sorted. Those that own entries made, and the server has taken, may be newer than
    /// the bundle; of those at and below what it does not know, it does not say that they went.
    fn wanted(&self, copy: &WorkingCopy) -> Result<Vec<State>, ClientError> {
        let (ahead, mut wanted) = (copy.paths_ahead()?, BTreeMap::new());
        let unknown: BTreeSet<&TreePath> =
            self.states().iter().filter(|(_, node)| node.is_none()).map(|(path, _)| path).collect();
        let is_unknown = |path: &TreePath| {
            std::iter::successors(Some(path.clone()), TreePath::parent).any(|above| unknown.contains(&above))
        };
        for (path, node) in self.states() {
            if node.is_some() && copy.node(path)? != *node {
                wanted.insert(path.clone(), node.clone());
            }
        }
        let named = |path: &TreePath| self.states().binary_search_by(|(known, _)| known.cmp(path)).is_ok();
        for path in copy.settled_paths()? {
            if !named(&path) && !is_unknown(&path) {
                wanted.insert(path, None);
            }
        }
        wanted.retain(|path, _| !ahead.contains(path));
        Ok(wanted.into_iter().collect())
    }

    /// The contents to be taken out of the bundle, and those that are only here and come to another path, with their lengths.
    /// Each that is wanted is here or there.
    fn needed(&self, copy: &WorkingCopy, wanted: &[State]) -> Result<(Lengths, Lengths), ClientError> {
        let (mut needed, mut moved) = (Lengths::new(), Lengths::new());
        for (path, node) in wanted {
            let Some((hash, length)) = content_of(node.as_ref()) else { continue };
            if copy.node(path)?.is_some_and(|here| Some(here.content()) == node.as_ref().map(Node::content)) {
                continue;
            }
            if !self.is_missing(node.as_ref()) {
                needed.insert(hash, length);
            } else if copy.blob_source(&hash)?.is_some() {
                moved.insert(hash, length);
            } else {
                return Err(self.without_content(path));
            }
        }
        Ok((needed, moved))
    }
}

/// A file's content and its length.
fn content_of(node: Option<&Node>) -> Option<(Hash, u64)> {
    match node {
        Some(Node::File { hash, length, .. }) => Some((*hash, *length)),
        _ => None,
    }
}

/// A full disk is told before anything is changed. Contents are staged twice for a moment, a batch at a time; where that is too
/// much for what is left, applying stops between two batches and goes on when it is called again.
fn check_room(folder: &Path, lengths: impl Iterator<Item = u64>) -> Result<(), ClientError> {
    let existing = folder.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("."));
    let (mut needed, mut largest) = (0u64, 0u64);
    for length in lengths {
        needed = needed.saturating_add(length).saturating_add(BLOCK);
        largest = largest.max(length);
    }
    let system = rustix::fs::statvfs(existing).map_err(ClientError::io("asking for free space"))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if needed.saturating_add(largest) > free {
        let what = format!("taking {needed} bytes out of the bundle with {free} free (nothing was changed)");
        return Err(ClientError::io(what)(io::Error::from(ErrorKind::StorageFull)));
    }
    Ok(())
}

/// Takes states and contents out of a bundle.
struct Taking<'a> {
    bundle: &'a Bundle,
    copy: &'a WorkingCopy,
    memory: Memory,
    /// Locked, so that no other process takes what is in it for a leftover.
    staging: Staging,
    /// Copies of contents that a later batch needs and an earlier one may take away.
    held: BTreeMap<Hash, TempPath>,
}

impl<'a> Taking<'a> {
    fn new(bundle: &'a Bundle, copy: &'a WorkingCopy) -> Result<Taking<'a>, ClientError> {
        let (memory, staging) = (Memory::open(&copy.own_folder()), Staging::new(&copy.shared)?);
        Ok(Taking { bundle, copy, memory, staging, held: BTreeMap::new() })
    }

    fn new_file(&self) -> Result<NamedTempFile, ClientError> {
        let made = NamedTempFile::new_in(self.staging.path());
        made.map_err(ClientError::io("taking a content out of the bundle"))
    }

    /// Copies contents of the working copy that come to another path.
    fn hold(&mut self, contents: &Lengths) -> Result<(), ClientError> {
        for hash in contents.keys() {
            let Some(content) = self.copy.blob_source(hash)? else { continue };
            let mut file = self.new_file()?;
            let copied = copy_checked(content.as_ref(), hash, file.as_file_mut());
            copied.map_err(ClientError::io("copying a file that is renamed"))?;
            self.held.insert(*hash, file.into_temp_path());
        }
        Ok(())
    }

    /// Applies a batch; gives how many paths became another, and adds those that were left alone to `left`.
    fn apply(&self, batch: Vec<State>, arrived: &mut Arrived, left: &mut Vec<State>) -> Result<u64, ClientError> {
        if batch.is_empty() {
            return Ok(0);
        }
        let mut files: BTreeMap<Hash, TempPath> = BTreeMap::new();
        let mut changes = Vec::new();
        for (path, node) in &batch {
            let content = match node {
                Some(Node::File { hash, length, .. }) => self.content(hash, *length, &mut files)?,
                _ => None,
            };
            changes.push(RemoteChange { path: path.clone(), node: node.clone(), content });
        }
        let skipped = self.copy.apply_remote(changes)?;
        if let Some(skip) = skipped.iter().find(|skip| skip.content_missing) {
            return Err(ClientError::Changed { path: skip.path.to_string() });
        }
        let mut changed = 0;
        for (path, node) in batch {
            if self.copy.node(&path)? == node {
                changed += 1;
                arrived.note(&path, node.is_some());
            } else {
                left.push((path, node));
            }
        }
        Ok(changed)
    }

    /// A content of the bundle, taken out once a batch; `None`: it is only in the working copy.
    fn content(
        &self,
        hash: &Hash,
        length: u64,
        files: &mut BTreeMap<Hash, TempPath>,
    ) -> Result<Option<Arc<dyn FileContent>>, ClientError> {
        if self.copy.has_content(hash)? && self.copy.blob_source(hash)?.is_some() {
            return Ok(None);
        }
        if !self.held.contains_key(hash) && !files.contains_key(hash) {
            let Some(file) = self.take_out(hash)? else { return Ok(None) };
            files.insert(*hash, file);
        }
        let Some(file) = self.held.get(hash).or_else(|| files.get(hash)) else { return Ok(None) };
        let file = File::open(file).map_err(ClientError::io("reading what was taken out of a bundle"))?;
        Ok(Some(Arc::new(KeptContent { file, length, hash: *hash, path: "bundle".to_owned() })))
    }

    /// Writes a content into a file of its own, checked, and keeps its signature: what is edited later travels as the
    /// difference to it.
    fn take_out(&self, hash: &Hash) -> Result<Option<TempPath>, ClientError> {
        let Some(mut content) = self.bundle.content(hash)? else { return Ok(None) };
        let failed = || ClientError::io("taking a content out of the bundle");
        let mut file = self.new_file()?;
        let (mut hasher, mut signer, mut buffer) = (Hasher::new(), Signer::default(), vec![0; 128 << 10]);
        loop {
            let count = content.read(&mut buffer).map_err(failed())?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            signer.update(&buffer[..count]);
            file.write_all(&buffer[..count]).map_err(failed())?;
        }
        if hasher.finish() != *hash {
            let detail = format!("the content {} is another than when it was checked", hash.short());
            return Err(ClientError::Bundle { file: self.bundle.path.clone(), detail });
        }
        let signature = signer.finish();
        if signature.length() >= crate::sync::SIGNED_FROM {
            self.memory.keep_signature(hash, &signature);
        }
        Ok(Some(file.into_temp_path()))
    }
}
