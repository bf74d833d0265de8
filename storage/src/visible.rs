//! Which chunks a workspace's blobs are made of. Made from the database when a workspace is first asked about and kept up
//! to date from then on: one bit a chunk, instead of a row for each workspace and chunk.

use crate::packs::list::{Run, unpack};
use crate::sqlite::{Database, Result, blobs};
use hashlink::LruCache;
use opship_record::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workspaces that are kept in mind.
const WORKSPACES: usize = 64;

/// The chunks of the workspaces that were asked about last.
pub(crate) struct VisibleChunks(Mutex<LruCache<i64, Arc<Mutex<Option<Bits>>>>>);

impl Default for VisibleChunks {
    fn default() -> VisibleChunks {
        VisibleChunks(Mutex::new(LruCache::new(WORKSPACES)))
    }
}

impl VisibleChunks {
    /// Which of the chunks with these numbers are in a blob of the workspace?
    pub(crate) fn are_in(&self, database: &Database, workspace: i64, chunks: &[i64]) -> Result<Vec<bool>> {
        let bits = self.map().entry(workspace).or_insert_with(Arc::default).clone();
        let mut bits = lock(&bits);
        if bits.is_none() {
            // Whoever names a blob meanwhile waits for the lock and adds it then.
            *bits = Some(database.read(|connection| {
                let mut made = Bits::default();
                blobs::each_list(connection, workspace, &mut |hash, length, list| {
                    made.add(&unpack(hash, length, list)?);
                    Ok(())
                })?;
                Ok(made)
            })?);
        }
        Ok(chunks.iter().map(|chunk| bits.as_ref().is_some_and(|bits| bits.has(*chunk))).collect())
    }

    /// Notes that a blob was named in the workspace.
    pub(crate) fn named(&self, database: &Database, workspace: i64, hash: &Hash) -> Result<()> {
        let Some(bits) = self.map().get(&workspace).cloned() else { return Ok(()) };
        let mut bits = lock(&bits);
        let Some(bits) = bits.as_mut() else { return Ok(()) };
        let found = database.read(|connection| blobs::find(connection, workspace, hash))?;
        if let Some(list) = found.as_ref().and_then(|found| found.chunks.as_deref()) {
            bits.add(&unpack(hash, found.as_ref().map_or(0, |found| found.length), list)?);
        }
        Ok(())
    }

    /// Forgets all, since blobs were taken out of workspaces.
    pub(crate) fn clear(&self) {
        self.map().clear();
    }

    fn map(&self) -> MutexGuard<'_, LruCache<i64, Arc<Mutex<Option<Bits>>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(bits: &Mutex<Option<Bits>>) -> MutexGuard<'_, Option<Bits>> {
    bits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of chunk numbers, which are dense and begin at 1.
#[derive(Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn add(&mut self, runs: &[Run]) {
        for run in runs {
            for chunk in run.first.max(0)..=run.last() {
                self.insert(chunk);
            }
        }
    }

    /// Says whether it is new.
    pub(crate) fn insert(&mut self, chunk: i64) -> bool {
        let Ok(word) = usize::try_from(chunk / 64) else { return false };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = !self.has(chunk);
        self.0[word] |= 1 << (chunk % 64);
        is_new
    }

    pub(crate) fn has(&self, chunk: i64) -> bool {
        let word = usize::try_from(chunk / 64).ok().and_then(|word| self.0.get(word));
        chunk >= 0 && word.is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }
}
