//! Which blobs there are, where they are visible, and the bytes of small ones.

use super::{Result, signed, unsigned_at};
use crate::StorageError;
use opship_record::Hash;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A blob as the database knows it.
pub(crate) struct StoredBlob {
    pub(crate) length: u64,
    /// The bytes of a small one; a larger one's are in the blob store.
    pub(crate) bytes: Option<Vec<u8>>,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredBlob> {
    Ok(StoredBlob { length: unsigned_at(row, 0)?, bytes: row.get(1)? })
}

/// The blob, if it is visible in the workspace.
pub(crate) fn find(connection: &Connection, workspace: i64, hash: &Hash) -> Result<Option<StoredBlob>> {
    let mut find = connection.prepare_cached(
        "SELECT length, bytes FROM workspace_blob JOIN blob USING (hash) WHERE workspace = ?1 AND hash = ?2",
    )?;
    Ok(find.query_row(params![workspace, hash.as_bytes()], stored).optional()?)
}

/// The blob, if it is or was one of the server's own modules.
pub(crate) fn find_standard(connection: &Connection, hash: &Hash) -> Result<Option<StoredBlob>> {
    let mut find = connection.prepare_cached(
        "SELECT length, bytes FROM blob WHERE hash = ?1 AND hash IN (SELECT hash FROM standard_module)",
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

/// Stores a blob. `bytes` is `None` for one that is durable in the blob store.
pub(crate) fn insert(connection: &Connection, hash: &Hash, length: u64, bytes: Option<&[u8]>) -> Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO blob (hash, length, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING")?;
    insert.execute(params![hash.as_bytes(), signed(length), bytes])?;
    Ok(())
}

/// Makes a stored blob visible in a workspace.
pub(crate) fn show(connection: &Connection, workspace: i64, hash: &Hash) -> Result<()> {
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO workspace_blob VALUES (?1, ?2)")?;
    insert.execute(params![workspace, hash.as_bytes()])?;
    Ok(())
}

/// Those of the blobs that are not visible in the workspace, each once.
///
/// # Errors
/// [`StorageError::Unfit`] for one that is there with another length.
pub(crate) fn check_visible(connection: &Connection, workspace: i64, blobs: &[(Hash, u64)]) -> Result<Vec<Hash>> {
    let mut missing = Vec::new();
    for (hash, expected) in blobs {
        match length(connection, workspace, hash)? {
            Some(found) if found == *expected => {}
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
