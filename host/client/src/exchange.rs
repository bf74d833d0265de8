//! Carrying out an intent: exchanges each path in place, then appends. Doing it again after a crash finishes it.

use crate::ClientError;
use crate::conflict::move_beside;
use crate::db::index::{self, Row};
use crate::db::intent::{self, Intent};
use crate::db::{keep, log, remote};
use crate::fs::{Found, is_absent, is_racy, now_nanos};
use crate::log::{Deferred, EntryState};
use crate::source::hash_file;
use crate::stage::SYNC_ALL_FROM;
use crate::steps::Expected;
pub(crate) use crate::steps::Step;
use crate::working_copy::Shared;
use keep::Displaced;
use opship_engine::failpoint;
use opship_record::effect::{After, Change, Origins};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind, Node};
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Where tests end the process: behind each of the first steps.
const POINTS: [&str; 10] = [
    "exchange-0",
    "exchange-1",
    "exchange-2",
    "exchange-3",
    "exchange-4",
    "exchange-5",
    "exchange-6",
    "exchange-7",
    "exchange-8",
    "exchange-9",
];

/// Carries out a durable intent and appends. The caller has the lock.
pub(crate) fn finish(shared: &Shared, id: u64, intent: &Intent) -> Result<(), ClientError> {
    let mut work = Work { shared, intent, displaced: Vec::new(), folders: BTreeSet::new(), made: TreePath::root() };
    let mut refused = BTreeMap::new();
    for (index, step) in intent.steps.iter().enumerate() {
        match work.step(step) {
            // The file system will refuse this path for ever. What it holds is left as it is, and the next scan tells
            // that it is not as the entry says; the other paths go on.
            Err(ClientError::Io { what, error }) if is_refusal(&error) => {
                tracing::debug!(%error, "{what} is not possible; the file stays as it is");
                refused.extend(path_of(step).map(|path| (path, error.to_string())));
            }
            other => other?,
        }
        POINTS.get(index).into_iter().for_each(|name| failpoint::hit(name));
    }
    work.sync()?;
    failpoint::hit("exchanged");
    let staged = intent.steps.iter().filter_map(|step| match step {
        Step::Put { path, inode, .. } => Some((path.clone(), *inode)),
        _ => None,
    });
    let staged: BTreeMap<TreePath, u64> = staged.collect();
    shared.db.write(|db| {
        if intent.entry == 0 {
            // What a pull could not place is not here: the index must not say so, or the next scan would ship the old state
            // as a change of the new one.
            defer_refused(db, intent, &refused)?;
            let mut placed = intent.clone();
            placed.changes.retain(|change| !refused.contains_key(&change.path));
            update_index(db, shared, &placed, &staged)?;
        } else {
            update_index(db, shared, intent, &staged)?;
        }
        work.displaced.iter().try_for_each(|displaced| keep::add_displaced(db, displaced))?;
        if intent.entry != 0 {
            log::set_state(db, intent.entry, EntryState::Pending)?;
        }
        intent::remove(db, id)?;
        Ok::<_, ClientError>(())
    })?;
    failpoint::hit("appended");
    Ok(())
}

/// The path that a step brings to its state after.
fn path_of(step: &Step) -> Option<TreePath> {
    match step {
        Step::Remove { path, .. }
        | Step::Directory { path }
        | Step::Unhold { path, .. }
        | Step::Put { path, .. }
        | Step::Metadata { path, .. } => Some(path.clone()),
        Step::Hold { to, .. } => Some(to.clone()),
        Step::RemoveDirectory { at } => TreePath::new(at.clone()).ok(),
    }
}

/// Remembers the server's states of paths that a pull could not place.
fn defer_refused(db: &Connection, intent: &Intent, refused: &BTreeMap<TreePath, String>) -> Result<(), ClientError> {
    for change in intent.changes.iter().filter(|change| refused.contains_key(&change.path)) {
        let row = index::get(db, &change.path)?.map(|row| row.node);
        let Some(reason) = refused.get(&change.path) else { continue };
        let reason = format!("it cannot be written ({reason}); allow it, then run 'opship sync' again");
        remote::defer(db, &Deferred { path: change.path.clone(), node: state_after(change, row), reason })?;
    }
    Ok(())
}

