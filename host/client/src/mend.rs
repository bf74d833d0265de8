//! Entries whose bytes went before they were shipped.
//!
//! A value entry names states of files that are read where they stand. Once such a file is changed or removed, the bytes
//! of its first state are nowhere. Nobody but value entries knew that state: where an operation uses a path, its bytes
//! were kept ([`crate::capture`]). So the entry takes the path's next state, and the later entry drops the path.
//!
//! The outputs of an operation are made again by the server. Where it asks for them, and one was written over here in the
//! meantime, the operation becomes a value entry under its number, and the same is done.

use crate::db::log::{self, rewrite_value};
use crate::db::{index, keep, waits};
use crate::log::{EntryState, LogEntry};
use crate::source::content_of;
use crate::staging::Staging;
use crate::steady::steady;
use crate::values::{self, one_after_other};
use crate::working_copy::Shared;
use crate::{ClientError, WorkingCopy};
use opship_record::answer::Reason;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::BodyKind;
use opship_record::node::Kind;
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What [`WorkingCopy::mend_values`] could not mend.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Entries that still lack a content: those that the server may hold as they are, and those with a file that cannot be
    /// read now.
    pub lacking: Vec<u64>,
    /// Entries of files that cannot be read as they are long enough to be shipped, and of nothing else.
    pub apart: Vec<u64>,
}

impl WorkingCopy {
    /// Finds changed files, then gives unended value entries whose contents are not at hand any more the next states of
    /// those paths, and likewise the operations `asked`, whose outputs the server wants by value. Of files that changed
    /// while they were sent, which `asked` names by their entries, copies are kept from now on; those that do not even stand
    /// still for a copy are set apart, so that their entries need not wait for them.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn mend_values(&self, asked: &BTreeMap<u64, Option<TreePath>>) -> Result<Mended, ClientError> {
        let staging = Arc::new(Staging::new(&self.shared)?);
        let _lock = self.lock()?;
        self.append_found()?;
        let pending = log::in_state(&self.shared.db.read(), EntryState::Pending)?;
        let mut at_hand = BTreeSet::new();
        let mut result = Mended::default();
        for entry in pending {
            let mended = match entry.kind {
                BodyKind::Value => {
                    let mended = mend(&self.shared, entry.number, &mut at_hand)?;
                    let mut restless = BTreeSet::new();
                    if !mended {
                        restless.extend(gone(&self.shared, entry.number, &mut at_hand)?);
                    }
                    restless.extend(asked.get(&entry.number).cloned().flatten());
                    let apart = steady(&self.shared, &staging, entry.number, restless)?;
                    result.apart.extend(apart);
                    mended
                        || apart.is_some_and(|apart| apart != entry.number)
                        || gone(&self.shared, entry.number, &mut at_hand)?.is_empty()
                }
                BodyKind::Operation if asked.contains_key(&entry.number) => become_value(&self.shared, &entry, None)?,
                BodyKind::Operation => true,
            };
            if !mended {
                result.lacking.push(entry.number);
            }
        }
        Ok(result)
    }

    /// Makes a value entry of an operation that was never sent and whose results are all here. `false`: it stays as it was.
    pub(crate) fn ship_results(&self, entry: &LogEntry, reason: Reason) -> Result<bool, ClientError> {
        let _lock = self.lock()?;
        let entry = log::get(&self.shared.db.read(), entry.number)?;
        let is_open = entry.kind == BodyKind::Operation && entry.state == EntryState::Pending && !entry.is_parked();
        Ok(is_open && become_value(&self.shared, &entry, Some(reason))?)
    }
}

/// `false`: the entry still lacks a content.
fn mend(shared: &Shared, number: u64, at_hand: &mut BTreeSet<Hash>) -> Result<bool, ClientError> {
    loop {
        let gone = gone(shared, number, at_hand)?;
        if gone.is_empty() {
            return Ok(true);
        }
        let taken = shared.db.write(|db| {
            let mut taken = false;
            for path in &gone {
                taken |= take_next_state(db, number, path)?;
            }
            Ok::<_, ClientError>(taken)
        })?;
        if !taken {
            return Ok(false);
        }
    }
}

