//! Which blobs there are, where they are visible, the bytes of small ones, and the chunks of others.

use super::{Result, hash_at, now, signed, unsigned_at};
use crate::StorageError;
use opship_record::Hash;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A blob as the database knows it.
pub(crate) struct StoredBlob {
    pub(crate) length: u64,
    /// The bytes of a small one.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The list of the chunks of a larger one. Neither: it is a file from before there were chunks.
    pub(crate) chunks: Option<Vec<u8>>,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredBlob> {
    Ok(StoredBlob { length: unsigned_at(row, 0)?, bytes: row.get(1)?, chunks: row.get(2)? })
}

/// The blob, if it is visible in the workspace.
pub(crate) fn find(connection: &Connection, workspace: i64, hash: &Hash) -> Result<Option<StoredBlob>> {
    let mut find = connection.prepare_cached(
        "SELECT length, bytes, chunks FROM workspace_blob JOIN blob USING (hash) WHERE workspace = ?1 AND hash = ?2",
    )?;
    Ok(find.query_row(params![workspace, hash.as_bytes()], stored).optional()?)
}

/// The blob, if it is or was one of the server's own modules.
pub(crate) fn find_standard(connection: &Connection, hash: &Hash) -> Result<Option<StoredBlob>> {
    let mut find = connection.prepare_cached(
        "SELECT length, bytes, chunks FROM blob WHERE hash = ?1 AND hash IN (SELECT hash FROM standard_module)",
    )?;
    Ok(find.query_row([hash.as_bytes()], stored).optional()?)
}

/// The blob's length, if it is visible in the workspace.
pub(crate) fn length(connection: &Connection, workspace: i64, hash: &Hash) -> Result<Option<u64>> {
    let mut find = connection.prepare_cached(
        "SELECT length FROM workspace_blob JOIN blob USING (hash) WHERE workspace = ?1 AND hash = ?2",
    )?;
    Ok(find.query_row(params![workspace, hash.as_bytes()], |row| unsigned_at(row, 0)).optional()?)
}

/// Is a blob stored at all? Only for sparing a second copy; what is visible is another question.
pub(crate) fn is_stored(connection: &Connection, hash: &Hash) -> Result<bool> {
    let mut find = connection.prepare_cached("SELECT 1 FROM blob WHERE hash = ?1")?;
    Ok(find.exists([hash.as_bytes()])?)
}

/// Stores a small blob.
pub(crate) fn insert_small(connection: &Connection, hash: &Hash, bytes: &[u8]) -> Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO blob (hash, length, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING")?;
    insert.execute(params![hash.as_bytes(), signed(bytes.len() as u64), bytes])?;
    Ok(())
}

/// Stores a larger blob, whose chunks are named.
pub(crate) fn insert_chunked(connection: &Connection, hash: &Hash, length: u64, list: &[u8]) -> Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO blob (hash, length, chunks) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING")?;
    insert.execute(params![hash.as_bytes(), signed(length), list])?;
    Ok(())
}

/// Hash, length and list of chunks.
pub(crate) type FoundList<'a> = dyn FnMut(&Hash, u64, &[u8]) -> Result<()> + 'a;

/// Passes on the list of chunks of each larger blob of the workspace.
pub(crate) fn each_list(connection: &Connection, workspace: i64, found: &mut FoundList<'_>) -> Result<()> {
    let mut list = connection.prepare_cached(
        "SELECT hash, length, chunks FROM workspace_blob JOIN blob USING (hash)
         WHERE workspace = ?1 AND chunks IS NOT NULL",
    )?;
    let mut rows = list.query([workspace])?;
    while let Some(row) = rows.next()? {
        found(&hash_at(row, 0)?, unsigned_at(row, 1)?, row.get_ref(2)?.as_blob().map_err(StorageError::damaged)?)?;
    }
    Ok(())
}

/// When what is named now counts as used: while somebody collects not before that began, whatever the clock says.
pub(super) fn time_of_use(connection: &Connection) -> Result<u64> {
    let mut find = connection.prepare_cached("SELECT coalesce(max(until), 0) FROM collecting")?;
    Ok(find.query_row([], |row| unsigned_at(row, 0))?.max(now()))
}

/// Makes a stored blob visible in a workspace.
pub(crate) fn show(connection: &Connection, workspace: i64, hash: &Hash) -> Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO workspace_blob (workspace, hash, used) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET used = max(used, excluded.used)",
    )?;
    insert.execute(params![workspace, hash.as_bytes(), signed(time_of_use(connection)?)])?;
    Ok(())
}

/// Notes that a blob is named, so that it is not collected. Seldom a write: what was named within the hour is left as it is
/// unless somebody collects.
pub(crate) fn touch(connection: &Connection, workspace: i64, hash: &Hash) -> Result<()> {
    let mut touch = connection.prepare_cached(
        "UPDATE workspace_blob SET used = ?3 WHERE workspace = ?1 AND hash = ?2
         AND (used < ?3 - 3600000 OR used < ?3 AND EXISTS (SELECT 1 FROM collecting))",
    )?;
    touch.execute(params![workspace, hash.as_bytes(), signed(time_of_use(connection)?)])?;
    Ok(())
}

/// Is a blob long unused, so that being asked for must be noted? `None`: it is not visible in the workspace.
pub(crate) fn is_old(connection: &Connection, workspace: i64, hash: &Hash) -> Result<Option<bool>> {
    const DAY: u64 = 24 * 3600 * 1000;
    let mut find =
        connection.prepare_cached("SELECT used < ?3 FROM workspace_blob WHERE workspace = ?1 AND hash = ?2")?;
    let before = signed(now().saturating_sub(DAY));
    Ok(find.query_row(params![workspace, hash.as_bytes(), before], |row| row.get(0)).optional()?)
}

/// Those of the blobs that are not visible in the workspace, each once. The others are noted as named.
///
/// # Errors
/// [`StorageError::Unfit`] for one that is there with another length.
pub(crate) fn check_visible(connection: &Connection, workspace: i64, blobs: &[(Hash, u64)]) -> Result<Vec<Hash>> {
    let mut missing = Vec::new();
    for (hash, expected) in blobs {
        match length(connection, workspace, hash)? {
            Some(found) if found == *expected => touch(connection, workspace, hash)?,
            Some(found) => {
                let detail = format!("its length is {found} bytes, not {expected}");
                return Err(StorageError::Unfit { path: hash.to_string(), detail });
            }
            None => missing.push(*hash),
        }
    }
    missing.sort_unstable();
    missing.dedup();
    Ok(missing)
}
