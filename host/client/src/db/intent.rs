//! Intents: what an exchange is about to do, durable before it does it, so that recovery can finish it.

use super::log::{pack, unpack};
use super::{int, uint};
use crate::ClientError;
use crate::exchange::Step;
use opship_record::codec;
use opship_record::effect::{self, Change};
use rusqlite::{Connection, params};

/// An exchange that must be finished.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    /// The entry that it belongs to; 0 for a pull.
    pub entry: u64,
    /// The folder of staged and displaced files, below the root.
    pub folder: String,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// What the index becomes.
    pub changes: Vec<Change>,
}

/// Stores an intent and gives its id.
pub(crate) fn insert(db: &Connection, intent: &Intent) -> Result<u64, ClientError> {
    db.prepare_cached("INSERT INTO intent (entry, folder, steps, changes) VALUES (?1, ?2, ?3, ?4)")?.execute(
        params![
            int(intent.entry),
            intent.folder,
            pack(&codec::encode(&intent.steps))?,
            pack(&effect::encode_list(&intent.changes))?,
        ],
    )?;
    Ok(uint(db.last_insert_rowid()))
}

/// All intents, oldest first.
pub(crate) fn all(db: &Connection) -> Result<Vec<(u64, Intent)>, ClientError> {
    type Packed = (i64, i64, String, Vec<u8>, Vec<u8>);
    let rows: Vec<Packed> = db
        .prepare_cached("SELECT id, entry, folder, steps, changes FROM intent ORDER BY id")?
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))?
        .collect::<Result<_, _>>()?;
    let intents = rows.into_iter().map(|(id, entry, folder, steps, changes)| {
        let steps = codec::decode(&unpack(&steps)?, "intent")?;
        let changes = effect::decode_list(&unpack(&changes)?)?;
        Ok((uint(id), Intent { entry: uint(entry), folder, steps, changes }))
    });
    intents.collect()
}

/// The exchange is finished.
pub(crate) fn remove(db: &Connection, id: u64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM intent WHERE id = ?1")?.execute([int(id)])?;
    Ok(())
}
