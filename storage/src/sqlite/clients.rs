//! What principals call their clients, and who made which entry.

use super::Result;
use crate::Scope;
use crate::invite::Author;
use opship_record::entry::ClientId;
use rusqlite::{Connection, OptionalExtension, params};

pub(crate) fn name(connection: &Connection, by: &Scope, client: &ClientId, name: &str) -> Result<String> {
    connection.execute(
        "INSERT INTO client (workspace, id, principal, name) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET name = excluded.name",
        params![by.workspace, client.as_bytes(), by.principal, name],
    )?;
    Ok(connection.query_row("SELECT name FROM principal WHERE id = ?1", [by.principal], |row| row.get(0))?)
}

/// Who made an entry. A name counts only for entries of the principal that gave it.
pub(crate) fn author(
    connection: &Connection,
    workspace: i64,
    client: &ClientId,
    sequence: u64,
) -> Result<Option<Author>> {
    let mut find = connection.prepare_cached(
        "SELECT principal.name, client.name FROM entry
         JOIN principal ON principal.id = entry.principal
         LEFT JOIN client ON client.workspace = entry.workspace AND client.id = entry.client
             AND client.principal = entry.principal
         WHERE entry.workspace = ?1 AND entry.client = ?2 AND entry.sequence = ?3",
    )?;
    let found = find.query_row(params![workspace, client.as_bytes(), super::signed(sequence)], |row| {
        Ok(Author { principal: row.get(0)?, client: row.get(1)? })
    });
    Ok(found.optional()?)
}