/// The server's state of a path in a pull's change; `row`: what the index holds.
fn state_after(change: &Change, row: Option<Node>) -> Option<Node> {
    match (&change.after, row) {
        (After::Removed | After::Moved { .. }, _) => None,
        (After::File { length, hash, mode, mtime }, _) => {
            Some(Node::File { mode: mode.unwrap_or(DEFAULT_FILE_MODE), mtime: *mtime, length: *length, hash: *hash })
        }
        (After::Directory { mode }, _) => Some(Node::Directory { mode: mode.unwrap_or(DEFAULT_DIRECTORY_MODE) }),
        (After::Symlink { target, mtime }, _) => Some(Node::Symlink { mtime: *mtime, target: target.clone() }),
        (After::Metadata { mode: new_mode, mtime: new_mtime, .. }, row) => row.map(|mut node| {
            match &mut node {
                Node::File { mode, mtime, .. } => {
                    (*mode, *mtime) = (new_mode.unwrap_or(*mode), new_mtime.unwrap_or(*mtime));
                }
                Node::Directory { mode } => *mode = new_mode.unwrap_or(*mode),
                Node::Symlink { mtime, .. } => *mtime = new_mtime.unwrap_or(*mtime),
            }
            node
        }),
    }
}

struct Work<'a> {
    shared: &'a Shared,
    intent: &'a Intent,
    displaced: Vec<Displaced>,
    folders: BTreeSet<String>,
    /// A directory that this exchange has found or made: the last, since many files go into one after the other.
    made: TreePath,
}

