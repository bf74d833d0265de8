//! Entries that a sync has been through and left where they are: they wait for another link, lack a content, or need one that
//! does. Later changes must not wait with them unless they have to.

use crate::db::{int, meta, set_meta, uint, waits};
use crate::log::LogEntry;
use crate::values::States;
use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use opship_record::effect::Change;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// The named value that holds the number up to which unended entries are left.
const LEFT: &str = "log.left";

impl WorkingCopy {
    /// A sync has been through the unended entries up to this number, and they wait for something else than a sync.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub(crate) fn note_left(&self, number: u64) -> Result<(), ClientError> {
        if number == up_to(&self.shared.db.read())? {
            return Ok(());
        }
        Ok(set_meta(&self.shared.db.read(), LEFT, int(number))?)
    }
}

fn up_to(db: &Connection) -> rusqlite::Result<u64> {
    Ok(meta::<i64>(db, LEFT)?.map_or(0, uint))
}

/// The states that have to wait for entries which are left, apart from all others; with what lies above and below them, whose
/// order counts.
pub(crate) fn split(db: &Connection, states: States, changes: &[Change]) -> Result<(States, States), ClientError> {
    let left = up_to(db)?;
    if left == 0 || !waits::has_unsettled_up_to(db, left)? {
        return Ok((states, States::new()));
    }
    let mut behind = BTreeSet::new();
    for change in changes {
        if waits::oldest_wait(db, std::slice::from_ref(change))?.is_some_and(|oldest| oldest <= left) {
            behind.insert(&change.path);
        }
    }
    let above: BTreeSet<TreePath> =
        behind.iter().flat_map(|path| std::iter::successors(path.parent(), TreePath::parent)).collect();
    let is_behind = |path: &TreePath| {
        above.contains(path)
            || std::iter::successors(Some(path.clone()), TreePath::parent).any(|at| behind.contains(&at))
    };
    Ok(states.into_iter().partition(|(path, _)| !is_behind(path)))
}

/// May an entry take in more changes? `old`: what it has. A file that is written again and again stays one change.
pub(crate) fn may_take(db: &Connection, entry: &LogEntry, old: &[Change], new: &[Change]) -> Result<bool, ClientError> {
    let left = up_to(db)?;
    let has = |change: &Change| old.binary_search_by(|known| known.path.cmp(&change.path)).is_ok();
    if left == 0 || new.iter().all(has) {
        return Ok(true);
    }
    Ok(entry.number > left
        && !waits::has_wait_up_to(db, entry.number, left)?
        && waits::oldest_wait(db, new)?.is_none_or(|oldest| oldest > left))
}
