//! The log: entries and their answers.

use super::{damaged, int, uint, waits};
use crate::ClientError;
use crate::choice::Prediction;
use crate::log::{EntryState, LogEntry, Traffic};
use opship_record::answer::{Answer, Reason, Status};
use opship_record::codec;
use opship_record::effect::{self, Change};
use opship_record::entry::{Body, BodyKind, ClientId};
use opship_record::observation::{self, Observation};
use opship_record::record::{Lists, StepStreams};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A new entry.
pub(crate) struct NewEntry<'a> {
    pub body: &'a Body,
    pub lists: &'a Lists,
    pub command: &'a str,
    pub value_bytes: u64,
    pub state: EntryState,
    /// How long an operation's run took, in microseconds.
    pub run_micros: Option<u64>,
}

const COLUMNS: &str = "number, client, sequence, kind, state, sent, command, body, value_bytes, answer, sent_bytes, \
                       received_bytes, created, ended, released, run_micros, prediction, shipped_micros";

/// Appends an entry with the next sequence number, its waits and the paths that it uses; gives its number.
pub(crate) fn append(db: &Connection, client: &ClientId, new: &NewEntry<'_>) -> Result<u64, ClientError> {
    let sequence: i64 = db
        .prepare_cached("SELECT coalesce(max(sequence), 0) + 1 FROM entry WHERE client = ?1")?
        .query_row([client.as_bytes()], |row| row.get(0))?;
    db.prepare_cached(
        "INSERT INTO entry (client, sequence, kind, state, command, body, observations, changes, streams, value_bytes, \
         created, run_micros) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        client.as_bytes(),
        sequence,
        new.body.kind() as u8,
        new.state as u8,
        new.command,
        new.body.encode(),
        pack(&observation::encode_list(&new.lists.observations))?,
        pack(&effect::encode_list(&new.lists.changes))?,
        pack(&codec::encode(&new.lists.streams))?,
        int(new.value_bytes),
        int(now_millis()),
        new.run_micros.map(int),
    ])?;
    let number = uint(db.last_insert_rowid());
    waits::insert(db, number, new.body, new.lists)?;
    Ok(number)
}

/// Gives an unended entry a list of changes under the same number; an operation becomes a value entry by that. `reason`:
/// why the results of an operation travel.
pub(crate) fn rewrite_value(
    db: &Connection,
    number: u64,
    changes: &[Change],
    command: &str,
    value_bytes: u64,
    reason: Option<Reason>,
) -> Result<(), ClientError> {
    let body = Body::Value(opship_record::entry::Value { reason, ..opship_record::entry::Value::new(changes) });
    let lists = Lists { changes: changes.to_vec(), ..Lists::default() };
    db.prepare_cached(
        "UPDATE entry SET kind = ?6, body = ?2, changes = ?3, command = ?4, value_bytes = ?5, observations = ?7, \
         streams = ?8, answer = NULL WHERE number = ?1",
    )?
    .execute(params![
        int(number),
        body.encode(),
        pack(&effect::encode_list(changes))?,
        command,
        int(value_bytes),
        BodyKind::Value as u8,
        pack(&observation::encode_list(&lists.observations))?,
        pack(&codec::encode(&lists.streams))?
    ])?;
    waits::keep_for_earlier(db, number)?;
    waits::remove(db, number)?;
    waits::insert(db, number, &body, &lists)
}

/// Makes an unended entry a value without changes.
pub(crate) fn empty(db: &Connection, number: u64) -> Result<(), ClientError> {
    let body = Body::Value(opship_record::entry::Value::new(&[]));
    db.prepare_cached(
        "UPDATE entry SET kind = ?2, body = ?3, observations = ?4, changes = ?5, streams = ?6, value_bytes = 0, \
         answer = NULL, command = 'dropped: ' || command WHERE number = ?1 AND state = 1",
    )?
    .execute(params![
        int(number),
        body.kind() as u8,
        body.encode(),
        pack(&observation::encode_list(&[]))?,
        pack(&effect::encode_list(&[]))?,
        pack(&codec::encode(&Vec::<StepStreams>::new()))?,
    ])?;
    Ok(waits::pass_on(db, number)?)
}

/// Sets where an entry stands.
pub(crate) fn set_state(db: &Connection, number: u64, state: EntryState) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET state = ?2 WHERE number = ?1")?.execute(params![int(number), state as u8])?;
    Ok(())
}

/// An entry by its number.
pub(crate) fn get(db: &Connection, number: u64) -> Result<LogEntry, ClientError> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE number = ?1");
    let entry = db.prepare_cached(&sql)?.query_row([int(number)], read).optional()?;
    with_waits(db, entry.ok_or(ClientError::NoEntry(number))?)
}

