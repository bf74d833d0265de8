//! Principals, tokens, workspaces.

use super::{Result, now, signed, unsigned_at};
use crate::StorageError;
use crate::access::{Principal, Role, Scope, WorkspaceInfo};
use opship_record::version::Version;
use opship_record::{FORMAT_VERSION, Hash, tree};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

/// The name of the principal that the token in the data directory belongs to.
const ADMIN: &str = "admin";

/// Is this the only token that is held for the administrator's file?
pub(crate) fn has_admin_token(connection: &Connection, token: &Hash) -> Result<bool> {
    let sql = "SELECT count(*), coalesce(sum(hash = ?1), 0) FROM token WHERE from_file";
    Ok(connection.query_row(sql, [token.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))? == (1i64, 1i64))
}

/// Makes the administrator's token the one with this hash, and no other one from the file.
pub(crate) fn set_admin_token(connection: &Connection, token: &Hash) -> Result<()> {
    connection.execute(
        "INSERT INTO principal (name, admin, created) VALUES (?1, 1, ?2) ON CONFLICT (name) DO NOTHING",
        params![ADMIN, signed(now())],
    )?;
    connection.execute("DELETE FROM token WHERE from_file AND hash <> ?1", [token.as_bytes()])?;
    connection.execute(
        "INSERT OR IGNORE INTO token (hash, principal, created, from_file)
         SELECT ?1, id, ?2, 1 FROM principal WHERE name = ?3",
        params![token.as_bytes(), signed(now()), ADMIN],
    )?;
    Ok(())
}

/// Who a token with this hash belongs to, unless it has expired.
pub(crate) fn principal_of(connection: &Connection, token: &Hash) -> Result<Option<Principal>> {
    let mut find = connection.prepare_cached(
        "SELECT principal.id, name, admin FROM token JOIN principal ON principal.id = principal
         WHERE hash = ?1 AND (expires IS NULL OR expires > ?2)",
    )?;
    let found = find
        .query_row(params![token.as_bytes(), signed(now())], |row| {
            Ok(Principal { id: row.get(0)?, name: row.get(1)?, admin: row.get(2)?, grants: BTreeMap::new() })
        })
        .optional()?;
    let Some(mut principal) = found else { return Ok(None) };
    let mut grants = connection.prepare_cached("SELECT workspace, role FROM access WHERE principal = ?1")?;
    for row in grants.query_map([principal.id], |row| Ok((row.get(0)?, row.get(1)?)))? {
        let (workspace, role) = row?;
        principal.grants.insert(workspace, Role::from_number(role)?);
    }
    Ok(Some(principal))
}

/// Adds a token to a principal, who is made if there is none of this name.
pub(crate) fn add_token(connection: &Connection, name: &str, token: &Hash, expires: Option<u64>) -> Result<()> {
    connection.execute(
        "INSERT INTO principal (name, admin, created) VALUES (?1, 0, ?2) ON CONFLICT (name) DO NOTHING",
        params![name, signed(now())],
    )?;
    connection.execute(
        "INSERT INTO token (hash, principal, created, expires, from_file)
         SELECT ?1, id, ?2, ?3, 0 FROM principal WHERE name = ?4",
        params![token.as_bytes(), signed(now()), expires.map(signed), name],
    )?;
    Ok(())
}

/// Sets or takes away a principal's role in a workspace.
pub(crate) fn set_role(connection: &Connection, workspace: i64, name: &str, role: Option<Role>) -> Result<()> {
    let principal: Option<i64> =
        connection.query_row("SELECT id FROM principal WHERE name = ?1", [name], |row| row.get(0)).optional()?;
    let principal = principal.ok_or_else(|| StorageError::not_found("principal", name))?;
    match role {
        Some(role) => connection.execute(
            "INSERT INTO access (principal, workspace, role) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET role = excluded.role",
            params![principal, workspace, role.number()],
        )?,
        None => connection
            .execute("DELETE FROM access WHERE principal = ?1 AND workspace = ?2", params![principal, workspace])?,
    };
    Ok(())
}

/// Makes a workspace with its version 0.
pub(crate) fn create_workspace(connection: &Connection, name: &str, principal: i64) -> Result<Scope> {
    let time = now();
    let made = connection.execute(
        "INSERT INTO workspace (name, created) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
        params![name, signed(time)],
    )?;
    if made == 0 {
        return Err(StorageError::Exists { what: "workspace", name: name.to_owned() });
    }
    let workspace = connection.last_insert_rowid();
    let version = Version {
        format: FORMAT_VERSION,
        number: 0,
        root: tree::empty(),
        parent: None,
        author: None,
        sequence: None,
        entry: None,
        time,
    };
    super::versions::insert(connection, workspace, &version)?;
    Ok(Scope { workspace, name: name.to_owned(), principal, role: Role::Admin })
}

/// Id of the workspace of this name.
pub(crate) fn workspace_id(connection: &Connection, name: &str) -> Result<Option<i64>> {
    let mut find = connection.prepare_cached("SELECT id FROM workspace WHERE name = ?1")?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}

/// The workspaces that a principal may see, by name.
pub(crate) fn workspaces(connection: &Connection, principal: &Principal) -> Result<Vec<WorkspaceInfo>> {
    let mut all = connection.prepare_cached(
        "SELECT id, name, created, (SELECT max(number) FROM version WHERE workspace = workspace.id)
         FROM workspace ORDER BY name",
    )?;
    let rows = all.query_map([], |row| {
        let role = principal.role_in(row.get(0)?);
        Ok(match role {
            Some(role) => Some(WorkspaceInfo {
                name: row.get(1)?,
                role,
                created: unsigned_at(row, 2)?,
                head: unsigned_at(row, 3)?,
            }),
            None => None,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
}
