//! Contents of paths that the server refused.

use super::{damaged, int};
use opship_record::{Hash, TreePath};
use rusqlite::{Connection, OptionalExtension, params};

/// A content that stays here alone.
pub(crate) struct Refused {
    /// Where it is.
    pub path: TreePath,
    /// Which it is: another one of the path is offered.
    pub hash: Hash,
    /// Why, in the server's words.
    pub reason: String,
}

/// Remembers what an entry that ended `rejected` was refused for.
pub(crate) fn add(db: &Connection, refused: &Refused, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO refused (path, hash, entry, reason) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![refused.path.as_str(), refused.hash.as_bytes(), int(entry), refused.reason])?;
    Ok(())
}

/// All, sorted by path.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<Refused>> {
    let read = |row: &rusqlite::Row<'_>| {
        let path = TreePath::new(row.get::<_, String>(0)?).map_err(|error| damaged(0, error))?;
        Ok(Refused { path, hash: Hash::from_bytes(row.get(1)?), reason: row.get(2)? })
    };
    db.prepare_cached("SELECT path, hash, reason FROM refused ORDER BY path")?.query_map([], read)?.collect()
}

/// The content that was refused at a path.
pub(crate) fn at(db: &Connection, path: &TreePath) -> rusqlite::Result<Option<Hash>> {
    db.prepare_cached("SELECT hash FROM refused WHERE path = ?1")?
        .query_row([path.as_str()], |row| Ok(Hash::from_bytes(row.get(0)?)))
        .optional()
}

/// What an entry was refused for is offered again; gives how many paths that are.
pub(crate) fn forget(db: &Connection, entry: u64) -> rusqlite::Result<usize> {
    db.prepare_cached("DELETE FROM refused WHERE entry = ?1")?.execute([int(entry)])
}
