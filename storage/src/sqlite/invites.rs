//! Invites: made by an administrator, used once.

use super::{Result, access, now, signed, unsigned_at};
use crate::access::Role;
use crate::invite::{Invite, InviteState, Invited};
use crate::{Scope, StorageError};
use opship_record::Hash;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// An invite to be made.
pub(crate) struct New {
    pub(crate) secret: Hash,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) expires: u64,
}

pub(crate) fn insert(connection: &Connection, by: &Scope, new: &New) -> Result<i64> {
    check_invited(connection, by.principal, &new.name)?;
    connection.execute(
        "INSERT INTO invite (workspace, hash, name, role, invited_by, created, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            by.workspace,
            new.secret.as_bytes(),
            new.name,
            new.role.number(),
            by.principal,
            signed(now()),
            signed(new.expires)
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

/// A token for a name that exists is that person's: only an administrator of the server may hand one out, and never one of
/// a server's administrator.
fn check_invited(connection: &Connection, by: i64, name: &str) -> Result<()> {
    let admin = |column: &str, value: &dyn rusqlite::ToSql| {
        let sql = format!("SELECT admin FROM principal WHERE {column} = ?1");
        connection.query_row(&sql, [value], |row| row.get::<_, bool>(0)).optional()
    };
    let by_server_admin = admin("id", &by)?.unwrap_or(false);
    match admin("name", &name)? {
        None => Ok(()),
        Some(false) if by_server_admin => Ok(()),
        Some(_) => Err(StorageError::Exists { what: "principal", name: name.to_owned() }),
    }
}

/// Uses an invite: its principal gets the token and the role. The same token again is answered again, so that a lost
/// reply costs nothing.
pub(crate) fn accept(connection: &Connection, workspace: &str, secret: &Hash, token: &Hash) -> Result<Invited> {
    struct Found {
        id: i64,
        workspace: i64,
        name: String,
        role: Role,
        invited_by: i64,
        used_for: Option<[u8; 32]>,
    }
    let sql = "SELECT invite.id, workspace.id, invite.name, role, invited_by, token FROM invite
               JOIN workspace ON workspace.id = invite.workspace
               WHERE hash = ?1 AND workspace.name = ?2 AND revoked IS NULL AND expires > ?3";
    let found = connection
        .query_row(sql, params![secret.as_bytes(), workspace, signed(now())], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    let (id, workspace, name, role, invited_by, used_for) = found.ok_or(StorageError::Invite)?;
    let found = Found { id, workspace, name, role: Role::from_number(role)?, invited_by, used_for };
    let invited = Invited { name: found.name.clone(), role: found.role };
    match found.used_for {
        Some(used_for) if used_for == *token.as_bytes() => return Ok(invited),
        Some(_) => return Err(StorageError::Invite),
        None => {}
    }
    if !may_still_invite(connection, found.invited_by, found.workspace)? {
        return Err(StorageError::Invite);
    }
    check_invited(connection, found.invited_by, &found.name)?;
    if access::principal_of(connection, token)?.is_some() {
        return Err(StorageError::Invite);
    }
    access::add_token(connection, &found.name, token, None)?;
    connection.execute(
        "INSERT INTO access (principal, workspace, role) SELECT id, ?1, ?2 FROM principal WHERE name = ?3
         ON CONFLICT DO UPDATE SET role = max(role, excluded.role)",
        params![found.workspace, found.role.number(), found.name],
    )?;
    connection.execute(
        "UPDATE invite SET token = ?1, used = ?2 WHERE id = ?3",
        params![token.as_bytes(), signed(now()), found.id],
    )?;
    Ok(invited)
}

/// Whose rights were taken away since, his invites are void.
fn may_still_invite(connection: &Connection, principal: i64, workspace: i64) -> Result<bool> {
    let sql = "SELECT admin OR EXISTS (SELECT 1 FROM access WHERE principal = ?1 AND workspace = ?2 AND role = ?3)
               FROM principal WHERE id = ?1";
    let admin = Role::Admin.number();
    Ok(connection.query_row(sql, params![principal, workspace, admin], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Newest first.
pub(crate) fn list(connection: &Connection, workspace: i64) -> Result<Vec<Invite>> {
    let mut list = connection.prepare_cached(
        "SELECT invite.id, invite.name, role, principal.name, invite.created, expires, used, revoked FROM invite
         JOIN principal ON principal.id = invited_by WHERE workspace = ?1 ORDER BY invite.id DESC LIMIT 1000",
    )?;
    let mut rows = list.query([workspace])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(invite_at(row)?);
    }
    Ok(found)
}

fn invite_at(row: &Row<'_>) -> Result<Invite> {
    let expires = unsigned_at(row, 5)?;
    let used: Option<i64> = row.get(6)?;
    let revoked: Option<i64> = row.get(7)?;
    let state = match (revoked, used) {
        (Some(_), _) => InviteState::Revoked,
        (None, Some(_)) => InviteState::Used,
        (None, None) if expires <= now() => InviteState::Expired,
        (None, None) => InviteState::Open,
    };
    Ok(Invite {
        id: row.get(0)?,
        name: row.get(1)?,
        role: Role::from_number(row.get(2)?)?,
        invited_by: row.get(3)?,
        created: unsigned_at(row, 4)?,
        expires,
        used: used.and_then(|used| u64::try_from(used).ok()),
        state,
    })
}

/// Voids an invite, and the token that it gave if it was used. `true`: there was one.
pub(crate) fn revoke(connection: &Connection, workspace: i64, id: i64) -> Result<bool> {
    let sql = "SELECT token FROM invite WHERE workspace = ?1 AND id = ?2";
    let token: Option<Option<[u8; 32]>> = connection.query_row(sql, [workspace, id], |row| row.get(0)).optional()?;
    let token = token.ok_or_else(|| StorageError::not_found("invite", id.to_string()))?;
    connection.execute("UPDATE invite SET revoked = ?1 WHERE id = ?2", [signed(now()), id])?;
    let gone = connection.execute("DELETE FROM token WHERE hash = ?1", [token])?;
    Ok(gone > 0)
}
