//! Entries that ended, read.

use super::{Result, hash_at, limited, now, signed, unsigned_at};
use crate::StorageError;
use crate::entry::{EntryDetail, EntryFilter, Event, OperationOfVersion, StoredEntry};
use crate::pack;
use opship_record::answer::{Reason, Verdict};
use opship_record::entry::{Body, BodyKind, ClientId};
use opship_record::record::Record;
use opship_record::{Hash, codec};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

const COLUMNS: &str = "id, client, sequence, body_id, kind, verdict, reason, version, made_version, report, detail, \
                       replay_micros, received, sent, principal, time, rebased, resolved, \
                       (SELECT v.id FROM version v WHERE v.workspace = entry.workspace AND v.number = entry.version)";

/// The entry with this key.
pub(crate) fn by_key(
    connection: &Connection,
    workspace: i64,
    client: &ClientId,
    sequence: u64,
) -> Result<Option<StoredEntry>> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE workspace = ?1 AND client = ?2 AND sequence = ?3");
    let mut find = connection.prepare_cached(&sql)?;
    let mut rows = find.query(params![workspace, client.as_bytes(), signed(sequence)])?;
    rows.next()?.map(entry_at).transpose()
}

/// The entry with this id, with all that is kept of it.
pub(crate) fn by_id(connection: &Connection, workspace: i64, id: i64) -> Result<Option<EntryDetail>> {
    let sql = format!("SELECT {COLUMNS}, body, lists FROM entry WHERE workspace = ?1 AND id = ?2");
    let mut find = connection.prepare_cached(&sql)?;
    let mut rows = find.query([workspace, id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let entry = entry_at(row)?;
    let body = Body::decode(entry.kind, &row.get::<_, Vec<u8>>(19)?).map_err(StorageError::damaged)?;
    let lists = pack::unpack_lists(&row.get::<_, Vec<u8>>(20)?)?;
    let mut pins = connection.prepare_cached("SELECT hash FROM pin WHERE entry = ?1 ORDER BY hash")?;
    let pinned = pins.query_map([id], |row| hash_at(row, 0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Some(EntryDetail { entry, body, lists, pinned }))
}

/// Newest first.
pub(crate) fn list(connection: &Connection, workspace: i64, filter: &EntryFilter) -> Result<Vec<StoredEntry>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM entry WHERE workspace = ?1 AND id < ?2 AND (?3 IS NULL OR verdict = ?3)
         AND (?4 IS NULL OR client = ?4) ORDER BY id DESC LIMIT ?5"
    );
    let mut list = connection.prepare_cached(&sql)?;
    let mut rows = list.query(params![
        workspace,
        filter.before.unwrap_or(i64::MAX),
        filter.verdict.map(Verdict::name),
        filter.client.as_ref().map(|client| client.as_bytes()),
        limited(filter.limit)
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(entry_at(row)?);
    }
    Ok(found)
}

/// Entries that ended after the one with id `after`, oldest first.
pub(crate) fn events(connection: &Connection, workspace: i64, after: i64, limit: usize) -> Result<Vec<Event>> {
    let mut list = connection.prepare_cached(
        "SELECT id, verdict, version, made_version, time FROM entry WHERE workspace = ?1 AND id > ?2
         ORDER BY id LIMIT ?3",
    )?;
    let mut rows = list.query(params![workspace, after, limited(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, version) = (row.get(0)?, unsigned_at(row, 2)?);
        found.push(Event {
            id,
            entry: id,
            verdict: verdict(&row.get::<_, String>(1)?)?,
            version: row.get::<_, bool>(3)?.then_some(version),
            time: unsigned_at(row, 4)?,
        });
    }
    Ok(found)
}

/// The operations that made versions above `after`, up to `to`, and that a replay would make again, oldest first.
pub(crate) fn operations(
    connection: &Connection,
    workspace: i64,
    after: u64,
    to: u64,
) -> Result<Vec<OperationOfVersion>> {
    let mut list = connection.prepare_cached(
        "SELECT version, body, lists, rebased FROM entry WHERE workspace = ?1 AND made_version AND version > ?2
         AND version <= ?3 AND kind = 0 AND verdict IN ('matched', 'rebased', 'repaired') ORDER BY version LIMIT ?4",
    )?;
    let mut rows = list.query(params![workspace, signed(after), signed(to), limited(usize::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let rebased: Option<Vec<u8>> = row.get(3)?;
        let bytes = rebased.map_or_else(|| row.get(1), Ok)?;
        let record = Record::decode(&bytes).map_err(StorageError::damaged)?;
        let lists = pack::unpack_lists(&row.get::<_, Vec<u8>>(2)?)?;
        let outputs: BTreeSet<Hash> =
            lists.changes.iter().filter_map(|c| c.after.blob()).map(|(_, hash)| hash).collect();
        let version = unsigned_at(row, 0)?;
        found.push(OperationOfVersion { version, record, outputs: outputs.into_iter().collect() });
    }
    Ok(found)
}

/// Would [`operations`] find any?
pub(crate) fn has_operations(connection: &Connection, workspace: i64, after: u64, to: u64) -> Result<bool> {
    let mut any = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM entry WHERE workspace = ?1 AND made_version AND version > ?2 AND version <= ?3
         AND kind = 0 AND verdict IN ('matched', 'rebased', 'repaired'))",
    )?;
    Ok(any.query_row(params![workspace, signed(after), signed(to)], |row| row.get(0))?)
}

/// Notes that entries of a client are resolved; one that is not here, or is resolved already, is left as it is.
pub(crate) fn resolve(connection: &Connection, workspace: i64, client: &ClientId, sequences: &[u64]) -> Result<()> {
    let mut resolve = connection.prepare_cached(
        "UPDATE entry SET resolved = ?4 WHERE workspace = ?1 AND client = ?2 AND sequence = ?3 AND resolved IS NULL",
    )?;
    for sequence in sequences {
        resolve.execute(params![workspace, client.as_bytes(), signed(*sequence), signed(now())])?;
    }
    Ok(())
}

/// Id of the entry that ended last on the whole server.
pub(crate) fn last_id(connection: &Connection) -> Result<i64> {
    Ok(connection.query_row("SELECT coalesce(max(id), 0) FROM entry", [], |row| row.get(0))?)
}

fn entry_at(row: &Row<'_>) -> Result<StoredEntry> {
    let reason_name: Option<String> = row.get(6)?;
    let report: Option<Vec<u8>> = row.get(9)?;
    let replay_micros: Option<i64> = row.get(11)?;
    let (rebased, resolved): (Option<Vec<u8>>, Option<i64>) = (row.get(16)?, row.get(17)?);
    Ok(StoredEntry {
        id: row.get(0)?,
        client: ClientId::from_bytes(row.get(1)?),
        sequence: unsigned_at(row, 2)?,
        body: hash_at(row, 3)?,
        kind: if row.get::<_, i64>(4)? == 0 { BodyKind::Operation } else { BodyKind::Value },
        verdict: verdict(&row.get::<_, String>(5)?)?,
        reason: reason_name.as_deref().map(reason).transpose()?,
        version: unsigned_at(row, 7)?,
        made_version: row.get(8)?,
        report: match report {
            Some(bytes) => codec::decode(&bytes, "report").map_err(StorageError::damaged)?,
            None => Vec::new(),
        },
        detail: row.get(10)?,
        replay_micros: replay_micros.and_then(|micros| u64::try_from(micros).ok()),
        received_bytes: unsigned_at(row, 12)?,
        sent_bytes: unsigned_at(row, 13)?,
        principal: row.get(14)?,
        time: unsigned_at(row, 15)?,
        record: rebased.as_deref().map(Record::decode).transpose().map_err(StorageError::damaged)?.map(Box::new),
        resolved: resolved.and_then(|time| u64::try_from(time).ok()),
        version_id: row.get::<_, Option<[u8; 32]>>(18)?.map(Hash::from_bytes),
    })
}

pub(super) fn verdict(name: &str) -> Result<Verdict> {
    let found = Verdict::ALL.into_iter().find(|verdict| verdict.name() == name);
    found.ok_or_else(|| StorageError::damaged(format!("unknown verdict '{name}'")))
}

pub(super) fn reason(name: &str) -> Result<Reason> {
    let found = Reason::ALL.into_iter().find(|reason| reason.name() == name);
    found.ok_or_else(|| StorageError::damaged(format!("unknown reason '{name}'")))
}
