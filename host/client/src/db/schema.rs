//! The schema and its migrations, counted by `user_version`.

use crate::ClientError;
use rusqlite::Connection;

/// Version 1. `client` and `sequence` are the entry's key on the wire; `number` is the log's own and never changes.
const VERSION_1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE node (
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, kind INTEGER NOT NULL, mode INTEGER NOT NULL, mtime INTEGER NOT NULL,
    length INTEGER NOT NULL, hash BLOB, target BLOB,
    device INTEGER, inode INTEGER, size INTEGER, disk_mtime INTEGER, disk_ctime INTEGER, racy INTEGER NOT NULL,
    synced INTEGER NOT NULL, entry INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX node_parent ON node (parent);
CREATE INDEX node_entry ON node (entry);
CREATE INDEX node_hash ON node (hash) WHERE hash IS NOT NULL;
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, client BLOB NOT NULL, sequence INTEGER NOT NULL, kind INTEGER NOT NULL,
    state INTEGER NOT NULL, sent INTEGER NOT NULL DEFAULT 0, command TEXT NOT NULL, body BLOB NOT NULL,
    observations BLOB NOT NULL, changes BLOB NOT NULL, streams BLOB NOT NULL, value_bytes INTEGER NOT NULL,
    answer BLOB, sent_bytes INTEGER NOT NULL DEFAULT 0, received_bytes INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL, ended INTEGER, released INTEGER NOT NULL DEFAULT 0,
    UNIQUE (client, sequence)
);
CREATE INDEX entry_state ON entry (state, number);
CREATE TABLE wait (
    entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, waits_for INTEGER NOT NULL, hard INTEGER NOT NULL,
    PRIMARY KEY (entry, waits_for)
) WITHOUT ROWID;
CREATE INDEX wait_for ON wait (waits_for);
CREATE TABLE entry_path (
    path TEXT NOT NULL, entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, uses INTEGER NOT NULL,
    PRIMARY KEY (path, entry)
) WITHOUT ROWID;
CREATE INDEX entry_path_entry ON entry_path (entry);
CREATE TABLE produced (
    hash BLOB NOT NULL, entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, PRIMARY KEY (hash, entry)
) WITHOUT ROWID;
CREATE INDEX produced_entry ON produced (entry);
CREATE TABLE kept (
    hash BLOB NOT NULL, entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, PRIMARY KEY (hash, entry)
) WITHOUT ROWID;
CREATE INDEX kept_entry ON kept (entry);
CREATE TABLE displaced (
    file TEXT PRIMARY KEY, entry INTEGER NOT NULL, path TEXT NOT NULL, hash BLOB,
    device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL, racy INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX displaced_entry ON displaced (entry);
CREATE TABLE intent (id INTEGER PRIMARY KEY, entry INTEGER, folder TEXT NOT NULL, steps BLOB NOT NULL,
    changes BLOB NOT NULL);
CREATE TABLE deferred (path TEXT PRIMARY KEY, node BLOB, reason TEXT NOT NULL) WITHOUT ROWID;
";

/// Hashes of files that no entry names yet, so that a scan need not read them again; and which entries ended since the
/// last complete pull, which a time in `net.settled-at` told before.
const HASHED_AND_AHEAD: &str = "
CREATE TABLE hashed (
    path TEXT PRIMARY KEY, hash BLOB NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime INTEGER NOT NULL, ctime INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE entry ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entry_ahead ON entry (number) WHERE ahead = 1;
UPDATE entry SET ahead = 1 WHERE state = 2 AND ended >= coalesce(
    (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'net.settled-at'), 0);
DELETE FROM meta WHERE key = 'net.settled-at';
";

/// What entries left to decide. copy: where an entry's own bytes are beside the path; NULL: the server keeps them. pinned:
/// entries for which the server keeps something until it is told that nothing is left to decide.
const UNDECIDED: &str = "
CREATE TABLE undecided (entry INTEGER NOT NULL, path TEXT NOT NULL, copy TEXT, PRIMARY KEY (entry, path)) WITHOUT ROWID;
CREATE TABLE pinned (entry INTEGER PRIMARY KEY);
";

/// What an operation's run took here, in microseconds, and what was predicted for shipping it and came of it.
/// prediction: see [`crate::choice::Prediction`]; shipped_micros: from its first request to its verdict.
const CHOICE: &str = "
ALTER TABLE entry ADD COLUMN run_micros INTEGER;
ALTER TABLE entry ADD COLUMN prediction BLOB;
ALTER TABLE entry ADD COLUMN shipped_micros INTEGER;
";

/// Why the results of native runs are in value entries, and what the modules' contents lack to be the programs'.
const NATIVE_RUNS: &str = "
CREATE TABLE native_note (
    id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, command TEXT NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX native_note_entry ON native_note (entry);
CREATE TABLE native_residual (entry INTEGER PRIMARY KEY REFERENCES entry ON DELETE CASCADE, residual BLOB NOT NULL);
";

/// Finds the files of ignore rules, see [`super::index::rule_files`].
const RULE_FILES: &str = "
CREATE INDEX node_rules ON node (path) WHERE path = '.opshipignore' OR path GLOB '*/.opshipignore';
";

/// Contents of paths that the server refused: they stay here and are not offered again. entry: the one that ended `rejected`.
const REFUSED: &str = "
CREATE TABLE refused (path TEXT PRIMARY KEY, hash BLOB NOT NULL, entry INTEGER NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;
";

/// Brings the schema up to date.
pub(super) fn migrate(db: &Connection) -> Result<(), ClientError> {
    let steps = [VERSION_1, HASHED_AND_AHEAD, UNDECIDED, CHOICE, NATIVE_RUNS, RULE_FILES, REFUSED];
    let newest = steps.len() as u32;
    // Immediate: of two processes that open a new working copy, one migrates and the other finds it done.
    db.execute_batch("BEGIN IMMEDIATE")?;
    let result = (|| {
        let found: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if found > newest {
            return Err(ClientError::Newer(found));
        }
        for step in steps.iter().skip(found as usize) {
            db.execute_batch(step)?;
        }
        // Written only where it changes: a transaction that writes nothing needs no sync.
        if found < newest {
            db.pragma_update(None, "user_version", newest)?;
        }
        Ok(())
    })();
    db.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}
