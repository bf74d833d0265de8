//! What shipping asks of the log and the index.

use crate::db::{self, index, log, set_meta, unset_meta, waits};
use crate::fs::OPSHIP;
use crate::log::LogEntry;
use crate::{ClientError, WorkingCopy};
use opship_record::Hash;
use std::path::PathBuf;

impl WorkingCopy {
    /// opship's own folder in the working copy.
    pub fn own_folder(&self) -> PathBuf {
        self.path().join(OPSHIP)
    }

    /// Is this the hash of an output or stream of an operation that has not settled? The server makes it by replaying.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn is_produced(&self, hash: &Hash) -> Result<bool, ClientError> {
        Ok(waits::is_produced(&self.shared.db.read(), hash)?)
    }

    /// Does the server hold some path's state with this content?
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn is_with_server(&self, hash: &Hash) -> Result<bool, ClientError> {
        let paths = index::path_of_hash(&self.shared.db.read(), hash)?;
        Ok(paths.iter().any(|(_, row)| row.synced))
    }

    /// Does the index hold some path with this content?
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn has_content(&self, hash: &Hash) -> Result<bool, ClientError> {
        Ok(!index::path_of_hash(&self.shared.db.read(), hash)?.is_empty())
    }

    /// The ended entries for which something is still kept, in order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn unreleased(&self) -> Result<Vec<LogEntry>, ClientError> {
        log::unreleased(&self.shared.db.read())
    }

    /// Sets the number of the version that the working copy stands on where its id is not known: all versions up to it
    /// were made by entries of this working copy.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn set_base_number(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| {
            set_meta(db, "base_number", db::int(number))?;
            Ok(unset_meta(db, "base_id")?)
        })
    }

    /// The outputs of an entry that ended `conflicted` are kept beside their paths: pulls may bring the server's states
    /// there. Entries that wait for it stay parked.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn settle_conflict(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| Ok(waits::forget_paths(db, number)?))
    }
}
