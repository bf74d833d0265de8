//! Hashes of files whose states no entry names yet, by path, so that a scan reads each of them once.

use super::{int, uint};
use crate::fs::Signature;
use opship_record::{Hash, TreePath};
use rusqlite::{Connection, params};
use std::collections::HashMap;

/// Hashes with the signatures that the files had. A signature in which a change may not show is never kept.
pub(crate) type Hashed = HashMap<TreePath, (Signature, Hash)>;

/// All that is remembered. A path that no tree may hold is left out.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Hashed> {
    let mut statement = db.prepare_cached("SELECT path, hash, device, inode, size, mtime, ctime FROM hashed")?;
    let rows = statement.query_map([], |row| {
        let signature = Signature {
            device: row.get::<_, i64>(2)? as u64,
            inode: row.get::<_, i64>(3)? as u64,
            size: uint(row.get(4)?),
            mtime: row.get(5)?,
            ctime: row.get(6)?,
        };
        Ok((TreePath::new(row.get::<_, String>(0)?), (signature, Hash::from_bytes(row.get(1)?))))
    })?;
    let known = rows.filter_map(|row| row.map(|(path, known)| Some((path.ok()?, known))).transpose());
    known.collect()
}

/// Remembers the hash of a file.
pub(crate) fn remember(db: &Connection, path: &TreePath, signature: &Signature, hash: &Hash) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO hashed (path, hash, device, inode, size, mtime, ctime) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        path.as_str(),
        hash.as_bytes(),
        // Identities may use all 64 bits; only equality matters.
        signature.device as i64,
        signature.inode as i64,
        int(signature.size),
        signature.mtime,
        signature.ctime,
    ])?;
    Ok(())
}

/// Forgets the hash of a file.
pub(crate) fn forget(db: &Connection, path: &TreePath) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM hashed WHERE path = ?1")?.execute([path.as_str()])?;
    Ok(())
}
