//! What is kept on disk for entries: contents by hash, and displaced files.

use super::{int, uint};
use crate::fs::Signature;
use opship_record::{Hash, TreePath};
use rusqlite::{Connection, Row, params};

/// A displaced file or link: what an entry's exchange took from a path.
#[derive(Debug, Clone)]
pub(crate) struct Displaced {
    /// Where it is now, below the root.
    pub file: String,
    /// Number of the entry; 0 for a pull.
    pub entry: u64,
    /// The path that it was at.
    pub path: TreePath,
    /// The content that the run had seen there, of a file.
    pub hash: Option<Hash>,
    /// Taken after the exchange.
    pub signature: Signature,
    /// May a later write not show in the signature?
    pub racy: bool,
}

/// An entry needs a kept content.
pub(crate) fn keep(db: &Connection, hash: &Hash, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO kept (hash, entry) VALUES (?1, ?2)")?
        .execute(params![hash.as_bytes(), int(entry)])?;
    Ok(())
}

/// What is kept for one entry is kept for another too.
pub(crate) fn share(db: &Connection, hash: &Hash, from: u64, to: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR IGNORE INTO kept (hash, entry) SELECT hash, ?3 FROM kept WHERE hash = ?1 AND entry = ?2",
    )?
    .execute(params![hash.as_bytes(), int(from), int(to)])?;
    Ok(())
}

/// The contents that are kept for an entry.
pub(crate) fn kept_of(db: &Connection, entry: u64) -> rusqlite::Result<Vec<Hash>> {
    db.prepare_cached("SELECT hash FROM kept WHERE entry = ?1")?
        .query_map([int(entry)], |row| Ok(Hash::from_bytes(row.get(0)?)))?
        .collect()
}

/// An entry needs its kept contents no more; gives those that now nobody needs.
pub(crate) fn unkeep(db: &Connection, entry: u64) -> rusqlite::Result<Vec<Hash>> {
    let hashes: Vec<Hash> = db
        .prepare_cached(
            "SELECT hash FROM kept WHERE entry = ?1 AND hash NOT IN (SELECT hash FROM kept WHERE entry <> ?1)",
        )?
        .query_map([int(entry)], |row| Ok(Hash::from_bytes(row.get(0)?)))?
        .collect::<Result<_, _>>()?;
    db.prepare_cached("DELETE FROM kept WHERE entry = ?1")?.execute([int(entry)])?;
    Ok(hashes)
}

/// Remembers a displaced file.
pub(crate) fn add_displaced(db: &Connection, displaced: &Displaced) -> rusqlite::Result<()> {
    let s = &displaced.signature;
    db.prepare_cached(
        "INSERT OR REPLACE INTO displaced (file, entry, path, hash, device, inode, size, mtime, ctime, racy) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        displaced.file,
        int(displaced.entry),
        displaced.path.as_str(),
        displaced.hash.map(|h| *h.as_bytes()),
        s.device as i64,
        s.inode as i64,
        int(s.size),
        s.mtime,
        s.ctime,
        displaced.racy,
    ])?;
    Ok(())
}

/// A displaced file is kept for another entry.
pub(crate) fn give_displaced(db: &Connection, file: &str, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE displaced SET entry = ?2 WHERE file = ?1")?.execute(params![file, int(entry)])?;
    Ok(())
}

/// Forgets a displaced file.
pub(crate) fn remove_displaced(db: &Connection, file: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM displaced WHERE file = ?1")?.execute([file])?;
    Ok(())
}

/// The displaced files of an entry.
pub(crate) fn displaced_of(db: &Connection, entry: u64) -> rusqlite::Result<Vec<Displaced>> {
    db.prepare_cached(&format!("{SELECT} WHERE entry = ?1 ORDER BY path"))?.query_map([int(entry)], read)?.collect()
}

/// Displaced files that had this content.
pub(crate) fn displaced_with(db: &Connection, hash: &Hash) -> rusqlite::Result<Vec<Displaced>> {
    db.prepare_cached(&format!("{SELECT} WHERE hash = ?1"))?.query_map([hash.as_bytes()], read)?.collect()
}

/// Is any displaced file in this folder?
pub(crate) fn is_folder_used(db: &Connection, folder: &str) -> rusqlite::Result<bool> {
    let (from, to) = super::below(folder);
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM displaced WHERE file >= ?1 AND file < ?2) \
         OR EXISTS (SELECT 1 FROM intent WHERE folder = ?3)",
    )?
    .query_row(params![from, to, folder], |row| row.get(0))
}

const SELECT: &str = "SELECT file, entry, path, hash, device, inode, size, mtime, ctime, racy FROM displaced";

fn read(row: &Row<'_>) -> rusqlite::Result<Displaced> {
    Ok(Displaced {
        file: row.get(0)?,
        entry: uint(row.get(1)?),
        path: TreePath::new(row.get::<_, String>(2)?).map_err(|error| super::damaged(2, error))?,
        hash: row.get::<_, Option<[u8; 32]>>(3)?.map(Hash::from_bytes),
        signature: Signature {
            device: row.get::<_, i64>(4)? as u64,
            inode: row.get::<_, i64>(5)? as u64,
            size: uint(row.get(6)?),
            mtime: row.get(7)?,
            ctime: row.get(8)?,
        },
        racy: row.get(9)?,
    })
}

/// All entries that have displaced files; 0 for pulls.
pub(crate) fn entries_with_displaced(db: &Connection) -> rusqlite::Result<Vec<u64>> {
    db.prepare_cached("SELECT DISTINCT entry FROM displaced")?.query_map([], |row| Ok(uint(row.get(0)?)))?.collect()
}

/// Entries whose displaced files may go, and that still have some; 0 for pulls.
pub(crate) fn released_with_displaced(db: &Connection) -> rusqlite::Result<Vec<u64>> {
    db.prepare_cached(
        "SELECT DISTINCT entry FROM displaced WHERE entry = 0 OR entry IN (SELECT number FROM entry WHERE released)",
    )?
    .query_map([], |row| Ok(uint(row.get(0)?)))?
    .collect()
}

/// All displaced files, relative to the root.
pub(crate) fn displaced_files(db: &Connection) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT file FROM displaced")?.query_map([], |row| row.get(0))?.collect()
}
