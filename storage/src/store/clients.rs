//! Names of clients, and authors.

use super::{Result, Store};
use crate::invite::{Author, check_client_name};
use crate::sqlite::clients;
use crate::{Role, Scope};
use opship_record::entry::ClientId;

impl Store {
    /// Remembers what the scope's principal calls a client of theirs. Gives the principal's own name.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`], [`crate::StorageError::Name`].
    pub fn name_client(&self, by: &Scope, client: &ClientId, name: &str) -> Result<String> {
        by.needs(Role::Write)?;
        check_client_name(name)?;
        let (by, client, name) = (by.clone(), *client, name.to_owned());
        self.0.database.write(move |connection| clients::name(connection, &by, &client, &name))
    }

    /// Who made the entries with these keys; `None` for one that is not there.
    ///
    /// # Errors
    /// [`crate::StorageError`] if the database fails.
    pub fn authors(&self, scope: &Scope, keys: &[(ClientId, u64)]) -> Result<Vec<Option<Author>>> {
        self.0.database.read(|connection| {
            keys.iter()
                .map(|(client, sequence)| clients::author(connection, scope.workspace, client, *sequence))
                .collect()
        })
    }
}