impl Work<'_> {
    fn step(&mut self, step: &Step) -> Result<(), ClientError> {
        let root = &self.shared.root;
        match step {
            Step::Hold { from, slot, inode, to } => {
                let done = self.inode(slot)?.is_some() || self.inode(to.as_str())? == Some(*inode);
                if !done && self.inode(from)? == Some(*inode) {
                    root.rename(from, slot).map_err(failed(to))?;
                    self.touched(from);
                }
            }
            Step::Remove { at, path, slot, expected } => self.remove(at, path, slot, expected)?,
            Step::RemoveDirectory { at } => match root.remove_directory(at) {
                Ok(()) => self.touched(at),
                // It holds what the world did not show, or is none any more: it stays, outside the version.
                Err(error) => tracing::debug!(at, %error, "a folder stays"),
            },
            Step::Directory { path } => {
                self.make_directories(path)?;
            }
            Step::Unhold { slot, path } => {
                if self.inode(slot)?.is_some() {
                    self.make_parents(path)?;
                    self.clear(path, slot)?;
                    root.rename(slot, path.as_str()).map_err(failed(path))?;
                    self.touched(path.as_str());
                }
            }
            Step::Put { slot, path, inode, expected } => self.put(slot, path, *inode, expected.as_ref())?,
            Step::Metadata { path, mode, mtime } => self.metadata(path, *mode, *mtime)?,
        }
        Ok(())
    }

    /// Takes a file away. Whatever it is by now goes into the slot and is compared there, so that nothing is lost.
    fn remove(&mut self, at: &str, path: &TreePath, slot: &str, expected: &Expected) -> Result<(), ClientError> {
        if self.inode(slot)?.is_none() {
            match self.shared.root.rename(at, slot) {
                Ok(()) => self.touched(at),
                Err(error) if is_absent(&error) => return Ok(()),
                Err(error) => return Err(failed(path)(error)),
            }
        }
        self.compare(slot, path, Some(expected))
    }

    fn put(&mut self, slot: &str, path: &TreePath, inode: u64, expected: Option<&Expected>) -> Result<(), ClientError> {
        let root = &self.shared.root;
        // Most files are new, and go in at the first try. Whatever stands against that is looked at below.
        let is_new = expected.is_none() && path.parent().as_ref() == Some(&self.made);
        if is_new && self.inode(slot)? == Some(inode) && root.rename(slot, path.as_str()).is_ok() {
            self.touched(path.as_str());
            return Ok(());
        }
        if self.inode(path.as_str())? != Some(inode) && self.inode(slot)? == Some(inode) {
            self.make_parents(path)?;
            let first =
                if expected.is_some() { root.exchange(slot, path.as_str()) } else { root.rename(slot, path.as_str()) };
            match first {
                // Somebody made or removed the file since it was checked.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    root.exchange(slot, path.as_str()).map_err(failed(path))?;
                }
                Err(error) if is_absent(&error) => root.rename(slot, path.as_str()).map_err(failed(path))?,
                other => other.map_err(failed(path))?,
            }
            self.touched(path.as_str());
        }
        match self.inode(slot)? {
            Some(found) if found != inode => self.compare(slot, path, expected),
            _ => Ok(()),
        }
    }

    /// What stands in the place of a directory that is put in goes beside it.
    fn clear(&mut self, path: &TreePath, slot: &str) -> Result<(), ClientError> {
        let aside = format!("{slot}-was");
        self.finish_aside(&aside, path)?;
        if self.inode(path.as_str())?.is_none() || self.shared.root.remove_directory(path.as_str()).is_ok() {
            return Ok(());
        }
        self.set_aside(&aside, path)
    }

    /// What an exchange that was cut short had set aside goes beside its path.
    fn finish_aside(&self, aside: &str, path: &TreePath) -> Result<(), ClientError> {
        if self.inode(aside)?.is_some() {
            move_beside(self.shared, aside, path)?;
        }
        Ok(())
    }

    /// Moves what stands at a path out of the way and beside it. What cannot be put there goes back: nothing that is somebody's
    /// may stay in the staging folder, which is swept.
    fn set_aside(&self, aside: &str, path: &TreePath) -> Result<(), ClientError> {
        self.shared.root.rename(path.as_str(), aside).map_err(failed(path))?;
        failpoint::hit("exchange-aside");
        let moved = move_beside(self.shared, aside, path);
        if moved.is_err() && self.inode(aside)?.is_some() {
            self.shared.root.rename(aside, path.as_str()).map_err(failed(path))?;
        }
        moved.map(drop)
    }

    fn metadata(&mut self, path: &TreePath, mode: Option<u16>, mtime: Option<i64>) -> Result<(), ClientError> {
        let root = &self.shared.root;
        let set = || -> io::Result<()> {
            if let Some(mode) = mode {
                root.set_mode(path.as_str(), mode)?;
            }
            mtime.map_or(Ok(()), |mtime| root.set_mtime(path.as_str(), mtime))
        };
        match set() {
            // Gone, or another's, since it was checked: the next scan tells what it is.
            Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other.map_err(failed(path)),
        }
    }

    /// Makes a directory where it is missing; what else stands there goes beside it.
    fn make_directories(&mut self, path: &TreePath) -> Result<(), ClientError> {
        let found = self.shared.root.stat(path.as_str()).map_err(failed(path))?;
        if path.is_root() || found.is_some_and(|found| found.kind == Some(Kind::Directory)) {
            return Ok(());
        }
        self.make_parents(path)?;
        let aside = format!("{}/aside-{}", self.intent.folder, Hash::of(path.as_str().as_bytes()));
        self.finish_aside(&aside, path)?;
        if found.is_some() {
            self.set_aside(&aside, path)?;
        }
        self.shared.root.make_directory(path.as_str(), DEFAULT_DIRECTORY_MODE).map_err(failed(path))?;
        // The umask does not decide what the tree holds.
        self.shared.root.set_mode(path.as_str(), DEFAULT_DIRECTORY_MODE).map_err(failed(path))?;
        self.touched(path.as_str());
        Ok(())
    }

    fn make_parents(&mut self, path: &TreePath) -> Result<(), ClientError> {
        let parent = path.parent().unwrap_or_default();
        self.make_directories(&parent)?;
        self.made = parent;
        Ok(())
    }

    /// Is a displaced file what the run had seen? Other bytes become a conflict copy at once, and so does what cannot be read.
    fn compare(&mut self, slot: &str, path: &TreePath, expected: Option<&Expected>) -> Result<(), ClientError> {
        let taken = now_nanos();
        let Some(found) = self.shared.root.stat(slot).map_err(failed(path))? else { return Ok(()) };
        let same = match expected {
            None => false,
            Some(expected) if expected.is_proved_by(&found.signature) => true,
            Some(expected) => match hash_at(self.shared, slot, &found) {
                Err(error) if is_refusal(&error) => false,
                hash => hash.map_err(failed(path))? == Some(expected.hash),
            },
        };
        let mut displaced = Displaced {
            file: slot.to_owned(),
            entry: self.intent.entry,
            path: path.clone(),
            hash: expected.map(|expected| expected.hash),
            signature: found.signature,
            racy: is_racy(&found.signature, taken),
        };
        if !same {
            match move_beside(self.shared, slot, path) {
                // It cannot go beside now. As a displaced file of unknown content it does so when it is to be dropped.
                Err(ClientError::Io { error, .. }) if is_refusal(&error) => {
                    (displaced.hash, displaced.racy) = (None, true);
                }
                moved => return moved.map(drop),
            }
        }
        self.displaced.push(displaced);
        Ok(())
    }

    fn inode(&self, path: &str) -> Result<Option<u64>, ClientError> {
        let found = self.shared.root.stat(path).map_err(ClientError::io(format!("looking at '{path}'")))?;
        Ok(found.map(|found| found.signature.inode))
    }

    fn touched(&mut self, path: &str) {
        self.folders.insert(path.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default());
    }

    /// Makes all names durable.
    fn sync(&self) -> Result<(), ClientError> {
        if self.folders.len() >= SYNC_ALL_FROM {
            return self.shared.root.sync_all().map_err(ClientError::io("making the changes durable"));
        }
        for folder in &self.folders {
            match self.shared.root.sync_directory(folder) {
                // A folder that a later step removed, or one that may not be read; the latter's file system is synced.
                Err(error) if is_absent(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.shared.root.sync_all().map_err(ClientError::io("making the changes durable"))?;
                }
                other => other.map_err(ClientError::io(format!("making the folder '{folder}' durable")))?,
            }
        }
        Ok(())
    }
}

