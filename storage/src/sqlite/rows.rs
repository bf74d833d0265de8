//! Rows as checking sees them: nothing in them is trusted, and what is wrong with one is said in words.

use super::upkeep::UNRESOLVED;
use super::{Result, entries, hash_at, sums, unsigned_at};
use crate::access::{Role, check_name};
use crate::settings::Setting;
use crate::{StorageError, pack};
use opship_record::answer::Difference;
use opship_record::entry::{Body, BodyKind};
use opship_record::record::Record;
use opship_record::{Hash, codec};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

/// What SQLite itself finds wrong, indexes included.
pub(crate) fn integrity(connection: &Connection) -> Result<Vec<String>> {
    let mut check = connection.prepare("PRAGMA integrity_check(100)")?;
    let found = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(found.into_iter().filter(|text| text != "ok").collect())
}

/// Rows that refer to what is not there: table and row.
pub(crate) fn dangling(connection: &Connection) -> Result<Vec<String>> {
    let mut check = connection.prepare("PRAGMA foreign_key_check")?;
    let found = check.query_map([], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        Ok(format!("a row of '{table}' names a {parent} that is not there"))
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// The highest row number of a table.
pub(crate) fn last_row(connection: &Connection, table: &str) -> Result<i64> {
    Ok(connection.query_row(&format!("SELECT coalesce(max(rowid), 0) FROM {table}"), [], |row| row.get(0))?)
}

/// Row number, hash and bytes of at most `limit` nodes behind `after`.
pub(crate) fn nodes(connection: &Connection, after: i64, limit: i64) -> Result<Vec<(i64, Hash, Vec<u8>)>> {
    let mut list =
        connection.prepare_cached("SELECT rowid, hash, bytes FROM node WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?;
    let rows = list.query_map([after, limit], |row| Ok((row.get(0)?, hash_at(row, 1)?, row.get(2)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A version as it stands in its row.
#[derive(Debug)]
pub(crate) struct VersionRow {
    pub(crate) number: u64,
    pub(crate) id: Vec<u8>,
    pub(crate) root: Vec<u8>,
    pub(crate) is_forgotten: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The versions `first..=last` of a workspace, oldest first.
pub(crate) fn versions(connection: &Connection, workspace: i64, first: i64, last: i64) -> Result<Vec<VersionRow>> {
    let mut list = connection.prepare_cached(
        "SELECT number, id, root, forgotten, bytes FROM version WHERE workspace = ?1 AND number BETWEEN ?2 AND ?3
         ORDER BY number",
    )?;
    let rows = list.query_map([workspace, first, last], |row| {
        let (number, is_forgotten) = (unsigned_at(row, 0)?, row.get(3)?);
        Ok(VersionRow { number, id: row.get(1)?, root: row.get(2)?, is_forgotten, bytes: row.get(4)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The entry that made a version, as far as a version speaks of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    pub(crate) client: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) body: Vec<u8>,
}

/// What the entries of a workspace say of its versions.
#[derive(Debug)]
pub(crate) struct Makers {
    /// Who made which version, oldest first.
    pub(crate) by_version: Vec<(u64, Maker)>,
    /// The highest version that any entry speaks of.
    pub(crate) last: u64,
}

/// The versions of a workspace and what its entries say of them, both as of one moment.
pub(crate) fn history(connection: &Connection, workspace: i64) -> Result<(Vec<VersionRow>, Makers)> {
    let _moment = connection.unchecked_transaction()?;
    Ok((versions(connection, workspace, 0, i64::MAX)?, makers(connection, workspace)?))
}

/// What the entries of a workspace say of its versions.
pub(crate) fn makers(connection: &Connection, workspace: i64) -> Result<Makers> {
    let mut list = connection.prepare_cached(
        "SELECT version, client, sequence, body_id FROM entry WHERE workspace = ?1 AND made_version ORDER BY version",
    )?;
    let rows = list.query_map([workspace], |row| {
        Ok((unsigned_at(row, 0)?, Maker { client: row.get(1)?, sequence: unsigned_at(row, 2)?, body: row.get(3)? }))
    })?;
    let by_version = rows.collect::<rusqlite::Result<_>>()?;
    let mut last = connection.prepare_cached("SELECT coalesce(max(version), 0) FROM entry WHERE workspace = ?1")?;
    Ok(Makers { by_version, last: last.query_row([workspace], |row| unsigned_at(row, 0))? })
}

/// The number that the newest entry has or had. Numbers are given without gaps, and entries stay.
pub(crate) fn last_entry(connection: &Connection) -> Result<i64> {
    let mut find = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'entry'")?;
    Ok(find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// An entry that was looked at.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub(crate) id: i64,
    /// Has it a checksum?
    pub(crate) is_summed: bool,
    /// What is wrong with it.
    pub(crate) faults: Vec<String>,
}

/// Looks at no more than `limit` entries behind `after`.
pub(crate) fn entries(connection: &Connection, after: i64, limit: i64) -> Result<Vec<EntryRow>> {
    let columns = sums::COLUMNS.join(", ");
    let sql = format!("SELECT id, sum, {UNRESOLVED}, {columns} FROM entry WHERE id > ?1 ORDER BY id LIMIT ?2");
    let mut list = connection.prepare_cached(&sql)?;
    let mut rows = list.query([after, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let sum: Option<Vec<u8>> = row.get(1)?;
        let mut faults = Vec::new();
        let columns =
            (0..sums::COLUMNS.len()).map(|column| row.get_ref(column + 3)).collect::<rusqlite::Result<Vec<_>>>()?;
        if sum.as_ref().is_some_and(|sum| *sum != sums::of_columns(columns)) {
            faults.push("has another checksum".to_owned());
        }
        if let Err(error) = read_entry(row) {
            faults.push(format!("cannot be read: {error}"));
        }
        // What others are done with may go; what somebody has still to decide about may not.
        let pinned: Option<Vec<u8>> = row.get("pinned")?;
        if let Some(pinned) = pinned.filter(|_| row.get(2).unwrap_or(true)) {
            let mut pins = connection.prepare_cached("SELECT hash FROM pin WHERE entry = ?1")?;
            let pins = pins.query_map([id], |row| hash_at(row, 0))?.collect::<rusqlite::Result<Vec<_>>>()?;
            if pinned != sums::of_pins(&pins) {
                faults.push("does not pin what it pinned".to_owned());
            }
        }
        found.push(EntryRow { id, is_summed: sum.is_some(), faults });
    }
    Ok(found)
}

/// Reads all that an entry holds, as if somebody asked for it.
fn read_entry(row: &Row<'_>) -> Result<()> {
    let text = |column: &str| row.get::<_, Option<String>>(column);
    let bytes = |column: &str| row.get::<_, Option<Vec<u8>>>(column);
    let kind = match row.get("kind")? {
        0i64 => BodyKind::Operation,
        1 => BodyKind::Value,
        other => return Err(StorageError::damaged(format!("unknown kind {other}"))),
    };
    let body = Body::decode(kind, &bytes("body")?.unwrap_or_default()).map_err(StorageError::damaged)?;
    if row.get_ref("body_id")? != ValueRef::Blob(body.id().as_bytes()) {
        return Err(StorageError::damaged("its body has another id"));
    }
    pack::unpack_lists(&bytes("lists")?.unwrap_or_default())?;
    entries::verdict(&text("verdict")?.unwrap_or_default())?;
    text("reason")?.as_deref().map(entries::reason).transpose()?;
    if let Some(report) = bytes("report")? {
        codec::decode::<Vec<Difference>>(&report, "report").map_err(StorageError::damaged)?;
    }
    bytes("rebased")?.as_deref().map(Record::decode).transpose().map_err(StorageError::damaged)?;
    Ok(())
}

/// Rows that say what cannot be; each query gives them in words.
const UNLIKELY: [&str; 10] = [
    "SELECT 'principal ' || id || ' is neither an administrator nor none' FROM principal WHERE admin NOT IN (0, 1)",
    "SELECT 'a token of principal ' || principal || ' is none' FROM token
     WHERE length(hash) <> 32 OR from_file NOT IN (0, 1)",
    "SELECT 'principal ' || principal || ' has an unknown role in workspace ' || workspace FROM access
     WHERE role NOT BETWEEN ?1 AND ?2",
    "SELECT 'module ''' || name || ''' of workspace ' || workspace || ' has an unknown role, or a content that is not there'
     FROM module WHERE role NOT BETWEEN ?1 AND ?2 OR NOT EXISTS (SELECT 1 FROM workspace_blob v JOIN blob USING (hash)
         WHERE v.workspace = module.workspace AND v.hash = module.hash AND blob.length = module.length)",
    "SELECT 'the server''s module ''' || name || ''' has a content that is not there' FROM standard_module
     WHERE NOT EXISTS (SELECT 1 FROM blob WHERE hash = standard_module.hash AND length = standard_module.length)",
    "SELECT 'of the server''s module ''' || name || ''' not exactly one is current' FROM standard_module
     GROUP BY name HAVING sum(current) <> 1 OR max(current) <> 1",
    "SELECT 'invite ' || id || ' is none' FROM invite WHERE length(hash) <> 32 OR role NOT BETWEEN ?1 AND ?2
         OR (token IS NULL) <> (used IS NULL) OR length(token) <> 32",
    "SELECT 'a client of workspace ' || workspace || ' has an id that is none' FROM client WHERE length(id) <> 16",
    "SELECT 'version ' || number || ' of workspace ' || workspace || ' is neither forgotten nor kept' FROM version
     WHERE forgotten NOT IN (0, 1)",
    "SELECT 'entry ' || entry || ' pins a content that is not in its workspace' FROM pin JOIN entry ON entry.id = pin.entry
     WHERE NOT EXISTS (SELECT 1 FROM workspace_blob v WHERE v.workspace = entry.workspace AND v.hash = pin.hash)",
];

/// Rows of smaller tables that cannot be as they stand.
pub(crate) fn unlikely(connection: &Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for sql in UNLIKELY {
        let mut list = connection.prepare(sql)?;
        let roles = [Role::Read.number(), Role::Admin.number()];
        let roles = &roles[..list.parameter_count().min(2)];
        let rows = list.query_map(rusqlite::params_from_iter(roles), |row| row.get(0))?;
        found.extend(rows.collect::<rusqlite::Result<Vec<String>>>()?);
    }
    let names = "SELECT 'principal', name FROM principal UNION ALL SELECT 'workspace', name FROM workspace
                 UNION ALL SELECT 'principal', name FROM invite
                 UNION ALL SELECT 'module', name FROM module";
    for row in connection.prepare(names)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        let (what, name): (String, String) = row?;
        if check_name("row", &name).is_err() {
            found.push(format!("'{name}' cannot be the name of a {what}"));
        }
    }
    for row in
        connection.prepare("SELECT name, value FROM setting")?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    {
        let (name, value): (String, String) = row?;
        if let Err(error) = Setting::parse(&name, &value) {
            found.push(error.to_string());
        }
    }
    Ok(found)
}
