//! Entries: how they end, and what is known of them.

use super::{Result, Store};
use crate::sqlite::ending::{BasedOn, Prepared, end};
use crate::sqlite::entries;
use crate::{Commit, Committed, EntryDetail, EntryFilter, Event, Finish, Role, SMALL_BLOB, Scope, StorageError};
use opship_record::entry::ClientId;
use rusqlite::Connection;

impl Store {
    /// The entry with this key, if it has ended.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn entry(&self, scope: &Scope, client: &ClientId, sequence: u64) -> Result<Option<crate::StoredEntry>> {
        self.0.database.read(|connection| entries::by_key(connection, scope.workspace, client, sequence))
    }

    /// The entry with this id, with all that is kept of it.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails or what is kept is damaged.
    pub fn entry_by_id(&self, scope: &Scope, id: i64) -> Result<Option<EntryDetail>> {
        self.0.database.read(|connection| entries::by_id(connection, scope.workspace, id))
    }

    /// Entries that ended, newest first.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn entries(&self, scope: &Scope, filter: &EntryFilter) -> Result<Vec<crate::StoredEntry>> {
        self.0.database.read(|connection| entries::list(connection, scope.workspace, filter))
    }

    /// What happened after the event `after` (0: from the start), oldest first; at most 1,000.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn events(&self, scope: &Scope, after: i64, limit: usize) -> Result<Vec<Event>> {
        self.0.database.read(|connection| entries::events(connection, scope.workspace, after, limit))
    }

    /// The operations that made versions above `after`, up to `to`, and that a replay would make again, oldest first; at most
    /// 1,000.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails or what is kept is damaged.
    pub fn operations(&self, scope: &Scope, after: u64, to: u64) -> Result<Vec<crate::OperationOfVersion>> {
        self.0.database.read(|connection| entries::operations(connection, scope.workspace, after, to))
    }

    /// Would [`Store::operations`] give any?
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn has_operations(&self, scope: &Scope, after: u64, to: u64) -> Result<bool> {
        self.0.database.read(|connection| entries::has_operations(connection, scope.workspace, after, to))
    }

    /// Notes that what these entries of a client left to decide is decided: what they pin may be collected from now on.
    /// Numbers that are not here are ignored. Blocks until it is durable.
    ///
    /// # Errors
    /// [`StorageError::Forbidden`], [`StorageError`] if the database fails.
    pub fn resolve_entries(&self, scope: &Scope, client: &ClientId, sequences: Vec<u64>) -> Result<()> {
        scope.needs(Role::Write)?;
        let (workspace, client) = (scope.workspace, *client);
        self.0.database.write(move |connection| entries::resolve(connection, workspace, &client, &sequences))
    }

    /// Ends an entry with a new version: checks its lists against the head of the moment (unless that is still the tree
    /// it is based on), applies its changes, and writes version, nodes, small blobs, entry and pins in one
    /// transaction. An entry without changes makes no version. Blocks until it is durable.
    ///
    /// # Errors
    /// [`StorageError::Incomplete`] if a blob that it names is not in the workspace, [`StorageError::Unfit`] if its
    /// changes contradict themselves or the tree they are based on, [`StorageError::DiskFull`]. Nothing was changed.
    pub fn commit(&self, scope: &Scope, commit: Commit) -> Result<Committed> {
        let work = self.committing(scope, commit)?;
        self.0.database.write(work).inspect(|committed| self.tell(committed))
    }

    /// As [`Store::commit`], without blocking the thread while it waits.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn commit_async(&self, scope: &Scope, commit: Commit) -> Result<Committed> {
        let work = self.committing(scope, commit)?;
        self.0.database.write_async(work).await.inspect(|committed| self.tell(committed))
    }

    /// Ends an entry without a version. The same rules hold for its key and blobs. Blocks until it is durable.
    ///
    /// # Errors
    /// [`StorageError::Incomplete`], [`StorageError::DiskFull`]. Nothing was changed.
    pub fn finish(&self, scope: &Scope, finish: Finish) -> Result<Committed> {
        let work = self.ending(scope, finish, None)?;
        self.0.database.write(work).inspect(|committed| self.tell(committed))
    }

    /// As [`Store::finish`], without blocking the thread while it waits.
    ///
    /// # Errors
    /// As [`Store::finish`].
    pub async fn finish_async(&self, scope: &Scope, finish: Finish) -> Result<Committed> {
        let work = self.ending(scope, finish, None)?;
        self.0.database.write_async(work).await.inspect(|committed| self.tell(committed))
    }

    fn committing(
        &self,
        scope: &Scope,
        commit: Commit,
    ) -> Result<impl FnOnce(&Connection) -> Result<Committed> + use<>> {
        let Commit { envelope, body, lists, small_blobs, pinned, ending, based_on } = commit;
        let finish = Finish { envelope, body, lists, small_blobs, pinned, ending };
        self.ending(scope, finish, Some(BasedOn(based_on)))
    }

    /// Prepares on the caller's thread what the writer then does.
    fn ending(
        &self,
        scope: &Scope,
        finish: Finish,
        head: Option<BasedOn>,
    ) -> Result<impl FnOnce(&Connection) -> Result<Committed> + use<>> {
        scope.needs(Role::Write)?;
        if let Some(large) = finish.small_blobs.iter().find(|bytes| bytes.len() > SMALL_BLOB) {
            let detail = format!("{} bytes are no small blob; store it before", large.len());
            return Err(StorageError::Unfit { path: "small blobs".to_owned(), detail });
        }
        let (prepared, nodes) = (Prepared::new(scope, finish, head)?, self.0.database.nodes.clone());
        Ok(move |connection: &Connection| end(connection, &nodes, &prepared))
    }

    fn tell(&self, committed: &Committed) {
        if let Committed::Done { entry, .. } = committed {
            self.0.ended.send_if_modified(|last| {
                let newer = entry.id > *last;
                *last = entry.id.max(*last);
                newer
            });
        }
    }
}
