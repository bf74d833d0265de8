//! Chunks and the packs that hold them.

use super::{Result, hash_at, signed, unsigned_at};
use opship_record::Hash;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Where a chunk's stored form is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pack: i64,
    pub(crate) offset: u64,
    /// Bytes of the stored form; as many as the chunk has if it is not compressed.
    pub(crate) stored: u64,
}

/// A chunk that is to be named.
pub(crate) struct NewChunk {
    pub(crate) hash: Hash,
    pub(crate) length: u64,
    pub(crate) place: Place,
}

/// A chunk as the database knows it.
#[derive(Debug, Clone)]
pub(crate) struct StoredChunk {
    pub(crate) id: i64,
    pub(crate) hash: Hash,
    pub(crate) length: u64,
    pub(crate) place: Place,
}

const COLUMNS: &str = "id, hash, length, pack, offset, stored";

fn chunk_at(row: &Row<'_>) -> rusqlite::Result<StoredChunk> {
    let place = Place { pack: row.get(3)?, offset: unsigned_at(row, 4)?, stored: unsigned_at(row, 5)? };
    Ok(StoredChunk { id: row.get(0)?, hash: hash_at(row, 1)?, length: unsigned_at(row, 2)?, place })
}

/// The number of the chunk with this hash, whoever has it. For sparing a second copy only.
pub(crate) fn number(connection: &Connection, hash: &Hash) -> Result<Option<i64>> {
    let mut find = connection.prepare_cached("SELECT id FROM chunk WHERE hash = ?1")?;
    Ok(find.query_row([hash.as_bytes()], |row| row.get(0)).optional()?)
}

/// The chunk with this hash, whoever has it.
pub(crate) fn by_hash(connection: &Connection, hash: &Hash) -> Result<Option<StoredChunk>> {
    let mut find = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM chunk WHERE hash = ?1"))?;
    Ok(find.query_row([hash.as_bytes()], chunk_at).optional()?)
}

/// Numbers and hashes of the chunks whose hash begins so.
pub(crate) fn by_prefix(connection: &Connection, prefix: &[u8; 8]) -> Result<Vec<(i64, Hash)>> {
    let (mut low, mut high) = ([0; 32], [0xff; 32]);
    low[..8].copy_from_slice(prefix);
    high[..8].copy_from_slice(prefix);
    let mut find = connection.prepare_cached("SELECT id, hash FROM chunk WHERE hash BETWEEN ?1 AND ?2")?;
    let rows = find.query_map(params![low, high], |row| Ok((row.get(0)?, hash_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The chunks of these numbers that there are, in order.
pub(crate) fn between(connection: &Connection, first: i64, last: i64) -> Result<Vec<StoredChunk>> {
    let sql = format!("SELECT {COLUMNS} FROM chunk WHERE id BETWEEN ?1 AND ?2 ORDER BY id");
    let mut find = connection.prepare_cached(&sql)?;
    let rows = find.query_map([first, last], chunk_at)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Names a chunk, unless one of its hash is here. Gives the number of the one that is.
pub(crate) fn insert(connection: &Connection, chunk: &NewChunk) -> Result<i64> {
    if let Some(number) = number(connection, &chunk.hash)? {
        return Ok(number);
    }
    let mut insert = connection
        .prepare_cached("INSERT INTO chunk (hash, length, pack, offset, stored) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let Place { pack, offset, stored } = chunk.place;
    let values = params![chunk.hash.as_bytes(), signed(chunk.length), pack, signed(offset), signed(stored)];
    Ok(insert.insert(values)?)
}

/// Notes how long a pack is.
pub(crate) fn set_pack(connection: &Connection, pack: i64, length: u64) -> Result<()> {
    let mut set = connection.prepare_cached(
        "INSERT INTO pack (id, length) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET length = excluded.length",
    )?;
    set.execute(params![pack, signed(length)])?;
    Ok(())
}

/// Number and length of each pack.
pub(crate) fn packs(connection: &Connection) -> Result<Vec<(i64, u64)>> {
    let mut list = connection.prepare_cached("SELECT id, length FROM pack ORDER BY id")?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, unsigned_at(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Does the database know the pack?
pub(crate) fn is_pack(connection: &Connection, pack: i64) -> Result<bool> {
    Ok(connection.prepare_cached("SELECT 1 FROM pack WHERE id = ?1")?.exists([pack])?)
}

/// The chunks of a pack, in the order in which they lie there.
pub(crate) fn in_pack(connection: &Connection, pack: i64) -> Result<Vec<StoredChunk>> {
    let mut find =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM chunk WHERE pack = ?1 ORDER BY offset"))?;
    let rows = find.query_map([pack], chunk_at)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Notes that a chunk is elsewhere now.
pub(crate) fn set_place(connection: &Connection, chunk: i64, place: &Place) -> Result<()> {
    let mut set = connection.prepare_cached("UPDATE chunk SET pack = ?2, offset = ?3, stored = ?4 WHERE id = ?1")?;
    set.execute(params![chunk, place.pack, signed(place.offset), signed(place.stored)])?;
    Ok(())
}
