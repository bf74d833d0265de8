//! What collecting, checking and counting ask of the database.

use super::{Result, hash_at, signed, unsigned_at};
use crate::StorageError;
use crate::module::ModuleInfo;
use crate::packs::list::Run;
use opship_record::Hash;
use opship_record::entry::{Body, BodyKind};
use opship_record::plan::{Mount, Stdin};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeSet, HashMap};

/// Rows that are looked at or removed in one go.
pub(crate) const BATCH: i64 = 500;

/// Entries whose outputs are kept whatever their age: somebody has still to decide what becomes of them.
pub(super) const UNRESOLVED: &str = "resolved IS NULL AND verdict IN ('rebased', 'conflicted', 'rejected')";

/// Number, name of each workspace.
pub(crate) fn workspaces(connection: &Connection) -> Result<Vec<(i64, String)>> {
    let mut list = connection.prepare_cached("SELECT id, name FROM workspace ORDER BY name")?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// From now on, and until [`end_collecting`], what is named counts as used at `until` at least.
pub(crate) fn begin_collecting(connection: &Connection, until: u64) -> Result<()> {
    end_collecting(connection)?;
    connection.execute("INSERT INTO collecting (until) VALUES (?1)", [signed(until)])?;
    Ok(())
}

pub(crate) fn end_collecting(connection: &Connection) -> Result<()> {
    connection.execute("DELETE FROM collecting", [])?;
    Ok(())
}

/// Does somebody collect, or was he killed at it?
pub(crate) fn is_collecting(connection: &Connection) -> Result<bool> {
    Ok(connection.prepare_cached("SELECT 1 FROM collecting")?.exists([])?)
}

/// A version as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) root: Hash,
    pub(crate) is_forgotten: bool,
}