/// Would doing the same again have the same answer?
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, DirectoryNotEmpty, InvalidFilename, InvalidInput, PermissionDenied};
    matches!(error.kind(), CrossesDevices | DirectoryNotEmpty | InvalidFilename | InvalidInput | PermissionDenied)
}

/// Hash of a file's content or a link's target; `None` for anything else.
pub(crate) fn hash_at(shared: &Shared, path: &str, found: &Found) -> io::Result<Option<Hash>> {
    match found.kind {
        Some(Kind::File) => Ok(Some(hash_file(&shared.root.open_file(path)?)?.1)),
        Some(Kind::Symlink) => Ok(Some(Hash::of(&shared.root.read_link(path)?))),
        _ => Ok(None),
    }
}

fn failed<E: Into<io::Error>>(path: &TreePath) -> impl FnOnce(E) -> ClientError {
    ClientError::io(format!("putting '{path}' in its place"))
}

/// Brings the index to the tree after the changes.
fn update_index(
    db: &Connection,
    shared: &Shared,
    intent: &Intent,
    staged: &BTreeMap<TreePath, u64>,
) -> Result<(), ClientError> {
    let origins = Origins::new(&intent.changes);
    let mut moved: Vec<(TreePath, Row)> = Vec::new();
    let mut moves: Vec<(&TreePath, &TreePath)> = Vec::new();
    for change in &intent.changes {
        if let After::Moved { from, .. } = &change.after {
            moves.push((from, &change.path));
        }
    }
    // The deepest first, so that each row goes with the nearest directory that moves.
    moves.sort_by(|a, b| b.0.cmp(a.0));
    for (from, to) in moves {
        let own = index::get(db, from)?.map(|row| (from.clone(), row));
        for (path, row) in own.into_iter().chain(index::all_below(db, from)?) {
            let rest = path.strip_prefix(from).unwrap_or_default();
            moved.push((to.append(&rest).map_err(opship_record::Error::from)?, row));
            index::remove(db, &path)?;
        }
    }
    for change in intent.changes.iter().filter(|change| replaces(change)) {
        if origins.of(&change.path).as_ref() == Some(&change.path) {
            index::remove(db, &change.path)?;
        }
    }
    let own = |row: Row| Row { synced: intent.entry == 0, entry: intent.entry, ..row };
    for (path, row) in moved {
        index::put(db, &path, &own(row))?;
    }
    for change in &intent.changes {
        match node_after(db, change)? {
            None => index::remove(db, &change.path)?,
            Some(node) => {
                let (signature, racy) = signature_after(db, shared, change, staged)?;
                let row = Row { node, signature, racy, synced: false, entry: 0 };
                index::put(db, &change.path, &own(row))?;
            }
        }
    }
    Ok(())
}

