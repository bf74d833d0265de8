//! What is remembered for transfers, `.opship/transfer.db`: signatures of contents that the server holds, and uploads that
//! were begun. All of it can be lost without harm, so nothing here is synced to disk, and nothing here fails.

use opship_record::Hash;
use opship_residual::Signature;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS signature (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS upload (id INTEGER PRIMARY KEY, document TEXT NOT NULL);
";

/// The memory of one working copy.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None` if it cannot be used: then contents are sent whole.
    db: Option<Mutex<Connection>>,
}

impl Memory {
    /// Opens it below opship's own folder; one that is damaged is begun anew.
    pub(crate) fn open(own: &Path) -> Memory {
        let path = own.join("transfer.db");
        let opened = connect(&path).or_else(|error| {
            tracing::debug!(%error, "transfer.db is begun anew");
            for end in ["", "-wal", "-shm"] {
                let mut file = path.clone().into_os_string();
                file.push(end);
                // What cannot be removed shows when it is opened again.
                let _ = std::fs::remove_file(PathBuf::from(file));
            }
            connect(&path)
        });
        Memory { db: opened.inspect_err(|error| tracing::debug!(%error, "no transfer.db")).ok().map(Mutex::new) }
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let db = self.db.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        work(&db).inspect_err(|error| tracing::debug!(%error, "transfer.db")).ok()
    }

    /// The signature of a content that the server holds.
    pub(crate) fn signature(&self, hash: &Hash) -> Option<Signature> {
        let bytes: Vec<u8> = self
            .with(|db| {
                db.prepare_cached("SELECT bytes FROM signature WHERE id = ?1")?
                    .query_row([key(hash)], |row| row.get(0))
                    .optional()
            })
            .flatten()?;
        Signature::decode(&bytes).ok()
    }

    /// Is there one?
    pub(crate) fn has_signature(&self, hash: &Hash) -> bool {
        let found = self.with(|db| {
            db.prepare_cached("SELECT EXISTS (SELECT 1 FROM signature WHERE id = ?1)")?
                .query_row([key(hash)], |row| row.get(0))
        });
        found.unwrap_or(false)
    }

    /// Keeps the signature of a content that the server holds.
    pub(crate) fn keep_signature(&self, hash: &Hash, signature: &Signature) {
        self.with(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO signature (id, bytes) VALUES (?1, ?2)")?
                .execute(params![key(hash), signature.encode()])
        });
    }

    /// Drops a signature.
    pub(crate) fn drop_signature(&self, hash: &Hash) {
        self.with(|db| db.prepare_cached("DELETE FROM signature WHERE id = ?1")?.execute([key(hash)]));
    }

    /// The document in which an upload of a content was begun.
    pub(crate) fn begun(&self, hash: &Hash) -> Option<String> {
        self.with(|db| {
            db.prepare_cached("SELECT document FROM upload WHERE id = ?1")?
                .query_row([key(hash)], |row| row.get(0))
                .optional()
        })
        .flatten()
    }

    /// Remembers that an upload is begun.
    pub(crate) fn begin(&self, hash: &Hash, document: &str) {
        self.with(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO upload (id, document) VALUES (?1, ?2)")?
                .execute(params![key(hash), document])
        });
    }

    /// Forgets an upload.
    pub(crate) fn end(&self, hash: &Hash) {
        self.with(|db| db.prepare_cached("DELETE FROM upload WHERE id = ?1")?.execute([key(hash)]));
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "OFF")?;
    db.execute_batch(SCHEMA)?;
    Ok(db)
}

/// The first eight bytes of a hash: two contents with the same would mislead a delta, which the server then refuses.
fn key(hash: &Hash) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_damage_is_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let content = vec![7; 5000];
        let (hash, signature) = (Hash::of(&content), Signature::of(&content));
        let memory = Memory::open(folder.path());
        memory.keep_signature(&hash, &signature);
        memory.begin(&hash, "document");
        drop(memory);
        let memory = Memory::open(folder.path());
        assert_eq!(memory.signature(&hash), Some(signature));
        assert_eq!(memory.begun(&hash).as_deref(), Some("document"));
        memory.drop_signature(&hash);
        memory.end(&hash);
        assert!(!memory.has_signature(&hash) && memory.begun(&hash).is_none());
        drop(memory);
        std::fs::write(folder.path().join("transfer.db"), vec![1; 10_000]).unwrap();
        let memory = Memory::open(folder.path());
        assert!(memory.signature(&hash).is_none());
        memory.begin(&hash, "another");
        assert_eq!(memory.begun(&hash).as_deref(), Some("another"));
    }
}
