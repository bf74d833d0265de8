//! The working copy's state: SQLite, WAL, synchronous=FULL. All SQL of a working copy is in this module.
//!
//! Invariant: the index is the state of the tree after all entries of the log; both change in one transaction.

pub(crate) mod conflicts;
pub(crate) mod hashed;
pub(crate) mod index;
pub(crate) mod intent;
pub(crate) mod keep;
pub(crate) mod log;
pub(crate) mod native;
pub(crate) mod refused;
pub(crate) mod remote;
mod schema;
pub(crate) mod waits;

use crate::ClientError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Length of the write-ahead log, in pages of 4 KiB, from which on a commit brings it into the database. The next command
/// reads the log when it opens the database, so it is short.
const CHECKPOINT_PAGES: u32 = 256;

/// The state database of one working copy.
#[derive(Debug)]
pub(crate) struct Db(Mutex<Connection>);

impl Db {
    /// Opens the database and brings its schema up to date.
    pub(crate) fn open(path: &Path) -> Result<Db, ClientError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Every commit is durable in the write-ahead log, so a command that ends need not also bring it into the database,
        // at the cost of two syncs, and three more for the next command's new log. It is done every `CHECKPOINT_PAGES`.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        schema::migrate(&connection)?;
        Ok(Db(Mutex::new(connection)))
    }

    /// The connection. Each statement of its own is one transaction.
    pub(crate) fn read(&self) -> MutexGuard<'_, Connection> {
        // A panic of another thread cannot leave a transaction behind: dropping one rolls it back.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in one transaction; an error rolls back.
    pub(crate) fn write<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = self.read();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }
}

/// A named value, `None` if it was never set.
pub(crate) fn meta<T: rusqlite::types::FromSql>(db: &Connection, key: &str) -> rusqlite::Result<Option<T>> {
    db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()
}

/// Sets a named value.
pub(crate) fn set_meta(db: &Connection, key: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    // What stays as it is is not written: each write is synced.
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
    )?
    .execute(params![key, value])?;
    Ok(())
}

/// Forgets a named value.
pub(crate) fn unset_meta(db: &Connection, key: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// For a column that holds our own encoding: what does not decode is damage.
pub(crate) fn damaged(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(error))
}

/// A count or time for SQLite, whose integers are signed.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The reverse of [`int`].
pub(crate) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The text that all paths below `path` start with, and the first that sorts behind them.
pub(crate) fn below(path: &str) -> (String, String) {
    // '0' follows '/' in byte order.
    if path.is_empty() { (String::new(), "\u{10ffff}".to_owned()) } else { (format!("{path}/"), format!("{path}0")) }
}