fn replaces(change: &Change) -> bool {
    !matches!(change.after, After::Metadata { .. } | After::Directory { .. } | After::Moved { .. })
}

/// The node after a change, from the row as it is now.
fn node_after(db: &Connection, change: &Change) -> Result<Option<Node>, ClientError> {
    let row = index::get(db, &change.path)?.map(|row| row.node);
    let damaged = || ClientError::Refused(format!("'{}' is not in the index as the change needs it", change.path));
    let node = match &change.after {
        After::Removed => return Ok(None),
        After::File { length, hash, mode, mtime } => {
            // The row itself was taken out; a kept mode was resolved when the file was staged.
            Node::File { mode: mode.unwrap_or(DEFAULT_FILE_MODE), mtime: *mtime, length: *length, hash: *hash }
        }
        After::Symlink { target, mtime } => Node::Symlink { mtime: *mtime, target: target.clone() },
        After::Directory { mode } => {
            let kept = match row {
                Some(Node::Directory { mode }) => mode,
                _ => DEFAULT_DIRECTORY_MODE,
            };
            Node::Directory { mode: mode.unwrap_or(kept) }
        }
        After::Moved { mode, .. } => match row.ok_or_else(damaged)? {
            Node::Directory { mode: kept } => Node::Directory { mode: mode.unwrap_or(kept) },
            _ => return Err(damaged()),
        },
        After::Metadata { mode, mtime, .. } => match row.ok_or_else(damaged)? {
            Node::File { mode: m, mtime: t, length, hash } => {
                Node::File { mode: mode.unwrap_or(m), mtime: mtime.unwrap_or(t), length, hash }
            }
            Node::Directory { mode: m } => Node::Directory { mode: mode.unwrap_or(m) },
            Node::Symlink { mtime: t, target } => Node::Symlink { mtime: mtime.unwrap_or(t), target },
        },
    };
    Ok(Some(node))
}

/// The signature of what is at the path now, if it surely is what the change made of it.
fn signature_after(
    db: &Connection,
    shared: &Shared,
    change: &Change,
    staged: &BTreeMap<TreePath, u64>,
) -> Result<(Option<crate::fs::Signature>, bool), ClientError> {
    let taken = now_nanos();
    let Some(found) = shared.root.stat(change.path.as_str()).unwrap_or(None) else { return Ok((None, false)) };
    let s = found.signature;
    let sure = match &change.after {
        After::File { length, mtime, .. } => {
            staged.get(&change.path) == Some(&s.inode) && s.size == *length && s.mtime == *mtime
        }
        After::Metadata { kind: Kind::File, .. } => index::get(db, &change.path)?
            .and_then(|row| row.signature)
            .is_some_and(|known| (known.inode, known.size) == (s.inode, s.size)),
        _ => false,
    };
    Ok((sure.then_some(s), is_racy(&s, taken)))
}
