//! Tables. A migration is never edited once released; a change is a new one at the end.

use super::Result;
use crate::StorageError;
use rusqlite::Connection;

const MIGRATIONS: &[&str] = &[INITIAL, MODULE_ROLE, SETTINGS, SHARING, CHUNKS, REBASED, SUMS];

const INITIAL: &str = "
CREATE TABLE principal (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, admin INTEGER NOT NULL, created INTEGER NOT NULL
) STRICT;
-- hash: of the token, which is stored nowhere. from_file: it is the one in the data directory.
CREATE TABLE token (
    hash BLOB PRIMARY KEY, principal INTEGER NOT NULL REFERENCES principal, created INTEGER NOT NULL,
    expires INTEGER, from_file INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE workspace (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created INTEGER NOT NULL
) STRICT;
CREATE TABLE access (
    principal INTEGER NOT NULL REFERENCES principal, workspace INTEGER NOT NULL REFERENCES workspace,
    role INTEGER NOT NULL, PRIMARY KEY (principal, workspace)
) STRICT, WITHOUT ROWID;

CREATE TABLE version (
    workspace INTEGER NOT NULL REFERENCES workspace, number INTEGER NOT NULL, id BLOB NOT NULL, root BLOB NOT NULL,
    bytes BLOB NOT NULL, PRIMARY KEY (workspace, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX version_by_id ON version (workspace, id);
CREATE INDEX version_by_root ON version (workspace, root);
CREATE TABLE node (hash BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
-- Nodes that were uploaded through a workspace, with all that is below them.
CREATE TABLE workspace_node (
    workspace INTEGER NOT NULL REFERENCES workspace, hash BLOB NOT NULL REFERENCES node, PRIMARY KEY (workspace, hash)
) STRICT, WITHOUT ROWID;

-- bytes: of a small blob; NULL: they are in the blob store.
CREATE TABLE blob (hash BLOB PRIMARY KEY, length INTEGER NOT NULL, bytes BLOB) STRICT;
CREATE TABLE workspace_blob (
    workspace INTEGER NOT NULL REFERENCES workspace, hash BLOB NOT NULL REFERENCES blob, PRIMARY KEY (workspace, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE module (
    workspace INTEGER NOT NULL REFERENCES workspace, name TEXT NOT NULL, hash BLOB NOT NULL REFERENCES blob,
    length INTEGER NOT NULL, argv0 TEXT, mounts BLOB NOT NULL, PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
-- Earlier builds stay, since records name them by hash.
CREATE TABLE standard_module (
    name TEXT NOT NULL, hash BLOB NOT NULL REFERENCES blob, length INTEGER NOT NULL, current INTEGER NOT NULL,
    PRIMARY KEY (name, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX standard_module_by_hash ON standard_module (hash);

-- Entries that ended; ids ascend in the order in which they did. version: made, or the head where none was.
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workspace INTEGER NOT NULL REFERENCES workspace, client BLOB NOT NULL,
    sequence INTEGER NOT NULL, body_id BLOB NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL, lists BLOB NOT NULL,
    verdict TEXT NOT NULL, reason TEXT, version INTEGER NOT NULL, made_version INTEGER NOT NULL, report BLOB,
    detail TEXT, replay_micros INTEGER, received INTEGER NOT NULL, sent INTEGER NOT NULL,
    principal INTEGER NOT NULL REFERENCES principal, time INTEGER NOT NULL, UNIQUE (workspace, client, sequence)
) STRICT;
CREATE INDEX entry_by_workspace ON entry (workspace, id);
CREATE TABLE pin (
    entry INTEGER NOT NULL REFERENCES entry, hash BLOB NOT NULL REFERENCES blob, PRIMARY KEY (entry, hash)
) STRICT, WITHOUT ROWID;
";

/// role: of whoever registered the module; of older ones it is not known, so that they get no more than writers' ones.
const MODULE_ROLE: &str = "ALTER TABLE module ADD COLUMN role INTEGER NOT NULL DEFAULT 1;";

/// Settings of workspaces that differ from their default.
const SETTINGS: &str = "
CREATE TABLE setting (
    workspace INTEGER NOT NULL REFERENCES workspace, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
";

/// invite.hash: of the secret, which is stored nowhere. invite.token: the hash of the token that the invite was used for.
/// client: what principals call the working copies that they ship from.
const SHARING: &str = "
CREATE TABLE invite (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workspace INTEGER NOT NULL REFERENCES workspace, hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL, role INTEGER NOT NULL, invited_by INTEGER NOT NULL REFERENCES principal,
    created INTEGER NOT NULL, expires INTEGER NOT NULL, token BLOB, used INTEGER, revoked INTEGER
) STRICT;
CREATE INDEX invite_by_workspace ON invite (workspace, id);
CREATE TABLE client (
    workspace INTEGER NOT NULL REFERENCES workspace, id BLOB NOT NULL, principal INTEGER NOT NULL REFERENCES principal,
    name TEXT NOT NULL, PRIMARY KEY (workspace, id, principal)
) STRICT, WITHOUT ROWID;
";

/// Chunks of larger contents (pack, chunk, blob.chunks), and what collecting needs: versions that were forgotten, when a
/// blob or node was last named (in milliseconds since 1970, a value that what is named meanwhile has at least while somebody
/// collects), and who refers to one.
const CHUNKS: &str = "
CREATE TABLE pack (id INTEGER PRIMARY KEY, length INTEGER NOT NULL) STRICT;
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE, length INTEGER NOT NULL,
    pack INTEGER NOT NULL REFERENCES pack, offset INTEGER NOT NULL, stored INTEGER NOT NULL
) STRICT;
CREATE INDEX chunk_by_pack ON chunk (pack);
ALTER TABLE blob ADD COLUMN chunks BLOB;
ALTER TABLE version ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspace_blob ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspace_node ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
CREATE TABLE collecting (until INTEGER NOT NULL) STRICT;
CREATE INDEX workspace_blob_by_hash ON workspace_blob (hash);
CREATE INDEX workspace_node_by_hash ON workspace_node (hash);
CREATE INDEX pin_by_hash ON pin (hash);
CREATE INDEX module_by_hash ON module (hash);
";

/// rebased: the record of the run on other inputs. resolved: when the author had decided what the entry left to decide;
/// from then on its pins keep nothing from being collected.
const REBASED: &str = "
ALTER TABLE entry ADD COLUMN rebased BLOB;
ALTER TABLE entry ADD COLUMN resolved INTEGER;
CREATE INDEX entry_by_version ON entry (workspace, version) WHERE made_version;
";

/// pinned: a checksum of what the entry pins. sum: a checksum of all that never changes of the row, `pinned` among it. NULL:
/// the entry is from before there were checksums.
const SUMS: &str = "
ALTER TABLE entry ADD COLUMN pinned BLOB;
ALTER TABLE entry ADD COLUMN sum BLOB;
";

/// Brings the database to the newest layout, each step in a transaction of its own.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    let known = MIGRATIONS.len() as i64;
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(StorageError::Newer { found, known });
    }
    for (number, migration) in (1..).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}
