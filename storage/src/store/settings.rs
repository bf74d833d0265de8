//! Settings of workspaces.

use super::{Result, Store};
use crate::sqlite::settings;
use crate::{Role, Scope, Setting, Settings};

impl Store {
    /// The workspace's settings.
    ///
    /// # Errors
    /// [`crate::StorageError`] if the database fails.
    pub fn settings(&self, scope: &Scope) -> Result<Settings> {
        self.0.database.read(|connection| settings::of(connection, scope.workspace))
    }

    /// Sets some of them, all or none.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`] for who is no administrator of the workspace.
    pub fn set_settings(&self, scope: &Scope, settings: &[Setting]) -> Result<()> {
        scope.needs(Role::Admin)?;
        let (workspace, list) = (scope.workspace, settings.to_vec());
        self.0
            .database
            .write(move |connection| list.iter().try_for_each(|one| settings::set(connection, workspace, *one)))
    }

    /// Sets one of them.
    ///
    /// # Errors
    /// As [`Store::set_settings`].
    pub fn set_setting(&self, scope: &Scope, setting: Setting) -> Result<()> {
        self.set_settings(scope, &[setting])
    }
}
