//! Modules.

use super::{Result, Store};
use crate::access::check_name;
use crate::sqlite::{blobs, modules};
use crate::{BlobContent, ModuleInfo, Role, Scope};
use opship_record::Hash;

impl Store {
    /// Registers a module in the workspace, in place of an earlier one of its name. Its bytes and mounts must be there. The
    /// role of whoever does it is kept: [`Store::is_vouched_for`].
    ///
    /// # Errors
    /// [`crate::StorageError::Name`], [`crate::StorageError::Exists`] if the server has its own module of this name,
    /// [`crate::StorageError::Incomplete`].
    pub fn register_module(&self, scope: &Scope, module: &ModuleInfo) -> Result<()> {
        scope.needs(Role::Write)?;
        module.check()?;
        let (workspace, role, module) = (scope.workspace, scope.role, module.clone());
        self.0.database.write(move |connection| modules::register(connection, workspace, &module, role))
    }

    /// Takes a module's name away; records that name it by hash still run. Says whether there was one.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`].
    pub fn remove_module(&self, scope: &Scope, name: &str) -> Result<bool> {
        scope.needs(Role::Write)?;
        let (workspace, name) = (scope.workspace, name.to_owned());
        self.0.database.write(move |connection| modules::remove(connection, workspace, &name))
    }

    /// The server's own modules, then the workspace's, each by name.
    ///
    /// # Errors
    /// [`crate::StorageError`] if the database fails.
    pub fn modules(&self, scope: &Scope) -> Result<Vec<ModuleInfo>> {
        self.0.database.read(|connection| modules::list(connection, scope.workspace))
    }

    /// The module that a name stands for: `std/NAME` and NAME for the server's own, NAME for the workspace's.
    ///
    /// # Errors
    /// [`crate::StorageError`] if the database fails.
    pub fn resolve_module(&self, scope: &Scope, name: &str) -> Result<Option<ModuleInfo>> {
        self.0.database.read(|connection| modules::resolve(connection, scope.workspace, name))
    }

    /// Is the module `hash` one of the server's own, or registered in the workspace by an administrator? Such a one may be
    /// larger than those that others bring.
    ///
    /// # Errors
    /// [`crate::StorageError`] if the database fails.
    pub fn is_vouched_for(&self, scope: &Scope, hash: &Hash) -> Result<bool> {
        self.0.database.read(|connection| modules::is_vouched_for(connection, scope.workspace, hash))
    }

    /// Makes bytes the server's own module `name`, seen in every workspace. For the server itself, at its start; does
    /// nothing if they are already.
    ///
    /// # Errors
    /// [`crate::StorageError::Name`], [`crate::StorageError::DiskFull`].
    pub fn install_standard(&self, name: &str, bytes: &[u8]) -> Result<Hash> {
        check_name("module", name)?;
        let hash = Hash::of(bytes);
        let current = self.0.database.read(|connection| modules::find_standard(connection, name))?;
        if current.is_some_and(|module| module.hash == hash) {
            return Ok(hash);
        }
        self.0.keep_bytes(None, bytes)?;
        let (name, length) = (name.to_owned(), bytes.len() as u64);
        self.0.database.write(move |connection| modules::install_standard(connection, &name, &hash, length))?;
        Ok(hash)
    }

    /// A module's bytes: one of the server's own, also of an earlier build, or any blob visible in the workspace.
    ///
    /// # Errors
    /// As [`Store::open_blob`].
    pub fn module_content(&self, scope: &Scope, hash: &Hash) -> Result<Option<BlobContent>> {
        self.0.open_found(hash, |connection| match blobs::find_standard(connection, hash)? {
            None => blobs::find(connection, scope.workspace, hash),
            found => Ok(found),
        })
    }
}