/// All entries in a state, in order.
pub(crate) fn in_state(db: &Connection, state: EntryState) -> Result<Vec<LogEntry>, ClientError> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE state = ?1 ORDER BY number");
    let entries: Vec<LogEntry> = db.prepare_cached(&sql)?.query_map([state as u8], read)?.collect::<Result<_, _>>()?;
    entries.into_iter().map(|entry| with_waits(db, entry)).collect()
}

/// The number of the newest entry in a state.
pub(crate) fn newest_in_state(db: &Connection, state: EntryState) -> rusqlite::Result<Option<u64>> {
    let newest: Option<i64> = db
        .prepare_cached("SELECT max(number) FROM entry WHERE state = ?1")?
        .query_row([state as u8], |row| row.get(0))?;
    Ok(newest.map(uint))
}

/// The newest entry of a kind that has no verdict yet.
pub(crate) fn newest_pending(db: &Connection, kind: BodyKind) -> Result<Option<LogEntry>, ClientError> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE state = 1 AND kind = ?1 ORDER BY number DESC LIMIT 1");
    let entry = db.prepare_cached(&sql)?.query_row([kind as u8], read).optional()?;
    entry.map(|entry| with_waits(db, entry)).transpose()
}

/// Numbers of the entries that ended since the last pull that was complete. No clock tells: it may go back.
pub(crate) fn ahead(db: &Connection) -> rusqlite::Result<Vec<u64>> {
    let mut statement = db.prepare_cached("SELECT number FROM entry WHERE ahead = 1 ORDER BY number")?;
    statement.query_map([], |row| Ok(uint(row.get(0)?)))?.collect()
}

/// A pull is complete.
pub(crate) fn none_ahead(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET ahead = 0 WHERE ahead = 1")?.execute([])?;
    Ok(())
}

/// The ended entries for which something is still kept, in order.
pub(crate) fn unreleased(db: &Connection) -> Result<Vec<LogEntry>, ClientError> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE state = 2 AND released = 0 ORDER BY number");
    let entries: Vec<LogEntry> = db.prepare_cached(&sql)?.query_map([], read)?.collect::<Result<_, _>>()?;
    entries.into_iter().map(|entry| with_waits(db, entry)).collect()
}

/// The newest entries with a number under `before`, newest first.
pub(crate) fn newest(db: &Connection, before: Option<u64>, limit: usize) -> Result<Vec<LogEntry>, ClientError> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE number < ?1 ORDER BY number DESC LIMIT ?2");
    let before = before.map_or(i64::MAX, int);
    let entries: Vec<LogEntry> =
        db.prepare_cached(&sql)?.query_map(params![before, int(limit as u64)], read)?.collect::<Result<_, _>>()?;
    entries.into_iter().map(|entry| with_waits(db, entry)).collect()
}

/// The full lists of an entry.
pub(crate) fn lists(db: &Connection, number: u64) -> Result<Lists, ClientError> {
    let sql = "SELECT kind, body, observations, changes, streams FROM entry WHERE number = ?1";
    type Packed = (u8, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);
    let row: Option<Packed> = db
        .prepare_cached(sql)?
        .query_row([int(number)], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))
        .optional()?;
    let (kind, body, observations, changes, streams) = row.ok_or(ClientError::NoEntry(number))?;
    let observations: Vec<Observation> = observation::decode_list(&unpack(&observations)?)?;
    let changes: Vec<Change> = effect::decode_list(&unpack(&changes)?)?;
    let streams: Vec<StepStreams> = codec::decode(&unpack(&streams)?, "list of streams")?;
    let exits = match Body::decode(kind_of(kind), &body)? {
        Body::Operation(record) => record.exits.unwrap_or_else(|| vec![0; record.plan.steps.len()]),
        Body::Value(_) => Vec::new(),
    };
    Ok(Lists { observations, changes, streams, exits })
}

/// The server surely does not hold an entry.
pub(crate) fn mark_not_held(db: &Connection, number: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET sent = 0 WHERE number = ?1 AND state = 1")?.execute([int(number)])?;
    Ok(())
}

/// Notes that an entry was put into a request.
pub(crate) fn mark_sent(db: &Connection, number: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET sent = 1 WHERE number = ?1")?.execute([int(number)])?;
    Ok(())
}

