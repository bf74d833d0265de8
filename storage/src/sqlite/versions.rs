//! Versions.

use super::{Result, limited, signed, unsigned_at};
use crate::StorageError;
use opship_record::Hash;
use opship_record::version::Version;
use rusqlite::{Connection, OptionalExtension, Params, params};

pub(super) fn insert(connection: &Connection, workspace: i64, version: &Version) -> Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO version (workspace, number, id, root, bytes) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    insert.execute(params![
        workspace,
        signed(version.number),
        version.id().as_bytes(),
        version.root.as_bytes(),
        version.encode()
    ])?;
    Ok(())
}

pub(crate) fn head(connection: &Connection, workspace: i64) -> Result<Version> {
    let sql = "SELECT bytes FROM version WHERE workspace = ?1 ORDER BY number DESC LIMIT 1";
    one(connection, sql, [workspace])?.ok_or_else(|| StorageError::damaged("a workspace without a version"))
}

pub(crate) fn by_number(connection: &Connection, workspace: i64, number: u64) -> Result<Option<Version>> {
    let sql = "SELECT bytes FROM version WHERE workspace = ?1 AND number = ?2";
    one(connection, sql, params![workspace, signed(number)])
}

pub(crate) fn by_id(connection: &Connection, workspace: i64, id: &Hash) -> Result<Option<Version>> {
    let sql = "SELECT bytes FROM version WHERE workspace = ?1 AND id = ?2";
    one(connection, sql, params![workspace, id.as_bytes()])
}

/// Newest first, below number `before`.
pub(crate) fn list(connection: &Connection, workspace: i64, before: Option<u64>, limit: usize) -> Result<Vec<Version>> {
    let mut list = connection.prepare_cached(
        "SELECT bytes FROM version WHERE workspace = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
    )?;
    let before = before.map_or(i64::MAX, signed);
    let rows = list.query_map(params![workspace, before, limited(limit)], |row| row.get::<_, Vec<u8>>(0))?;
    rows.map(|bytes| decode(&bytes?)).collect()
}

/// Does a version of the workspace that is not forgotten have this root?
pub(crate) fn has_root(connection: &Connection, workspace: i64, root: &Hash) -> Result<bool> {
    let mut find =
        connection.prepare_cached("SELECT 1 FROM version WHERE workspace = ?1 AND root = ?2 AND NOT forgotten")?;
    Ok(find.exists(params![workspace, root.as_bytes()])?)
}

/// Which of the versions `first..=last` are forgotten?
pub(crate) fn forgotten(connection: &Connection, workspace: i64, first: u64, last: u64) -> Result<Vec<u64>> {
    let mut find = connection
        .prepare_cached("SELECT number FROM version WHERE workspace = ?1 AND number BETWEEN ?2 AND ?3 AND forgotten")?;
    let rows = find.query_map(params![workspace, signed(first), signed(last)], |row| unsigned_at(row, 0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn one(connection: &Connection, sql: &str, params: impl Params) -> Result<Option<Version>> {
    let bytes: Option<Vec<u8>> = connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
    bytes.as_deref().map(decode).transpose()
}

fn decode(bytes: &[u8]) -> Result<Version> {
    Version::decode(bytes).map_err(StorageError::damaged)
}
