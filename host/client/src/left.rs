//! Entries that a sync has been through and left where they are: they wait for another link, lack a content, or need one that
//! does. Later changes must not wait with them unless they have to.

use crate::db::{int, meta, set_meta, uint, waits};
use crate::log::LogEntry;
use crate::values::States;
use crate::{ClientError, WorkingCopy};
use opship_record::effect::{After, Before, Change};
use opship_record::record::Lists;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// The named value that holds the number up to which unended entries are left.
const LEFT: &str = "log.left";

impl WorkingCopy {
    /// The unended entries up to this number are left for now.
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

/// The states that have to wait for entries which are left, apart from all others: files that such an entry writes and that
/// were only written again, so that nothing else depends on them.
pub(crate) fn split(db: &Connection, states: States, changes: &[Change]) -> Result<(States, States), ClientError> {
    let left = up_to(db)?;
    let mut behind = BTreeSet::new();
    for change in changes.iter().filter(|change| left > 0 && is_written_again(change)) {
        if waits::is_written_up_to(db, &change.path, left)? {
            behind.insert(&change.path);
        }
    }
    Ok(states.into_iter().partition(|(path, _)| !behind.contains(path)))
}

fn is_written_again(change: &Change) -> bool {
    matches!(change.before, Before::File { .. }) && matches!(change.after, After::File { .. })
}

/// May an entry take in more changes? `old`: what it has. A file that is written again and again stays one change.
pub(crate) fn may_take(db: &Connection, entry: &LogEntry, old: &[Change], new: &[Change]) -> Result<bool, ClientError> {
    let left = up_to(db)?;
    let has = |change: &Change| old.binary_search_by(|known| known.path.cmp(&change.path)).is_ok();
    if left == 0 || new.iter().all(has) {
        return Ok(true);
    }
    let lists = Lists { changes: new.to_vec(), ..Lists::default() };
    Ok(entry.number > left
        && !waits::has_wait_up_to(db, entry.number, left)?
        && waits::oldest_wait(db, &lists)?.is_none_or(|oldest| oldest > left))
}
