//! Reading a content from its chunks.

use super::list::{Run, run_sum};
use crate::StorageError;
use crate::in_use::Held;
use crate::sqlite::chunks::{self, StoredChunk};
use crate::store::Inner;
use opship_record::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a chunk's place is looked up again because its pack was gone.
const ATTEMPTS: usize = 3;

/// A content in chunks. It keeps the store open and its blob from being collected.
pub(crate) struct Chunked {
    inner: Arc<Inner>,
    blob: Hash,
    runs: Vec<Run>,
    /// The run read last: its place in the list, and its chunks.
    last: Mutex<Option<(usize, Arc<[StoredChunk]>)>>,
    _held: Held,
}

impl std::fmt::Debug for Chunked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunked({})", self.blob)
    }
}

impl Chunked {
    pub(crate) fn new(inner: Arc<Inner>, blob: Hash, runs: Vec<Run>, held: Held) -> Chunked {
        Chunked { inner, blob, runs, last: Mutex::new(None), _held: held }
    }

    /// Fills `buffer` from `offset` on, short only at the end.
    pub(crate) fn read_at(&self, mut offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = self.runs.partition_point(|run| run.end <= offset);
            let Some(run) = self.runs.get(at) else { break };
            let list = self.chunks_of(at, run)?;
            let mut start = run.start;
            for chunk in list.iter() {
                let end = start + chunk.length;
                if offset < end && filled < buffer.len() {
                    let bytes = self.bytes_of(chunk)?;
                    let rest = &bytes[usize::try_from(offset - start).map_err(StorageError::damaged)?..];
                    let count = rest.len().min(buffer.len() - filled);
                    buffer[filled..filled + count].copy_from_slice(&rest[..count]);
                    filled += count;
                    offset += count as u64;
                }
                start = end;
            }
        }
        Ok(filled)
    }

    /// The chunks of a run, checked against the list.
    fn chunks_of(&self, at: usize, run: &Run) -> Result<Arc<[StoredChunk]>, StorageError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, chunks)) = last.as_ref().filter(|(known, _)| *known == at) {
            return Ok(chunks.clone());
        }
        let found = self.inner.database.read(|connection| chunks::between(connection, run.first, run.last()))?;
        check_run(&self.blob, run, &found)?;
        let found: Arc<[StoredChunk]> = found.into();
        *last = Some((at, found.clone()));
        Ok(found)
    }

    fn bytes_of(&self, chunk: &StoredChunk) -> Result<Arc<[u8]>, StorageError> {
        if let Some(bytes) = self.inner.packs.cache.get(chunk.id) {
            return Ok(bytes);
        }
        let bytes: Arc<[u8]> = self.inner.read_chunk(chunk)?.into();
        self.inner.packs.cache.insert(chunk.id, bytes.clone());
        Ok(bytes)
    }
}

/// Are these the chunks that the list speaks of?
pub(crate) fn check_run(blob: &Hash, run: &Run, found: &[StoredChunk]) -> Result<(), StorageError> {
    let bytes = found.iter().try_fold(0u64, |sum, chunk| sum.checked_add(chunk.length));
    let whole = found.len() as u64 == run.count && bytes == Some(run.end - run.start);
    if whole && run_sum(found.iter().map(|chunk| &chunk.hash)) == run.sum {
        return Ok(());
    }
    Err(StorageError::damaged(format!("chunks {} to {} of blob {blob} are missing or others", run.first, run.last())))
}

impl Inner {
    /// A chunk's bytes. Its pack may be rewritten meanwhile: then it is looked for at its new place.
    pub(crate) fn read_chunk(&self, chunk: &StoredChunk) -> Result<Vec<u8>, StorageError> {
        let mut chunk = chunk.clone();
        for _ in 0..ATTEMPTS {
            if let Some(stored) = self.packs.stored(&chunk.place)? {
                return self.packs.unpack(&chunk, stored);
            }
            let moved = self.database.read(|connection| chunks::between(connection, chunk.id, chunk.id))?.pop();
            match moved.filter(|moved| moved.hash == chunk.hash && moved.place != chunk.place) {
                Some(moved) => chunk = moved,
                None => break,
            }
        }
        Err(StorageError::damaged(format!("{} is missing", self.packs.path(chunk.place.pack).display())))
    }
}
