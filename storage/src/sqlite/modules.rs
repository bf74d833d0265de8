//! Registered modules.

use super::{Result, hash_at, signed, unsigned_at};
use crate::module::{ModuleInfo, STANDARD_PREFIX};
use crate::{Role, StorageError};
use opship_record::{Hash, codec};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Registers a module of a workspace, in place of an earlier one of its name. `role` is that of whoever does it.
pub(crate) fn register(connection: &Connection, workspace: i64, module: &ModuleInfo, role: Role) -> Result<()> {
    if find_standard(connection, &module.name)?.is_some() {
        return Err(StorageError::Exists { what: "standard module", name: module.name.clone() });
    }
    let blobs = super::blobs::check_visible(connection, workspace, &[(module.hash, module.length)])?;
    let mut nodes = Vec::new();
    for mount in &module.mounts {
        if !super::nodes::use_tree(connection, workspace, &mount.tree)? {
            nodes.push(mount.tree);
        }
    }
    if !blobs.is_empty() || !nodes.is_empty() {
        return Err(StorageError::Incomplete { blobs, nodes });
    }
    // Registering the same bytes again takes nothing away.
    connection.execute(
        "INSERT OR REPLACE INTO module (workspace, name, hash, length, argv0, mounts, role)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6,
             MAX(?7, IFNULL((SELECT role FROM module WHERE workspace = ?1 AND name = ?2 AND hash = ?3), 0))",
        params![
            workspace,
            module.name,
            module.hash.as_bytes(),
            signed(module.length),
            module.argv0,
            codec::encode(&module.mounts),
            role.number()
        ],
    )?;
    Ok(())
}

pub(crate) fn remove(connection: &Connection, workspace: i64, name: &str) -> Result<bool> {
    let removed =
        connection.execute("DELETE FROM module WHERE workspace = ?1 AND name = ?2", params![workspace, name])?;
    Ok(removed > 0)
}

/// The server's own modules and the workspace's, each by name.
pub(crate) fn list(connection: &Connection, workspace: i64) -> Result<Vec<ModuleInfo>> {
    let mut standard =
        connection.prepare_cached("SELECT name, hash, length FROM standard_module WHERE current ORDER BY name")?;
    let mut found = standard.query_map([], standard_at)?.collect::<rusqlite::Result<Vec<_>>>()?;
    // One that a newer server now has itself is hidden by it.
    let mut own = connection.prepare_cached(
        "SELECT name, hash, length, argv0, mounts FROM module WHERE workspace = ?1
         AND name NOT IN (SELECT name FROM standard_module WHERE current) ORDER BY name",
    )?;
    let mut rows = own.query([workspace])?;
    while let Some(row) = rows.next()? {
        found.push(own_at(row)?);
    }
    Ok(found)
}

/// All modules of the workspace, hidden ones too.
pub(crate) fn own(connection: &Connection, workspace: i64) -> Result<Vec<ModuleInfo>> {
    let mut own =
        connection.prepare_cached("SELECT name, hash, length, argv0, mounts FROM module WHERE workspace = ?1")?;
    let mut rows = own.query([workspace])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(own_at(row)?);
    }
    Ok(found)
}

/// The module that a name stands for in a workspace.
pub(crate) fn resolve(connection: &Connection, workspace: i64, name: &str) -> Result<Option<ModuleInfo>> {
    let bare = name.strip_prefix(STANDARD_PREFIX);
    let standard = find_standard(connection, bare.unwrap_or(name))?;
    if standard.is_some() || bare.is_some() {
        return Ok(standard);
    }
    let mut find = connection
        .prepare_cached("SELECT name, hash, length, argv0, mounts FROM module WHERE workspace = ?1 AND name = ?2")?;
    let mut rows = find.query(params![workspace, name])?;
    rows.next()?.map(own_at).transpose()
}

/// Is the module one of the server's own, or registered here by an administrator?
pub(crate) fn is_vouched_for(connection: &Connection, workspace: i64, hash: &Hash) -> Result<bool> {
    let mut find = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM standard_module WHERE hash = ?2)
         OR EXISTS (SELECT 1 FROM module WHERE workspace = ?1 AND hash = ?2 AND role >= ?3)",
    )?;
    Ok(find.query_row(params![workspace, hash.as_bytes(), Role::Admin.number()], |row| row.get(0))?)
}

/// Makes a stored blob the server's own module of this name.
pub(crate) fn install_standard(connection: &Connection, name: &str, hash: &Hash, length: u64) -> Result<()> {
    connection.execute("UPDATE standard_module SET current = 0 WHERE name = ?1", [name])?;
    connection.execute(
        "INSERT INTO standard_module (name, hash, length, current) VALUES (?1, ?2, ?3, 1)
         ON CONFLICT (name, hash) DO UPDATE SET current = 1",
        params![name, hash.as_bytes(), signed(length)],
    )?;
    Ok(())
}

pub(crate) fn find_standard(connection: &Connection, name: &str) -> Result<Option<ModuleInfo>> {
    let mut find =
        connection.prepare_cached("SELECT name, hash, length FROM standard_module WHERE name = ?1 AND current")?;
    Ok(find.query_row([name], standard_at).optional()?)
}

fn standard_at(row: &Row<'_>) -> rusqlite::Result<ModuleInfo> {
    let module = ModuleInfo::new(row.get::<_, String>(0)?, hash_at(row, 1)?, unsigned_at(row, 2)?);
    Ok(ModuleInfo { standard: true, ..module })
}

fn own_at(row: &Row<'_>) -> Result<ModuleInfo> {
    let module = ModuleInfo::new(row.get::<_, String>(0)?, hash_at(row, 1)?, unsigned_at(row, 2)?);
    let mounts = codec::decode(&row.get::<_, Vec<u8>>(4)?, "mounts").map_err(StorageError::damaged)?;
    Ok(ModuleInfo { argv0: row.get(3)?, mounts, ..module })
}
