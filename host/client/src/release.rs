//! Dropping what was kept for an entry, once its verdict allows that.

use crate::conflict::move_beside;
use crate::db::keep::{self, Displaced};
use crate::db::{log, waits};
use crate::exchange::hash_at;
use crate::fs::{Found, is_absent};
use crate::staging::{Staging, kept_path};
use crate::working_copy::Shared;
use crate::{ClientError, EntryState, WorkingCopy};
use opship_record::effect::{After, Change};
use opship_record::node::Kind;
use opship_record::{Hash, TreePath};

impl WorkingCopy {
    /// Drops what is kept for an ended entry: copies of what it read, and the files that it displaced. A displaced file
    /// that was written to since becomes a conflict copy; its paths are given back. One that a program has open for
    /// writing stays until a later release.
    ///
    /// Call it after `matched`, `repaired` or `shipped`; after `conflicted` and `rebased` when the author's bytes are
    /// placed where they belong; after `rejected` when the user has said so.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the entry has not ended, [`ClientError::Io`], [`ClientError::Database`].
    pub fn release(&self, number: u64) -> Result<Vec<TreePath>, ClientError> {
        let _lock = self.lock()?;
        if log::get(&self.shared.db.read(), number)?.state != EntryState::Ended {
            return Err(ClientError::Refused(format!("entry {number} has no verdict yet; run 'opship sync' first")));
        }
        let copies = release_displaced(&self.shared, number)?;
        let unkept = self.shared.db.write(|db| {
            log::mark_released(db, number)?;
            keep::unkeep(db, number)
        })?;
        for hash in unkept {
            self.shared.root.unlink(&kept_path(&hash)).map_err(ClientError::io("dropping a kept copy"))?;
        }
        Staging::sweep(&self.shared)?;
        Ok(copies)
    }

    /// Looks again at the displaced files that earlier releases and pulls left, because somebody had them open.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn release_left(&self) -> Result<Vec<TreePath>, ClientError> {
        let _lock = self.lock()?;
        let entries = keep::released_with_displaced(&self.shared.db.read())?;
        let mut copies = Vec::new();
        for entry in entries {
            copies.extend(release_displaced(&self.shared, entry)?);
        }
        Staging::sweep(&self.shared)?;
        Ok(copies)
    }
}

/// Drops the displaced files of an entry, or of pulls (0). The caller has the lock.
pub(crate) fn release_displaced(shared: &Shared, entry: u64) -> Result<Vec<TreePath>, ClientError> {
    release_displaced_if(shared, entry, &|_| true)
}

/// As [`release_displaced`], of those alone that may go.
pub(crate) fn release_displaced_if(
    shared: &Shared,
    entry: u64,
    may_go: &dyn Fn(&Displaced) -> bool,
) -> Result<Vec<TreePath>, ClientError> {
    let mut copies = Vec::new();
    let all = keep::displaced_of(&shared.db.read(), entry)?;
    for displaced in all.into_iter().filter(may_go) {
        if let Some(maker) = unended_maker(shared, &displaced)? {
            keep::give_displaced(&shared.db.read(), &displaced.file, maker)?;
            continue;
        }
        match drop_displaced(shared, &displaced)? {
            Dropped::Stays => continue,
            Dropped::Gone => {}
            Dropped::Copied(path) => copies.push(path),
        }
        keep::remove_displaced(&shared.db.read(), &displaced.file)?;
    }
    Ok(copies)
}

/// The earlier entry that made what was displaced, or moved it there, and has not ended: its bytes are nowhere else. What
/// replaced them may end before, as a value does that needs not wait for a parked operation, or one that was dropped.
fn unended_maker(shared: &Shared, displaced: &Displaced) -> Result<Option<u64>, ClientError> {
    let db = shared.db.read();
    for number in waits::writers(&db, &displaced.path)?.into_iter().filter(|number| *number < displaced.entry) {
        let makes = |change: &Change| change.path == displaced.path && is_made(&change.after, displaced.hash.as_ref());
        if log::get(&db, number)?.state != EntryState::Ended && log::lists(&db, number)?.changes.iter().any(makes) {
            return Ok(Some(number));
        }
    }
    Ok(waits::mover(&db, &displaced.path, displaced.entry)?)
}

fn is_made(after: &After, hash: Option<&Hash>) -> bool {
    match after {
        After::File { hash: made, .. } => Some(made) == hash,
        After::Symlink { target, .. } => hash == Some(&Hash::of(target)),
        _ => false,
    }
}

/// Drops all displaced files, before `.opship` goes with them. The caller has the lock.
pub(crate) fn release_all_displaced(shared: &Shared) -> Result<(), ClientError> {
    let entries = keep::entries_with_displaced(&shared.db.read())?;
    for entry in entries {
        release_displaced(shared, entry)?;
        if let Some(open) = keep::displaced_of(&shared.db.read(), entry)?.first() {
            return Err(ClientError::Refused(format!(
                "a program still writes to what '{}' was before an operation; end it, then leave",
                open.path
            )));
        }
    }
    Ok(())
}

enum Dropped {
    Gone,
    Stays,
    Copied(TreePath),
}

fn drop_displaced(shared: &Shared, displaced: &Displaced) -> Result<Dropped, ClientError> {
    let failed = || ClientError::io(format!("dropping what '{}' was before", displaced.path));
    let Some(found) = shared.root.stat(&displaced.file).map_err(failed())? else { return Ok(Dropped::Gone) };
    // First who has it open, then what it holds: nobody can open it any more, so nothing changes in between.
    let open = found.kind == Some(Kind::File) && is_open(shared, &displaced.file);
    // Without a hash it is not known to be anything that the log has.
    let same = displaced.hash.is_some()
        && ((found.signature == displaced.signature && !displaced.racy)
            || hash_of_ours(shared, displaced, &found) == Some(displaced.hash));
    if !same {
        return move_beside(shared, &displaced.file, &displaced.path).map(Dropped::Copied);
    }
    if open {
        return Ok(Dropped::Stays);
    }
    shared.root.unlink(&displaced.file).map_err(failed())?;
    Ok(Dropped::Gone)
}

/// The hash of what was displaced. Its owner may have had no right to read it; it is ours now. `None`: it cannot be read all
/// the same, so that nobody can say whether it is as it was.
fn hash_of_ours(shared: &Shared, displaced: &Displaced, found: &Found) -> Option<Option<Hash>> {
    if found.kind == Some(Kind::File) && found.mode & 0o400 == 0 {
        // What does not succeed shows below.
        let _ = shared.root.set_mode(&displaced.file, found.mode | 0o400);
    }
    let read = hash_at(shared, &displaced.file, found);
    read.inspect_err(|error| tracing::debug!(path = %displaced.path, %error, "cannot be read; kept beside")).ok()
}

fn is_open(shared: &Shared, file: &str) -> bool {
    match shared.root.open_file(file).and_then(|file| opship_sys::is_open_for_writing(&file)) {
        Ok(open) => open,
        Err(error) => {
            // A file system without leases, or another user's file: only the comparison can tell.
            tracing::debug!(file, %error, absent = is_absent(&error), "cannot tell who has it open");
            false
        }
    }
}
