//! Who may do what.

use super::{Result, Store};
use crate::access::check_name;
use crate::{Principal, Role, Scope, StorageError, WorkspaceInfo, data_dir, sqlite};
use opship_record::Hash;

const TOKEN_CONTEXT: &str = "opship 1 token";

/// A token as it is stored: tokens are random, so a plain hash protects them, and looking a hash up takes no longer for
/// a nearly right token.
pub(super) fn token_hash(token: &str) -> Hash {
    Hash::derive(TOKEN_CONTEXT, token.as_bytes())
}

impl Store {
    /// Who shows this token; `None` for an unknown or expired one.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn authenticate(&self, token: &str) -> Result<Option<Principal>> {
        let hash = token_hash(token);
        self.0.database.read(|connection| sqlite::access::principal_of(connection, &hash))
    }

    /// A new token for the principal `name`, who is made if there is none of this name. It is stored nowhere.
    /// `expires`: in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StorageError::AdminOnly`], [`StorageError::Name`].
    pub fn create_token(&self, by: &Principal, name: &str, expires: Option<u64>) -> Result<String> {
        by.needs_admin()?;
        check_name("principal", name)?;
        let token = data_dir::new_token()?;
        let (name, hash) = (name.to_owned(), token_hash(&token));
        self.0.database.write(move |connection| sqlite::access::add_token(connection, &name, &hash, expires))?;
        Ok(token)
    }

    /// Gives the principal `name` a role in the workspace, or takes it away.
    ///
    /// # Errors
    /// [`StorageError::Forbidden`], [`StorageError::NotFound`] for the principal.
    pub fn grant(&self, by: &Scope, name: &str, role: Option<Role>) -> Result<()> {
        by.needs(Role::Admin)?;
        let (workspace, name) = (by.workspace, name.to_owned());
        self.0.database.write(move |connection| sqlite::access::set_role(connection, workspace, &name, role))
    }

    /// Makes a workspace, with its version 0: the empty tree.
    ///
    /// # Errors
    /// [`StorageError::AdminOnly`], [`StorageError::Name`], [`StorageError::Exists`].
    pub fn create_workspace(&self, by: &Principal, name: &str) -> Result<Scope> {
        by.needs_admin()?;
        check_name("workspace", name)?;
        let (name, principal) = (name.to_owned(), by.id);
        self.0.database.write(move |connection| sqlite::access::create_workspace(connection, &name, principal))
    }

    /// The workspaces that a principal may see, by name.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn workspaces(&self, by: &Principal) -> Result<Vec<WorkspaceInfo>> {
        self.0.database.read(|connection| sqlite::access::workspaces(connection, by))
    }

    /// The scope of a principal in a workspace. It carries his full role there.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if there is none of this name or he may not see it, [`StorageError::Forbidden`] if
    /// his role is below `needed`.
    pub fn scope(&self, by: &Principal, name: &str, needed: Role) -> Result<Scope> {
        let workspace = self.0.database.read(|connection| sqlite::access::workspace_id(connection, name))?;
        let visible = workspace.and_then(|workspace| Some((workspace, by.role_in(workspace)?)));
        let (workspace, role) = visible.ok_or_else(|| StorageError::not_found("workspace", name))?;
        let scope = Scope { workspace, name: name.to_owned(), principal: by.id, role };
        scope.needs(needed)?;
        Ok(scope)
    }
}
