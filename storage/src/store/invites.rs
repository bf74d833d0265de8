//! Invites.

use super::Result;
use super::Store;
use crate::access::check_name;
use crate::invite::{Invite, Invited};
use crate::sqlite::invites::{self, New};
use crate::{Role, Scope, data_dir};
use opship_record::Hash;

const SECRET_CONTEXT: &str = "opship 1 invite";

fn secret_hash(secret: &str) -> Hash {
    Hash::derive(SECRET_CONTEXT, secret.as_bytes())
}

impl Store {
    /// Makes an invite into the scope's workspace for a principal `name`, who is made when it is used. Gives its number and
    /// the secret, which is stored nowhere. `expires`: in milliseconds since 1970.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`], [`StorageError::Name`]; [`StorageError::Exists`] for the name of somebody else, unless
    /// an administrator of the server asks, and for that of such an administrator.
    pub fn create_invite(&self, by: &Scope, name: &str, role: Role, expires: u64) -> Result<(i64, String)> {
        by.needs(Role::Admin)?;
        check_name("principal", name)?;
        let secret = data_dir::new_secret()?;
        let new = New { secret: secret_hash(&secret), name: name.to_owned(), role, expires };
        let by = by.clone();
        let id = self.0.database.write(move |connection| invites::insert(connection, &by, &new))?;
        Ok((id, secret))
    }

    /// Uses an invite into `workspace`, once: `token` becomes one of the invited principal's. Using it again with the same
    /// token gives the same answer.
    ///
    /// # Errors
    /// [`crate::StorageError::Invite`]; [`StorageError::Exists`] if the name has been taken meanwhile.
    pub fn accept_invite(&self, workspace: &str, secret: &str, token: &str) -> Result<Invited> {
        let (workspace, secret, token) = (workspace.to_owned(), secret_hash(secret), super::access::token_hash(token));
        self.0.database.write(move |connection| invites::accept(connection, &workspace, &secret, &token))
    }

    /// The workspace's invites, newest first; at most 1,000.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`].
    pub fn invites(&self, by: &Scope) -> Result<Vec<Invite>> {
        by.needs(Role::Admin)?;
        self.0.database.read(|connection| invites::list(connection, by.workspace))
    }

    /// Voids an invite, and the token that it gave if it was used. `true`: there was such a token.
    ///
    /// # Errors
    /// [`crate::StorageError::Forbidden`], [`StorageError::NotFound`].
    pub fn revoke_invite(&self, by: &Scope, id: i64) -> Result<bool> {
        by.needs(Role::Admin)?;
        let workspace = by.workspace;
        self.0.database.write(move |connection| invites::revoke(connection, workspace, id))
    }
}
