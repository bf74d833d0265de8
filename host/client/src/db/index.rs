//! The index: the state of each path after all entries of the log.

use super::{below, damaged, int, uint};
use crate::fs::Signature;
use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use std::collections::HashMap;

/// One path of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The state.
    pub node: Node,
    /// The signature of the file that had this state; `None`: not known, so the file is compared by hash.
    pub signature: Option<Signature>,
    /// Was the signature taken too soon after the file's last change to be trusted?
    pub racy: bool,
    /// Does the server hold this state?
    pub synced: bool,
    /// Number of the entry that made the state; 0 for what was pulled.
    pub entry: u64,
}

impl Row {
    /// Does the signature prove that a file has this row's content?
    pub(crate) fn is_proved_by(&self, signature: &Signature) -> bool {
        !self.racy && self.signature.as_ref() == Some(signature)
    }

    /// The content's hash, of a file.
    pub(crate) fn hash(&self) -> Option<Hash> {
        match &self.node {
            Node::File { hash, .. } => Some(*hash),
            _ => None,
        }
    }
}

const COLUMNS: &str = "path, kind, mode, mtime, length, hash, target, device, inode, size, disk_mtime, disk_ctime, racy, \
                       synced, entry";

fn read(row: &SqlRow<'_>) -> rusqlite::Result<(TreePath, Row)> {
    let path = TreePath::new(row.get::<_, String>(0)?).map_err(|error| damaged(0, error))?;
    let node = match row.get::<_, u8>(1)? {
        0 => Node::File {
            mode: row.get(2)?,
            mtime: row.get(3)?,
            length: uint(row.get(4)?),
            hash: Hash::from_bytes(row.get(5)?),
        },
        1 => Node::Directory { mode: row.get(2)? },
        _ => Node::Symlink { mtime: row.get(3)?, target: row.get(6)? },
    };
    let signature = match row.get::<_, Option<i64>>(8)? {
        Some(inode) => Some(Signature {
            device: row.get::<_, i64>(7)? as u64,
            inode: inode as u64,
            size: uint(row.get(9)?),
            mtime: row.get(10)?,
            ctime: row.get(11)?,
        }),
        None => None,
    };
    Ok((path, Row { node, signature, racy: row.get(12)?, synced: row.get(13)?, entry: uint(row.get(14)?) }))
}

/// The row of a path.
pub(crate) fn get(db: &Connection, path: &TreePath) -> rusqlite::Result<Option<Row>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM node WHERE path = ?1"))?;
    statement.query_row([path.as_str()], |row| Ok(read(row)?.1)).optional()
}

/// The paths of files of ignore rules, in byte order.
pub(crate) fn rule_files(db: &Connection) -> rusqlite::Result<Vec<TreePath>> {
    // The condition is that of the index `node_rules`, word for word, so that it is used.
    let mut statement = db.prepare_cached(
        "SELECT path FROM node WHERE path = '.opshipignore' OR path GLOB '*/.opshipignore' ORDER BY path",
    )?;
    let path = |row: &SqlRow<'_>| TreePath::new(row.get::<_, String>(0)?).map_err(|error| damaged(0, error));
    statement.query_map([], path)?.collect()
}

/// The rows directly in a directory, in byte order.
pub(crate) fn children(db: &Connection, path: &TreePath) -> rusqlite::Result<Vec<(TreePath, Row)>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM node WHERE parent = ?1 ORDER BY path"))?;
    statement.query_map([path.as_str()], read)?.collect()
}

/// The rows below a path, at any depth, in byte order; all rows for the root.
pub(crate) fn all_below(db: &Connection, path: &TreePath) -> rusqlite::Result<Vec<(TreePath, Row)>> {
    let (from, to) = below(path.as_str());
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM node WHERE path >= ?1 AND path < ?2 ORDER BY path"))?;
    statement.query_map([from, to], read)?.collect()
}