/// Makes a value entry of an operation that the server wants by value and whose outputs were written over, if each of
/// them may take its next state. `false`: all stays as it was.
fn become_value(shared: &Shared, entry: &LogEntry, reason: Option<Reason>) -> Result<bool, ClientError> {
    if entry.sent {
        return Ok(false);
    }
    let changes = log::lists(&shared.db.read(), entry.number)?.changes;
    let mut lost = Vec::new();
    for change in &changes {
        // From here on nobody makes its outputs, so each must be here.
        if let Some((_, hash)) = change.after.blob()
            && !is_with_server(shared, &hash)?
            && content_of(shared, &hash)?.is_none()
        {
            lost.push(&change.path);
        }
    }
    let result = shared.db.write(|db| {
        rewrite_value(db, entry.number, &changes, &entry.command, values::value_bytes(&changes), reason)?;
        for path in lost {
            if !take_next_state(db, entry.number, path)? {
                return Err(ClientError::Changed { path: path.to_string() });
            }
        }
        Ok(())
    });
    match result {
        Ok(()) => mend(shared, entry.number, &mut BTreeSet::new()),
        Err(ClientError::Changed { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The paths of an entry whose contents are nowhere.
fn gone(shared: &Shared, number: u64, at_hand: &mut BTreeSet<Hash>) -> Result<Vec<TreePath>, ClientError> {
    let mut gone = Vec::new();
    let changes = log::lists(&shared.db.read(), number)?.changes;
    for change in changes {
        let Some((_, hash)) = change.after.blob().filter(|(_, hash)| !at_hand.contains(hash)) else { continue };
        if waits::is_produced(&shared.db.read(), &hash, number)? {
            continue;
        }
        if is_at_hand(shared, &hash)? {
            at_hand.insert(hash);
        } else {
            gone.push(change.path);
        }
    }
    Ok(gone)
}

/// Is a content here or with the server?
fn is_at_hand(shared: &Shared, hash: &Hash) -> Result<bool, ClientError> {
    Ok(is_with_server(shared, hash)? || content_of(shared, hash)?.is_some())
}

fn is_with_server(shared: &Shared, hash: &Hash) -> Result<bool, ClientError> {
    Ok(index::path_of_hash(&shared.db.read(), hash)?.iter().any(|(_, row)| row.synced))
}

/// Moves the next later change of a path into an entry that names the path. `false` if there is none, or if somebody
/// depends on the state between the two: an operation, or the server, which may hold one of both as it is.
fn take_next_state(db: &Connection, number: u64, path: &TreePath) -> Result<bool, ClientError> {
    let Some(later) = waits::next_writer(db, path, number)? else { return Ok(false) };
    let (entry, next) = (log::get(db, number)?, log::get(db, later)?);
    let may_change =
        |entry: &LogEntry| entry.kind == BodyKind::Value && entry.state == EntryState::Pending && !entry.sent;
    if !may_change(&entry) || !may_change(&next) || entry.client != next.client {
        return Ok(false);
    }
    let (mut earlier, mut rest) = (log::lists(db, number)?.changes, log::lists(db, later)?.changes);
    let at = |changes: &[Change]| changes.binary_search_by(|change| change.path.cmp(path)).ok();
    let (Some(mine), Some(theirs)) = (at(&earlier), at(&rest)) else { return Ok(false) };
    let second = rest.remove(theirs);
    if waits::operation_between(db, std::slice::from_ref(&second), number, later)? {
        return Ok(false);
    }
    let merged = one_after_other(&earlier[mine], &second);
    match (&merged.before, &merged.after) {
        (Before::Absent { .. }, After::Removed) => drop(earlier.remove(mine)),
        _ => earlier[mine] = merged,
    }
    if matches!(second.after, After::Directory { .. }) {
        stand_below(&mut rest, path);
    }
    rewrite(db, number, &earlier)?;
    rewrite(db, later, &rest)?;
    waits::wait_for_earlier_too(db, number, later)?;
    index::move_origin(db, path, later, number)?;
    if let Some((_, hash)) = second.after.blob() {
        keep::share(db, &hash, later, number)?;
    }
    Ok(true)
}

/// What a list makes below a path that is a directory before it now, and was a file.
fn stand_below(changes: &mut [Change], directory: &TreePath) {
    for change in changes {
        if let Before::Absent { missing, above } = &mut change.before
            && missing.parent().as_ref() == Some(directory)
        {
            *above = Kind::Directory;
        }
    }
}

/// An entry that is left empty stays, since numbers have no gaps: the server takes it and makes no version.
pub(crate) fn rewrite(db: &Connection, number: u64, changes: &[Change]) -> Result<(), ClientError> {
    let reason = log::get(db, number)?.reason_of_value()?;
    rewrite_value(db, number, changes, &values::summary(changes), values::value_bytes(changes), reason)
}
