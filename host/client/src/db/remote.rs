//! What is known of the server: the version that the last pull brought, and paths that it left alone.

use crate::ClientError;
use crate::log::Deferred;
use opship_record::{TreePath, codec};
use rusqlite::{Connection, params};

/// Replaces what is deferred at a path.
pub(crate) fn defer(db: &Connection, deferred: &Deferred) -> rusqlite::Result<()> {
    let node = deferred.node.as_ref().map(codec::encode);
    db.prepare_cached("INSERT OR REPLACE INTO deferred (path, node, reason) VALUES (?1, ?2, ?3)")?.execute(params![
        deferred.path.as_str(),
        node,
        deferred.reason
    ])?;
    Ok(())
}

/// A path is deferred no more.
pub(crate) fn undefer(db: &Connection, path: &TreePath) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM deferred WHERE path = ?1")?.execute([path.as_str()])?;
    Ok(())
}

/// All deferred paths, sorted.
pub(crate) fn deferred(db: &Connection) -> Result<Vec<Deferred>, ClientError> {
    type Stored = (String, Option<Vec<u8>>, String);
    let rows: Vec<Stored> = db
        .prepare_cached("SELECT path, node, reason FROM deferred ORDER BY path")?
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let items = rows.into_iter().map(|(path, node, reason)| {
        let path = TreePath::new(path).map_err(opship_record::Error::from)?;
        let node = node.map(|bytes| codec::decode(&bytes, "deferred state")).transpose()?;
        Ok(Deferred { path, node, reason })
    });
    items.collect()
}
