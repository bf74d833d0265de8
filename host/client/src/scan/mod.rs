//! Finding what was changed by other means than an operation.

mod folders;
mod local;
mod walk;

use crate::cut::{self, Limits};
use crate::db::{hashed, index};
use crate::fs::Signature;
use crate::left;
use crate::tree::RuleTrouble;
use crate::values::{self, States};
use crate::{ClientError, WorkingCopy};
use opship_record::effect::Change;
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Something in the folder that cannot be synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// Its path for people; names that are not UTF-8 are shown with replacement characters.
    pub path: String,
    /// Why, and so what to do.
    pub reason: String,
}

/// How the folder differs from the index.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The differences, sorted by path, with the index's states before.
    pub changes: Vec<Change>,
    /// What cannot be synced, sorted by path.
    pub unsupported: Vec<Unsupported>,
    /// What of the ignore rules does not count, sorted by path.
    pub rule_troubles: Vec<RuleTrouble>,
    pub(crate) states: States,
}

/// What a walk over the folder found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What may differ from the index.
    pub(crate) states: States,
    /// What cannot be synced, with the reason.
    pub(crate) unsupported: BTreeMap<String, String>,
    /// What of the ignore rules does not count.
    rule_troubles: Vec<RuleTrouble>,
    /// Hashes that were remembered from earlier scans.
    remembered: hashed::Hashed,
}

impl WorkingCopy {
    /// Compares the folder with the index: size, times and inode first, by hash when in doubt. A hash of a file is
    /// remembered, so that the file is read once.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn scan(&self) -> Result<Scan, ClientError> {
        let _lock = self.lock()?;
        let found = walk::walk(&self.shared)?;
        // What is as the index says is remembered by its new signature.
        self.shared.db.write(|db| {
            for (path, state) in &found.states {
                if let (Some(signature), Some(row)) = (&state.signature, index::get(db, path)?)
                    && Some(&row.node) == state.node.as_ref()
                {
                    index::refresh(db, path, signature, state.racy)?;
                }
            }
            Ok::<_, ClientError>(found.forget_stale(db)?)
        })?;
        self.compared(found)
    }

    /// Compares the folder with the index and makes value entries of the differences: of many more than one, so that what
    /// has arrived stays (at most 1,000 paths, 64 MiB or half a minute of the link each). Gives the number of the last;
    /// `None` if there are no differences. Differences that no other entry needs go into an unsent value entry that is there
    /// already.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn append_changes(&self) -> Result<(Scan, Option<u64>), ClientError> {
        self.wait_for_recordings()?;
        let _lock = self.lock()?;
        self.append_found()
    }

    /// As [`WorkingCopy::append_changes`]; the caller has the lock.
    pub(crate) fn append_found(&self) -> Result<(Scan, Option<u64>), ClientError> {
        let found = walk::walk(&self.shared)?;
        self.shared.db.write(|db| found.forget_stale(db))?;
        self.append_scan(self.compared(found)?)
    }

    /// As [`WorkingCopy::append_changes`], leaving alone what `takes` does not want: it stays a change of the folder.
    ///
    /// # Errors
    /// As [`WorkingCopy::append_changes`].
    pub(crate) fn append_changes_if(&self, takes: &mut Takes<'_>) -> Result<(), ClientError> {
        self.wait_for_recordings()?;
        let _lock = self.lock()?;
        let mut found = walk::walk(&self.shared)?;
        self.shared.db.write(|db| found.forget_stale(db))?;
        let mut wanted = States::new();
        for (path, state) in found.states {
            if takes(&path, state.node.as_ref())? {
                wanted.insert(path, state);
            }
        }
        found.states = wanted;
        self.append_scan(self.compared(found)?).map(drop)
    }

    fn append_scan(&self, mut scan: Scan) -> Result<(Scan, Option<u64>), ClientError> {
        let mut number = None;
        let limits = Limits::of(&self.shared.db.read())?;
        let (states, behind) = left::split(&self.shared.db.read(), std::mem::take(&mut scan.states), &scan.changes)?;
        let mut parts = cut::parts(states, &scan.changes, limits);
        if !behind.is_empty() {
            let is_behind = |change: &&Change| behind.contains_key(&change.path);
            let changes: Vec<Change> = scan.changes.iter().filter(is_behind).cloned().collect();
            parts.extend(cut::parts(behind, &changes, limits));
        }
        for part in parts {
            // Each part is durable by itself: a scan after a kill finds the rest.
            let appended = self.shared.db.write(|db| {
                let appended = values::append(db, &part)?;
                // From here on the index knows the hashes.
                part.keys().try_for_each(|path| hashed::forget(db, path))?;
                Ok::<_, ClientError>(appended)
            })?;
            number = appended.or(number);
        }
        Ok((scan, number))
    }

    fn compared(&self, mut found: Found) -> Result<Scan, ClientError> {
        self.leave_refused(&mut found)?;
        let changes = values::changes(&self.shared.db.read(), &found.states)?;
        let unsupported = found.unsupported.into_iter().map(|(path, reason)| Unsupported { path, reason }).collect();
        Ok(Scan { changes, unsupported, rule_troubles: found.rule_troubles, states: found.states })
    }
}

/// Is this state of a path wanted?
pub(crate) type Takes<'a> = dyn FnMut(&TreePath, Option<&Node>) -> Result<bool, ClientError> + 'a;

impl Found {
    /// Forgets hashes of files that are gone, or that the index knows by now.
    fn forget_stale(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut stale = self.remembered.keys().filter(|path| !self.states.contains_key(*path));
        stale.try_for_each(|path| hashed::forget(db, path))
    }
}

/// A hash that a scan made, to be remembered.
type Fresh = (TreePath, Signature, Hash);

/// Leaves out the removal of what is in the version and cannot be read: it stays in it, with all below.
fn keep_unreadable(found: &mut Found) {
    let kept: BTreeSet<TreePath> =
        found.unsupported.keys().filter_map(|path| TreePath::new(path.clone()).ok()).collect();
    if kept.is_empty() {
        return;
    }
    let is_kept = |path: &TreePath| {
        std::iter::successors(Some(path.clone()), TreePath::parent).any(|at| !at.is_root() && kept.contains(&at))
    };
    found.states.retain(|path, state| state.node.is_some() || !is_kept(path));
}