/// Stores an answer. After `needs` or `parked` the server does not hold the entry. A verdict that the server holds the outputs under ends the waiting for them.
pub(crate) fn answer(db: &Connection, number: u64, answer: &Answer, traffic: Traffic) -> Result<(), ClientError> {
    let ended = answer.status == Status::Ended;
    let changed = db
        .prepare_cached(
            "UPDATE entry SET answer = ?2, sent_bytes = sent_bytes + ?3, received_bytes = received_bytes + ?4, sent = ?7, \
             state = CASE WHEN ?5 THEN 2 ELSE state END, ahead = CASE WHEN ?5 THEN 1 ELSE ahead END, ended = CASE WHEN ?5 THEN coalesce(ended, ?6) ELSE ended END \
             WHERE number = ?1 AND state <> 0",
        )?
        .execute(params![
            int(number),
            answer.encode(),
            int(traffic.sent),
            int(traffic.received),
            ended,
            int(now_millis()),
            !matches!(answer.status, Status::Needs | Status::Parked)
        ])?;
    if changed == 0 {
        return Err(ClientError::NoEntry(number));
    }
    if answer.status == Status::Parked && get(db, number)?.kind == BodyKind::Operation {
        waits::park(db, number)?;
    }
    if ended {
        super::native::drop_residual(db, number)?;
    }
    if ended && answer.verdict.is_some_and(|verdict| verdict.is_final_for_client()) {
        super::index::mark_synced(db, number)?;
        waits::settle(db, number)?;
    }
    Ok(())
}

/// Notes what was predicted for an entry.
pub(crate) fn set_prediction(db: &Connection, number: u64, prediction: &Prediction) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET prediction = ?2 WHERE number = ?1")?
        .execute(params![int(number), codec::encode(prediction)])?;
    Ok(())
}

/// Notes how long it took from an entry's first request to its verdict.
pub(crate) fn set_shipped_micros(db: &Connection, number: u64, micros: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET shipped_micros = ?2 WHERE number = ?1")?
        .execute(params![int(number), int(micros)])?;
    Ok(())
}

/// Notes that what was kept for an entry was dropped.
pub(crate) fn mark_released(db: &Connection, number: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET released = 1 WHERE number = ?1")?.execute([int(number)])?;
    Ok(())
}

/// Gives entries new sequence numbers, from 1, under a new client id, in order.
pub(crate) fn move_to_client(db: &Connection, client: &ClientId, numbers: &[u64]) -> rusqlite::Result<()> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let mut statement =
        db.prepare_cached("UPDATE entry SET client = ?2, sequence = ?3, sent = 0, answer = NULL WHERE number = ?1")?;
    for (sequence, number) in (1i64..).zip(numbers) {
        statement.execute(params![int(number), client.as_bytes(), sequence])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
    let answer: Option<Vec<u8>> = row.get(9)?;
    let answer = answer
        .map(|bytes| Answer::decode_next(&mut bytes.as_slice()))
        .transpose()
        .map_err(|error| damaged(9, error))?;
    let prediction: Option<Vec<u8>> = row.get(16)?;
    let prediction = prediction.map(|bytes| minicbor::decode(&bytes).map_err(|error| damaged(16, error)));
    Ok(LogEntry {
        number: uint(row.get(0)?),
        client: ClientId::from_bytes(row.get(1)?),
        sequence: uint(row.get(2)?),
        kind: kind_of(row.get(3)?),
        state: match row.get::<_, u8>(4)? {
            0 => EntryState::Applying,
            1 => EntryState::Pending,
            _ => EntryState::Ended,
        },
        sent: row.get(5)?,
        command: row.get(6)?,
        body: row.get(7)?,
        waits: Vec::new(),
        value_bytes: uint(row.get(8)?),
        answer,
        sent_bytes: uint(row.get(10)?),
        received_bytes: uint(row.get(11)?),
        created: uint(row.get(12)?),
        ended: row.get::<_, Option<i64>>(13)?.map(uint),
        released: row.get(14)?,
        run_micros: row.get::<_, Option<i64>>(15)?.map(uint),
        prediction: prediction.transpose()?,
        shipped_micros: row.get::<_, Option<i64>>(17)?.map(uint),
    })
}

fn with_waits(db: &Connection, mut entry: LogEntry) -> Result<LogEntry, ClientError> {
    entry.waits = waits::open_sequences(db, &entry)?;
    Ok(entry)
}

fn kind_of(number: u8) -> BodyKind {
    if number == 0 { BodyKind::Operation } else { BodyKind::Value }
}

/// Lists compress well and may be long.
pub(crate) fn pack(bytes: &[u8]) -> Result<Vec<u8>, ClientError> {
    zstd::encode_all(bytes, 3).map_err(ClientError::io("compressing a list"))
}

/// The reverse of [`pack`].
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, ClientError> {
    zstd::decode_all(bytes).map_err(ClientError::io("reading a list of the log"))
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    u64::try_from(crate::fs::clock_nanos() / 1_000_000).unwrap_or(0)
}
