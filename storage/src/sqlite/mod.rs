//! The metadata database. All SQL is in this folder; who uses it sees functions over a connection, run either on a
//! connection of the readers' pool ([`Database::read`]) or in the writer ([`Database::write`]).

pub(crate) mod access;
pub(crate) mod blobs;
pub(crate) mod chunks;
pub(crate) mod clients;
pub(crate) mod ending;
pub(crate) mod entries;
pub(crate) mod invites;
pub(crate) mod modules;
pub(crate) mod nodes;
pub(crate) mod rows;
mod schema;
pub(crate) mod settings;
mod sums;
pub(crate) mod upkeep;
pub(crate) mod versions;
mod writer;

use crate::StorageError;
use opship_record::Hash;
use rusqlite::{Connection, OpenFlags, Row};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use writer::Writer;

pub(crate) type Result<T> = std::result::Result<T, StorageError>;

/// Readers that are kept open when nobody reads.
const IDLE_READERS: usize = 8;
/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;
/// Pages (8 KiB) in the write-ahead log before they are copied into the database: 16 MiB.
const CHECKPOINT_PAGES: i64 = 2048;

/// The database: one writing thread, any number of readers.
pub(crate) struct Database {
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
    data: PathBuf,
    /// Tree nodes, of readers and writer alike.
    pub(crate) nodes: Arc<nodes::NodeCache>,
}

impl Database {
    /// Opens or makes the database `path` and brings it to the newest layout.
    pub(crate) fn open(path: &Path, data: &Path) -> Result<Database> {
        let mut connection = Connection::open(path)?;
        configure(&connection)?;
        // Effective only in a new database: tree nodes are a few kilobytes and so mostly fit in a page.
        connection.pragma_update(None, "page_size", 8192)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        schema::migrate(&mut connection)?;
        Ok(Database {
            writer: Writer::start(connection, data.to_owned())?,
            readers: Mutex::default(),
            path: path.to_owned(),
            data: data.to_owned(),
            nodes: Arc::default(),
        })
    }

    /// Runs `work` on a connection that sees everything committed so far.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        let result = work(&connection).map_err(|error| error.classify(&self.data));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        result
    }

    fn open_reader(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        configure(&connection)?;
        Ok(connection)
    }

    /// Runs `work` in the writer and waits until it is durable. An error undoes what `work` did.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        // Whoever no longer waits needs no answer.
        self.writer.submit(work, move |result| drop(sender.send(result)))?;
        receiver.recv().map_err(|_| StorageError::Closed)?.map_err(|error| error.classify(&self.data))
    }

    /// Copies what is in the write-ahead log into the database, as far as no reader needs it there, so that the log is
    /// written again from its start: for who writes much where there is little room. A log that stays as it is harms nothing.
    pub(crate) fn checkpoint(&self) {
        let checkpoint = || {
            let connection = Connection::open(&self.path)?;
            configure(&connection)?;
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            Ok::<_, StorageError>(())
        };
        if let Err(error) = checkpoint() {
            tracing::debug!(%error, "the write-ahead log stays as it is");
        }
    }

    /// As [`Database::write`], without blocking the thread.
    pub(crate) async fn write_async<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.writer.submit(work, move |result| drop(sender.send(result)))?;
        receiver.await.map_err(|_| StorageError::Closed)?.map_err(|error| error.classify(&self.data))
    }
}

fn configure(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "foreign_keys", true)?;
    // Only an operator's own tool may be in the way, for a moment.
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(())
}

/// A hash out of a row.
fn hash_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Hash> {
    row.get(column).map(Hash::from_bytes)
}

/// SQLite's integers are signed; lengths and times stay far below 2^63.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned_at(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

/// A limit that a caller asked for, within reason.
fn limited(limit: usize) -> i64 {
    i64::try_from(limit.min(1000)).unwrap_or(1000)
}

/// Now, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