/// All versions of a workspace, oldest first, each with its bytes.
pub(crate) fn versions(connection: &Connection, workspace: i64) -> Result<Vec<(Kept, Vec<u8>)>> {
    let mut list = connection
        .prepare_cached("SELECT number, root, forgotten, bytes FROM version WHERE workspace = ?1 ORDER BY number")?;
    let rows = list.query_map([workspace], |row| {
        let kept = Kept { number: unsigned_at(row, 0)?, root: hash_at(row, 1)?, is_forgotten: row.get(2)? };
        Ok((kept, row.get(3)?))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Forgets versions, whose trees are then no longer to be had.
pub(crate) fn forget(connection: &Connection, workspace: i64, numbers: &[u64]) -> Result<()> {
    let mut forget =
        connection.prepare_cached("UPDATE version SET forgotten = 1 WHERE workspace = ?1 AND number = ?2")?;
    for number in numbers {
        forget.execute(params![workspace, signed(*number)])?;
    }
    Ok(())
}

/// Versions that entries which are not resolved speak of.
pub(crate) fn unresolved_versions(connection: &Connection, workspace: i64) -> Result<BTreeSet<u64>> {
    let sql = format!("SELECT version FROM entry WHERE workspace = ?1 AND {UNRESOLVED}");
    let mut list = connection.prepare_cached(&sql)?;
    let rows = list.query_map([workspace], |row| unsigned_at(row, 0))?;
    let ended_at = rows.collect::<rusqlite::Result<Vec<u64>>>()?;
    Ok(ended_at.into_iter().flat_map(|number| [number.saturating_sub(1), number]).collect())
}

/// What is kept beside the trees of versions.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) blobs: BTreeSet<Hash>,
    pub(crate) trees: BTreeSet<Hash>,
}

/// What a workspace's modules, its entries since `since` (and those not resolved), and uploads since `used` name.
pub(crate) fn named(connection: &Connection, workspace: i64, since: u64, used: u64) -> Result<Named> {
    let mut named = Named::default();
    for module in super::modules::own(connection, workspace)? {
        let ModuleInfo { hash, mounts, .. } = module;
        named.blobs.insert(hash);
        named.trees.extend(mounts.iter().map(|mount: &Mount| mount.tree));
    }
    let sql = format!("SELECT id, kind, body FROM entry WHERE workspace = ?1 AND (time >= ?2 OR {UNRESOLVED})");
    let mut entries = connection.prepare_cached(&sql)?;
    let mut pins = connection.prepare_cached("SELECT hash FROM pin WHERE entry = ?1")?;
    let mut rows = entries.query(params![workspace, signed(since)])?;
    while let Some(row) = rows.next()? {
        for hash in pins.query_map([row.get::<_, i64>(0)?], |row| hash_at(row, 0))? {
            named.blobs.insert(hash?);
        }
        if row.get::<_, i64>(1)? == 0 {
            of_operation(row.get_ref(2)?.as_blob().map_err(StorageError::damaged)?, &mut named)?;
        }
    }
    let mut nodes = connection.prepare_cached("SELECT hash FROM workspace_node WHERE workspace = ?1 AND used >= ?2")?;
    for hash in nodes.query_map(params![workspace, signed(used)], |row| hash_at(row, 0))? {
        named.trees.insert(hash?);
    }
    Ok(named)
}

fn of_operation(body: &[u8], named: &mut Named) -> Result<()> {
    let Body::Operation(record) = Body::decode(BodyKind::Operation, body).map_err(StorageError::damaged)? else {
        return Ok(());
    };
    for step in &record.plan.steps {
        named.blobs.insert(step.module);
        named.trees.extend(step.mounts.iter().flatten().map(|mount| mount.tree));
        if let Some(Stdin::Blob { hash }) = &step.stdin {
            named.blobs.insert(*hash);
        }
    }
    Ok(())
}

/// Uploaded nodes of the workspace that were last named before `used`.
pub(crate) fn old_uploads(connection: &Connection, workspace: i64, used: u64) -> Result<Vec<Hash>> {
    let mut list = connection.prepare_cached("SELECT hash FROM workspace_node WHERE workspace = ?1 AND used < ?2")?;
    let rows = list.query_map(params![workspace, signed(used)], |row| hash_at(row, 0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn remove_upload(connection: &Connection, workspace: i64, hash: &Hash) -> Result<()> {
    let mut remove = connection.prepare_cached("DELETE FROM workspace_node WHERE workspace = ?1 AND hash = ?2")?;
    remove.execute(params![workspace, hash.as_bytes()])?;
    Ok(())
}

/// Some blobs of the workspace that were last named before `used`, in order, behind `after`.
pub(crate) fn old_blobs(connection: &Connection, workspace: i64, used: u64, after: &Hash) -> Result<Vec<Hash>> {
    let mut list = connection.prepare_cached(
        "SELECT hash FROM workspace_blob WHERE workspace = ?1 AND hash > ?2 AND used < ?3 ORDER BY hash LIMIT ?4",
    )?;
    let rows = list.query_map(params![workspace, after.as_bytes(), signed(used), BATCH], |row| hash_at(row, 0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Takes a blob out of a workspace, with the pins that hold no longer, unless it was named since `used`.
pub(crate) fn hide_blob(connection: &Connection, workspace: i64, hash: &Hash, used: u64) -> Result<bool> {
    let mut hide =
        connection.prepare_cached("DELETE FROM workspace_blob WHERE workspace = ?1 AND hash = ?2 AND used < ?3")?;
    if hide.execute(params![workspace, hash.as_bytes(), signed(used)])? == 0 {
        return Ok(false);
    }
    let mut unpin = connection
        .prepare_cached("DELETE FROM pin WHERE hash = ?1 AND entry IN (SELECT id FROM entry WHERE workspace = ?2)")?;
    unpin.execute(params![hash.as_bytes(), workspace])?;
    Ok(true)
}

/// Row number and hash of some nodes behind `after`.
pub(crate) fn nodes(connection: &Connection, after: i64) -> Result<Vec<(i64, Hash)>> {
    let mut list =
        connection.prepare_cached("SELECT rowid, hash FROM node WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?;
    let rows = list.query_map([after, BATCH], |row| Ok((row.get(0)?, hash_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Hash and length of each blob of the workspace.
pub(crate) fn lengths(connection: &Connection, workspace: i64) -> Result<HashMap<Hash, u64>> {
    let mut list = connection
        .prepare_cached("SELECT hash, length FROM workspace_blob JOIN blob USING (hash) WHERE workspace = ?1")?;
    let rows = list.query_map([workspace], |row| Ok((hash_at(row, 0)?, unsigned_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Removes a node, unless an upload still names it.
pub(crate) fn remove_node(connection: &Connection, hash: &Hash) -> Result<bool> {
    let mut remove = connection.prepare_cached(
        "DELETE FROM node WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM workspace_node WHERE hash = ?1)",
    )?;
    Ok(remove.execute([hash.as_bytes()])? > 0)
}

/// A blob as collecting and checking see it.
#[derive(Debug)]
pub(crate) struct BlobRow {
    pub(crate) row: i64,
    pub(crate) hash: Hash,
    pub(crate) length: u64,
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) chunks: Option<Vec<u8>>,
    /// Workspaces in which it is visible, and modules of the server that it is. (Who pins it, or has it as a module, sees it.)
    pub(crate) names: u64,
}

/// At most `limit` blobs behind `after`.
pub(crate) fn blobs(connection: &Connection, after: i64, limit: i64) -> Result<Vec<BlobRow>> {
    let mut list = connection.prepare_cached(
        "SELECT rowid, hash, length, bytes, chunks,
             (SELECT count(*) FROM workspace_blob b WHERE b.hash = blob.hash)
             + (SELECT count(*) FROM standard_module s WHERE s.hash = blob.hash)
         FROM blob WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
    )?;
    let rows = list.query_map([after, limit], |row| {
        Ok(BlobRow {
            row: row.get(0)?,
            hash: hash_at(row, 1)?,
            length: unsigned_at(row, 2)?,
            bytes: row.get(3)?,
            chunks: row.get(4)?,
            names: unsigned_at(row, 5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Removes a blob that nobody names. `None`: somebody does; else whether its bytes are in a file.
pub(crate) fn remove_blob(connection: &Connection, hash: &Hash) -> Result<Option<bool>> {
    let mut remove = connection.prepare_cached(
        "DELETE FROM blob WHERE hash = ?1
         AND NOT EXISTS (SELECT 1 FROM workspace_blob WHERE hash = ?1)
         AND NOT EXISTS (SELECT 1 FROM standard_module WHERE hash = ?1)
         AND NOT EXISTS (SELECT 1 FROM module WHERE hash = ?1)
         AND NOT EXISTS (SELECT 1 FROM pin WHERE hash = ?1) RETURNING bytes IS NULL AND chunks IS NULL",
    )?;
    Ok(remove.query_row([hash.as_bytes()], |row| row.get(0)).optional()?)
}

/// Is there a blob of this hash in a file?
pub(crate) fn is_in_file(connection: &Connection, hash: &Hash) -> Result<bool> {
    let mut find =
        connection.prepare_cached("SELECT 1 FROM blob WHERE hash = ?1 AND bytes IS NULL AND chunks IS NULL")?;
    Ok(find.exists([hash.as_bytes()])?)
}

/// Number and stored bytes of some chunks behind `after`.
pub(crate) fn chunks(connection: &Connection, after: i64) -> Result<Vec<(i64, u64)>> {
    let mut list = connection.prepare_cached("SELECT id, stored FROM chunk WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = list.query_map([after, BATCH], |row| Ok((row.get(0)?, unsigned_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn remove_chunk(connection: &Connection, chunk: i64) -> Result<()> {
    connection.prepare_cached("DELETE FROM chunk WHERE id = ?1")?.execute([chunk])?;
    Ok(())
}

/// Number, length and bytes of chunks in it, of each pack.
pub(crate) fn pack_use(connection: &Connection) -> Result<Vec<(i64, u64, u64)>> {
    let mut list = connection.prepare_cached(
        "SELECT id, length, (SELECT coalesce(sum(stored), 0) FROM chunk WHERE pack = pack.id) FROM pack ORDER BY id",
    )?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, unsigned_at(row, 1)?, unsigned_at(row, 2)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Removes a pack that no chunk is in. `false`: one is.
pub(crate) fn remove_pack(connection: &Connection, pack: i64) -> Result<bool> {
    let mut remove = connection
        .prepare_cached("DELETE FROM pack WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM chunk WHERE pack = ?1)")?;
    Ok(remove.execute([pack])? > 0)
}

/// Hash, length and list of chunks of a larger blob.
pub(crate) type Large = (Hash, u64, Option<Vec<u8>>);

/// Bytes of small blobs of the workspace, and the lists of larger ones.
pub(crate) fn workspace_bytes(connection: &Connection, workspace: i64) -> Result<(u64, Vec<Large>)> {
    let mut small = connection.prepare_cached(
        "SELECT coalesce(sum(length), 0) FROM workspace_blob JOIN blob USING (hash)
         WHERE workspace = ?1 AND bytes IS NOT NULL",
    )?;
    let small = small.query_row([workspace], |row| unsigned_at(row, 0))?;
    let mut large = connection.prepare_cached(
        "SELECT hash, length, chunks FROM workspace_blob JOIN blob USING (hash)
         WHERE workspace = ?1 AND bytes IS NULL",
    )?;
    let rows = large.query_map([workspace], |row| Ok((hash_at(row, 0)?, unsigned_at(row, 1)?, row.get(2)?)))?;
    Ok((small, rows.collect::<rusqlite::Result<_>>()?))
}

/// Stored bytes of a run of chunks.
pub(crate) fn stored_in(connection: &Connection, run: &Run) -> Result<Vec<(i64, u64)>> {
    let mut list = connection.prepare_cached("SELECT id, stored FROM chunk WHERE id BETWEEN ?1 AND ?2")?;
    let rows = list.query_map([run.first, run.last()], |row| Ok((row.get(0)?, unsigned_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
