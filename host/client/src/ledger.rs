//! The log as the network half and the command line use it.

use crate::db::{self, index, log, meta, remote, set_meta, unset_meta};
use crate::log::{Deferred, EntryState, LogEntry, Origin, Traffic};
use crate::{ClientError, WorkingCopy};
use opship_record::answer::Answer;
use opship_record::node::Node;
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use rusqlite::Connection;

impl WorkingCopy {
    /// The entries that have no verdict yet, in order, with their encoded bodies and what they wait for.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn pending(&self) -> Result<Vec<LogEntry>, ClientError> {
        log::in_state(&self.shared.db.read(), EntryState::Pending)
    }

    /// The number of the newest entry that waits.
    pub(crate) fn newest_unended(&self) -> Result<Option<u64>, ClientError> {
        Ok(log::newest_in_state(&self.shared.db.read(), EntryState::Pending)?)
    }

    /// The newest entries with a number under `before`, newest first.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn entries(&self, before: Option<u64>, limit: usize) -> Result<Vec<LogEntry>, ClientError> {
        log::newest(&self.shared.db.read(), before, limit)
    }

    /// The number of the newest entry; 0 if there is none.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn newest(&self) -> Result<Option<(u64, EntryState)>, ClientError> {
        Ok(log::newest(&self.shared.db.read(), None, 1)?.first().map(|entry| (entry.number, entry.state)))
    }

    /// An entry by the log's number.
    ///
    /// # Errors
    /// [`ClientError::NoEntry`], [`ClientError::Database`].
    pub fn entry(&self, number: u64) -> Result<LogEntry, ClientError> {
        log::get(&self.shared.db.read(), number)
    }

    /// The full lists of an entry, for an answer that needs them and for `show`.
    ///
    /// # Errors
    /// [`ClientError::NoEntry`], [`ClientError::Database`].
    pub fn lists(&self, number: u64) -> Result<Lists, ClientError> {
        log::lists(&self.shared.db.read(), number)
    }

    /// Notes that entries are about to be put into a request: from here on the server may hold them, so they
    /// stay as they are.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn mark_sent(&self, numbers: &[u64]) -> Result<(), ClientError> {
        self.shared.db.write(|db| numbers.iter().try_for_each(|number| Ok(log::mark_sent(db, *number)?)))
    }

    /// Notes that the server does not hold an entry, as its answer tells.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn mark_not_held(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| Ok(log::mark_not_held(db, number)?))
    }

    /// Stores the server's answer to an entry and adds up the traffic. After a verdict under which the server holds the
    /// outputs, the index knows that; call [`WorkingCopy::release`] then.
    ///
    /// # Errors
    /// [`ClientError::NoEntry`], [`ClientError::Database`].
    pub fn mark_answer(&self, number: u64, answer: &Answer, traffic: Traffic) -> Result<(), ClientError> {
        self.shared.db.write(|db| log::answer(db, number, answer, traffic))
    }

    /// Which entry made the state of a path; `None` if the path is not in the index.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn origin(&self, path: &TreePath) -> Result<Option<Origin>, ClientError> {
        let row = index::get(&self.shared.db.read(), path)?;
        Ok(row.map(|row| Origin { entry: (row.entry != 0).then_some(row.entry), synced: row.synced, hash: row.hash() }))
    }

    /// What the index holds of a path: its state after all entries of the log.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn node(&self, path: &TreePath) -> Result<Option<Node>, ClientError> {
        Ok(index::get(&self.shared.db.read(), path)?.map(|row| row.node))
    }

    /// The index: all paths below `path` with their states, in byte order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn nodes(&self, path: &TreePath) -> Result<Vec<(TreePath, Node)>, ClientError> {
        let rows = index::all_below(&self.shared.db.read(), path)?;
        Ok(rows.into_iter().map(|(path, row)| (path, row.node)).collect())
    }

    /// Number and id of the version that the last pull brought; number 0 before the first.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn base(&self) -> Result<(u64, Option<[u8; 8]>), ClientError> {
        let db = self.shared.db.read();
        let number = meta::<i64>(&db, "base_number")?.map_or(0, db::uint);
        let (mark, id): (Option<[u8; 8]>, Option<[u8; 32]>) = (meta(&db, "base_mark")?, meta(&db, "base_id")?);
        // Working copies of earlier builds have the whole id.
        Ok((number, mark.or(id.map(|id| Hash::from_bytes(id).mark()))))
    }

    /// Sets the version that the working copy stands on, once a pull to it is complete but for what was deferred.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn set_base(&self, number: u64, mark: Option<[u8; 8]>) -> Result<(), ClientError> {
        self.shared.db.write(|db| set_base(db, number, mark))
    }

    /// Paths that pulls left alone, with the server's states of them.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn deferred(&self) -> Result<Vec<Deferred>, ClientError> {
        remote::deferred(&self.shared.db.read())
    }

    /// A path that was left alone is as the server has it.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn undefer(&self, path: &TreePath) -> Result<(), ClientError> {
        Ok(remote::undefer(&self.shared.db.read(), path)?)
    }
}

impl WorkingCopy {
    /// A content that an entry names, for shipping it: kept, displaced, or live where a path still holds it. `None` if
    /// it is nowhere any more. The bytes are checked when it is opened.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn blob_source(
        &self,
        hash: &Hash,
    ) -> Result<Option<std::sync::Arc<dyn opship_world::FileContent>>, ClientError> {
        crate::source::content_of(&self.shared, hash)
    }
}

/// Sets the version that the working copy stands on; `mark`: the beginning of its id, if that is known.
pub(crate) fn set_base(db: &Connection, number: u64, mark: Option<[u8; 8]>) -> Result<(), ClientError> {
    set_meta(db, "base_number", db::int(number))?;
    unset_meta(db, "base_id")?;
    match mark {
        Some(mark) => set_meta(db, "base_mark", mark)?,
        None => unset_meta(db, "base_mark")?,
    }
    Ok(())
}