/// All rows by the folder that they are in, each folder's in byte order: one pass over the table.
pub(crate) fn by_folder(db: &Connection) -> rusqlite::Result<HashMap<TreePath, Vec<(TreePath, Row)>>> {
    let mut folders: HashMap<TreePath, Vec<(TreePath, Row)>> = HashMap::new();
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM node ORDER BY path"))?;
    for row in statement.query_map([], read)? {
        let (path, row) = row?;
        folders.entry(path.parent().unwrap_or_default()).or_default().push((path, row));
    }
    Ok(folders)
}

/// Some path whose state is a file with this content.
pub(crate) fn path_of_hash(db: &Connection, hash: &Hash) -> rusqlite::Result<Vec<(TreePath, Row)>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM node WHERE hash = ?1 LIMIT 16"))?;
    statement.query_map([hash.as_bytes()], read)?.collect()
}

/// The paths whose text holds this, with their kinds, in byte order.
pub(crate) fn paths_like(db: &Connection, text: &str) -> rusqlite::Result<Vec<(TreePath, Kind)>> {
    let sql = format!("SELECT {COLUMNS} FROM node WHERE instr(path, ?1) ORDER BY path");
    let rows = db.prepare_cached(&sql)?.query_map([text], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows.into_iter().map(|(path, row)| (path, row.node.kind())).collect())
}

/// Sets the row of a path.
pub(crate) fn put(db: &Connection, path: &TreePath, row: &Row) -> rusqlite::Result<()> {
    let (mode, mtime, length, hash, target) = match &row.node {
        Node::File { mode, mtime, length, hash } => (*mode, *mtime, *length, Some(hash.as_bytes()), None),
        Node::Directory { mode } => (*mode, 0, 0, None, None),
        Node::Symlink { mtime, target } => (0, *mtime, 0, None, Some(target)),
    };
    let kind = row.node.kind() as u8;
    let s = row.signature.as_ref();
    let parent = path.parent().unwrap_or_default();
    db.prepare_cached(
        "INSERT OR REPLACE INTO node (path, parent, kind, mode, mtime, length, hash, target, device, inode, size, \
         disk_mtime, disk_ctime, racy, synced, entry) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?
    .execute(params![
        path.as_str(),
        parent.as_str(),
        kind,
        mode,
        mtime,
        int(length),
        hash,
        target,
        // Identities may use all 64 bits; only equality matters.
        s.map(|s| s.device as i64),
        s.map(|s| s.inode as i64),
        s.map(|s| int(s.size)),
        s.map(|s| s.mtime),
        s.map(|s| s.ctime),
        row.racy,
        row.synced,
        int(row.entry),
    ])?;
    Ok(())
}

/// Takes a path out of the index; one that is not in it is fine.
pub(crate) fn remove(db: &Connection, path: &TreePath) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM node WHERE path = ?1")?.execute([path.as_str()])?;
    Ok(())
}

/// Remembers a newer signature of the same state.
pub(crate) fn refresh(db: &Connection, path: &TreePath, signature: &Signature, racy: bool) -> rusqlite::Result<()> {
    if let Some(row) = get(db, path)? {
        put(db, path, &Row { signature: Some(*signature), racy, ..row })?;
    }
    Ok(())
}

/// The server holds all states that an entry made.
pub(crate) fn mark_synced(db: &Connection, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE node SET synced = 1 WHERE entry = ?1")?.execute([int(entry)])?;
    Ok(())
}

/// The state of a path that one entry made counts as made by another.
pub(crate) fn move_origin(db: &Connection, path: &TreePath, from: u64, to: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE node SET entry = ?3 WHERE path = ?1 AND entry = ?2")?.execute(params![
        path.as_str(),
        int(from),
        int(to)
    ])?;
    Ok(())
}

/// The kind that the index holds at a path; the root is a directory.
pub(crate) fn kind(db: &Connection, path: &TreePath) -> rusqlite::Result<Option<Kind>> {
    if path.is_root() {
        return Ok(Some(Kind::Directory));
    }
    Ok(get(db, path)?.map(|row| row.node.kind()))
}
