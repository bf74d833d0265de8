//! Native runs: why they went by value, and residuals.

use super::int;
use crate::native::NativeNote;
use opship_record::answer::Reason;
use rusqlite::{Connection, OptionalExtension, params};

/// Remembers why the results of a native run are in an entry by value.
pub(crate) fn add_note(db: &Connection, entry: u64, note: &NativeNote) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO native_note (entry, command, reason, detail) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![int(entry), note.command, note.reason.name(), note.detail])?;
    Ok(())
}

/// The notes of an entry, the oldest first. One with a reason of a newer opship is left out.
pub(crate) fn notes(db: &Connection, entry: u64) -> rusqlite::Result<Vec<NativeNote>> {
    let mut statement =
        db.prepare_cached("SELECT command, reason, detail FROM native_note WHERE entry = ?1 ORDER BY id")?;
    let notes = statement.query_map([int(entry)], |row| {
        let name: String = row.get(1)?;
        let reason = Reason::ALL.into_iter().find(|reason| reason.name() == name);
        let (command, detail) = (row.get(0)?, row.get(2)?);
        Ok(reason.map(|reason| NativeNote { command, reason, detail }))
    })?;
    notes.filter_map(Result::transpose).collect()
}

/// Keeps the residual of an operation until the operation has ended.
pub(crate) fn keep_residual(db: &Connection, entry: u64, residual: &[u8]) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO native_residual (entry, residual) VALUES (?1, ?2)")?
        .execute(params![int(entry), residual])?;
    Ok(())
}

/// The residual of an operation.
pub(crate) fn residual(db: &Connection, entry: u64) -> rusqlite::Result<Option<Vec<u8>>> {
    db.prepare_cached("SELECT residual FROM native_residual WHERE entry = ?1")?
        .query_row([int(entry)], |row| row.get(0))
        .optional()
}

/// The operation has ended.
pub(crate) fn drop_residual(db: &Connection, entry: u64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM native_residual WHERE entry = ?1")?.execute([int(entry)])?;
    Ok(())
}
