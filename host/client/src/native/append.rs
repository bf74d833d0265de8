//! The operation of a native run goes into the log.

use super::compare::Done;
use super::record::NotRecorded;
use super::source::{NativeTree, Seen};
use crate::capture::{Captured, keep_copy, note_kept};
use crate::check::touched;
use crate::db::index::{self, Row};
use crate::db::log::{self, NewEntry};
use crate::db::{native, waits};
use crate::identity::Identity;
use crate::log::EntryState;
use crate::stage::copy_checked;
use crate::staging::{KEPT, Staging};
use crate::values::{self, States, with_all_below};
use crate::working_copy::Shared;
use crate::{ClientError, WorkingCopy};
use opship_engine::failpoint;
use opship_record::answer::Reason;
use opship_record::entry::Body;
use opship_record::node::Node;
use opship_record::record::{Lists, Record};
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be appended.
pub(super) struct Operation<'a> {
    pub record: Record,
    pub lists: Lists,
    pub done: &'a Done,
    pub command: &'a str,
    /// How long the module's run took.
    pub micros: u64,
    /// What the module's contents lack to be the program's.
    pub residual: Option<Vec<u8>>,
}

impl WorkingCopy {
    /// Appends what a native run did, with what no entry had before it, in one transaction; gives the entry's number.
    pub(super) fn append_native(
        &self,
        operation: &Operation<'_>,
        tree: &NativeTree,
        staging: &Staging,
    ) -> Result<u64, NotRecorded> {
        let _lock = self.lock()?;
        let shown = tree.shown();
        check(&self.shared, &shown, tree, operation.done)?;
        let captured = capture(&self.shared, &shown, tree, &operation.lists, staging)?;
        failpoint::hit("native-captured");
        let body = Body::Operation(operation.record.clone());
        let number = self.shared.db.write(|db| {
            let value = values::append(db, &captured.states)?;
            let new = NewEntry {
                body: &body,
                lists: &operation.lists,
                command: operation.command,
                value_bytes: values::value_bytes(&operation.lists.changes),
                state: EntryState::Pending,
                run_micros: Some(operation.micros),
            };
            let number = log::append(db, &Identity::client(db)?, &new)?;
            note_kept(db, &captured, value, number)?;
            update_index(db, &operation.done.states, number)?;
            if let Some(residual) = &operation.residual {
                native::keep_residual(db, number, residual)?;
            }
            Ok::<_, ClientError>(number)
        })?;
        failpoint::hit("native-appended");
        Ok(number)
    }
}

/// Is the log still as the module's run saw it, and the folder as it was compared? The caller has the lock.
fn check(shared: &Shared, shown: &BTreeMap<TreePath, Seen>, tree: &NativeTree, done: &Done) -> Result<(), NotRecorded> {
    let changed = |path: &TreePath| {
        NotRecorded::because(
            Reason::InputsChanged,
            format!("'{path}' was changed by another while the run was recorded"),
        )
    };
    for (path, seen) in shown {
        let now = if path.is_root() { None } else { index::get(&shared.db.read(), path).map_err(ClientError::from)? };
        if now.map(|row| row.node) != seen.row.as_ref().map(|row| row.node.clone()) {
            return Err(changed(path));
        }
    }
    for (path, names) in tree.listed() {
        let now = index::children(&shared.db.read(), &path).map_err(ClientError::from)?;
        if now.into_iter().map(|(child, _)| child).collect::<BTreeSet<_>>() != names {
            return Err(changed(&path));
        }
    }
    for (path, state) in &done.states {
        let now = shared.root.stat(path.as_str()).map_err(ClientError::io(format!("looking at '{path}'")))?;
        let same = match (&state.node, now) {
            (None, None) => true,
            (Some(node), Some(now)) if now.kind == Some(node.kind()) => {
                state.signature.is_none_or(|signature| signature == now.signature)
            }
            _ => false,
        };
        if !same {
            return Err(changed(path));
        }
    }
    Ok(())
}

/// What the record depends on and no entry has, or only a value has whose bytes may go, is kept, durably.
fn capture(
    shared: &Shared,
    shown: &BTreeMap<TreePath, Seen>,
    tree: &NativeTree,
    lists: &Lists,
    staging: &Staging,
) -> Result<Captured, NotRecorded> {
    let mut captured = Captured::default();
    let touched = touched(lists);
    let changed: BTreeSet<&TreePath> = lists.changes.iter().map(|change| &change.path).collect();
    for (path, seen) in shown {
        if let Some(Node::File { hash, .. }) = &seen.node
            && needs_keeping(shared, seen, hash, changed.contains(path))?
        {
            match keep(shared, tree, path, hash, staging) {
                Ok(()) => drop(captured.kept.insert(*hash)),
                Err(error) if touched.contains(path) => {
                    return Err(NotRecorded::because(Reason::InputsChanged, error.to_string()));
                }
                // Only looked past on the way to another: it stays a change of the folder.
                Err(_) => continue,
            }
        }
        if let Some(state) = &seen.pending {
            captured.states.insert(path.clone(), state.clone());
        }
    }
    if !captured.kept.is_empty() {
        shared.root.sync_directory(KEPT).map_err(ClientError::io("keeping copies in '.opship/kept'"))?;
    }
    with_all_below(&shared.db.read(), &mut captured.states)?;
    Ok(captured)
}

/// Has no other entry, and not the server, the bytes for sure? Those of a value are read where they stand; those that an
/// operation made may never be made again, and the program has replaced what it has `changed`.
fn needs_keeping(shared: &Shared, seen: &Seen, hash: &Hash, changed: bool) -> Result<bool, ClientError> {
    Ok(match (&seen.pending, &seen.row) {
        (Some(_), _) => true,
        (None, Some(row)) if !row.synced => changed || !waits::is_produced(&shared.db.read(), hash, row.entry + 1)?,
        _ => false,
    })
}

fn keep(
    shared: &Shared,
    tree: &NativeTree,
    path: &TreePath,
    hash: &Hash,
    staging: &Staging,
) -> Result<(), ClientError> {
    let content = tree.content(path)?;
    let failed = || ClientError::io(format!("keeping a copy of '{path}'"));
    let (mut file, copy) = staging.new_file().map_err(failed())?;
    copy_checked(content.as_ref(), hash, &mut file).map_err(failed())?;
    keep_copy(shared, hash, &copy)
}

/// The index becomes the tree after the program.
fn update_index(db: &Connection, states: &States, entry: u64) -> Result<(), ClientError> {
    for (path, state) in states {
        match &state.node {
            None => index::remove(db, path)?,
            Some(node) => {
                let row =
                    Row { node: node.clone(), signature: state.signature, racy: state.racy, synced: false, entry };
                index::put(db, path, &row)?;
            }
        }
    }
    Ok(())
}
