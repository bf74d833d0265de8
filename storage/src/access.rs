//! Who may do what: principals, roles, and the scope that every call takes.

use crate::StorageError;
use std::collections::BTreeMap;

/// What a principal may do in a workspace; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See everything.
    Read,
    /// Ship entries, upload, register modules.
    Write,
    /// Give access, change settings.
    Admin,
}

impl Role {
    /// `read`, `write` or `admin`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Role> {
        [Role::Read, Role::Write, Role::Admin].into_iter().find(|role| role.name() == name)
    }

    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Result<Role, StorageError> {
        [Role::Read, Role::Write, Role::Admin]
            .into_iter()
            .find(|role| role.number() == number)
            .ok_or_else(|| StorageError::damaged(format!("unknown role {number}")))
    }
}

/// Somebody who has shown a valid token. Made only by [`crate::Store::authenticate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) admin: bool,
    pub(crate) grants: BTreeMap<i64, Role>,
}

impl Principal {
    /// The principal's number, for the audit trail.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is this an administrator of the whole server?
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    pub(crate) fn role_in(&self, workspace: i64) -> Option<Role> {
        if self.admin { Some(Role::Admin) } else { self.grants.get(&workspace).copied() }
    }

    pub(crate) fn needs_admin(&self) -> Result<(), StorageError> {
        if self.admin { Ok(()) } else { Err(StorageError::AdminOnly) }
    }
}

/// An authorised principal in a workspace: what every call takes. Made only by [`crate::Store::scope`] and
/// [`crate::Store::create_workspace`]; a call that needs a higher role than the scope has is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub(crate) workspace: i64,
    pub(crate) name: String,
    pub(crate) principal: i64,
    pub(crate) role: Role,
}

impl Scope {
    /// The workspace's name.
    pub fn workspace(&self) -> &str {
        &self.name
    }

    /// The workspace's number, the same as long as the workspace exists.
    pub fn workspace_id(&self) -> i64 {
        self.workspace
    }

    /// The principal's number.
    pub fn principal(&self) -> i64 {
        self.principal
    }

    /// The principal's role here.
    pub fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn needs(&self, role: Role) -> Result<(), StorageError> {
        if self.role >= role {
            return Ok(());
        }
        Err(StorageError::Forbidden { workspace: self.name.clone(), needed: role.name() })
    }
}

/// A workspace in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceInfo {
    /// The name.
    pub name: String,
    /// What the asking principal may do in it.
    pub role: Role,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// Number of its head version.
    pub head: u64,
}

/// Checks a name of a workspace, module or principal: `[a-z0-9][a-z0-9._-]{0,62}`.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StorageError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let good = name.len() <= 63
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|b| plain(b) || matches!(b, b'.' | b'_' | b'-'));
    if good {
        return Ok(());
    }
    let detail = "use 1 to 63 of a-z, 0-9, '.', '_' and '-', with a letter or digit first";
    Err(StorageError::Name { what, name: name.chars().take(80).collect(), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "0", "my-work.2_x", &"a".repeat(63)] {
            assert!(check_name("workspace", good).is_ok(), "{good}");
        }
        for bad in ["", ".a", "-a", "A", "a/b", "std/x", "ä", "a b", &"a".repeat(64)] {
            assert!(check_name("workspace", bad).is_err(), "{bad}");
        }
    }
}
