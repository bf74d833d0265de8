//! What entries that ended `conflicted` or `rebased` left to decide, and whether the server has been told that it is.

use super::{damaged, int, uint};
use opship_record::TreePath;
use rusqlite::{Connection, Row, params};

/// Something to decide: an entry's own state of a path, which is not the one at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecided {
    /// Number of the entry.
    pub entry: u64,
    /// The path.
    pub path: TreePath,
    /// Where the entry's own bytes are beside it; `None`: only the server keeps them, pinned by the entry.
    pub copy: Option<TreePath>,
}

/// Remembers something to decide.
pub(crate) fn add(db: &Connection, undecided: &Undecided) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO undecided (entry, path, copy) VALUES (?1, ?2, ?3)")?.execute(params![
        int(undecided.entry),
        undecided.path.as_str(),
        undecided.copy.as_ref().map(TreePath::as_str)
    ])?;
    Ok(())
}

/// All that is to be decided, sorted by path.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<Undecided>> {
    db.prepare_cached("SELECT entry, path, copy FROM undecided ORDER BY path, entry")?.query_map([], read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Undecided> {
    let path = |column: usize, text: String| TreePath::new(text).map_err(|error| damaged(column, error));
    Ok(Undecided {
        entry: uint(row.get(0)?),
        path: path(1, row.get(1)?)?,
        copy: row.get::<_, Option<String>>(2)?.map(|copy| path(2, copy)).transpose()?,
    })
}

/// Something is decided.
pub(crate) fn remove(db: &Connection, entry: u64, path: &TreePath) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM undecided WHERE entry = ?1 AND path = ?2")?
        .execute(params![int(entry), path.as_str()])?;
    Ok(())
}

/// The server pins something for an entry until it is told that nothing is left to decide.
pub(crate) fn add_pinned(db: &Connection, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO pinned (entry) VALUES (?1)")?.execute([int(entry)])?;
    Ok(())
}

/// Numbers of the entries of which nothing is left to decide, and the server has not been told.
pub(crate) fn untold(db: &Connection) -> rusqlite::Result<Vec<u64>> {
    db.prepare_cached("SELECT entry FROM pinned WHERE entry NOT IN (SELECT entry FROM undecided) ORDER BY entry")?
        .query_map([], |row| Ok(uint(row.get(0)?)))?
        .collect()
}

/// The server knows.
pub(crate) fn remove_pinned(db: &Connection, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM pinned WHERE entry = ?1")?.execute([int(entry)])?;
    Ok(())
}
