//! Chunks of larger contents, in pack files `packs/xx/<number>`.
//!
//! A content over [`crate::SMALL_BLOB`] is cut where its bytes say so; each chunk is stored once in the whole server,
//! compressed where that helps, at the end of some pack. One upload at a time writes to a pack; what it wrote is durable
//! before the transaction that names it, and what no transaction named is cut off before the pack is written again.
//! Invariant: bytes that the database names are never written over; a pack that is emptied gets a new number.

mod cache;
mod content;
mod ingest;
pub(crate) mod list;
mod writer;

pub(crate) use content::{Chunked, check_run};
pub(crate) use ingest::{Ingest, Keeping, Naming, Taken};
pub(crate) use writer::PackWriter;

use crate::StorageError;
use crate::sqlite::chunks::{Place, StoredChunk};
use cache::Cache;
use hashlink::LruCache;
use opship_record::Hash;
use opship_world::read_fully_at;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zstd::bulk::Decompressor;

/// A pack of at least so many bytes is complete.
pub(crate) const PACK_BYTES: u64 = 64 << 20;
/// What a pack begins with.
pub(crate) const MAGIC: &[u8; 8] = b"opship-1";

/// Packs that are kept open for reading.
const OPEN_FILES: usize = 64;
/// Decompressors that are kept when nobody reads.
const IDLE_DECOMPRESSORS: usize = 8;

/// The pack files of a data directory.
pub(crate) struct Packs {
    root: PathBuf,
    next: AtomicI64,
    state: Mutex<State>,
    files: Mutex<LruCache<i64, Arc<File>>>,
    pub(super) cache: Cache,
    decompressors: Mutex<Vec<Decompressor<'static>>>,
}

#[derive(Default)]
struct State {
    /// Packs with room that nobody writes to: number and the length that the database knows.
    free: Vec<(i64, u64)>,
    /// Packs that somebody writes to.
    writing: HashSet<i64>,
}

impl Packs {
    /// `known`: the number and length of each pack in the database.
    pub(crate) fn open(data: &Path, known: &[(i64, u64)]) -> Packs {
        let root = data.join("packs");
        let on_disk = files_in(&root).into_iter().filter_map(|(number, _)| number);
        let highest = known.iter().map(|(number, _)| *number).chain(on_disk).max().unwrap_or(0);
        let free = known.iter().copied().filter(|(_, length)| *length < PACK_BYTES).collect();
        Packs {
            root,
            next: AtomicI64::new(highest + 1),
            state: Mutex::new(State { free, writing: HashSet::new() }),
            files: Mutex::new(LruCache::new(OPEN_FILES)),
            cache: Cache::default(),
            decompressors: Mutex::default(),
        }
    }

    /// Where the pack of a number is.
    pub(crate) fn path(&self, pack: i64) -> PathBuf {
        self.root.join(format!("{:02x}", pack & 0xff)).join(pack.to_string())
    }

    /// All files below the folder, those that are packs with their number.
    pub(crate) fn files(&self) -> Vec<(Option<i64>, PathBuf)> {
        files_in(&self.root)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_number(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Is somebody writing to the pack? One that is free may be taken out of use first, for good.
    pub(crate) fn retire(&self, pack: i64) -> bool {
        let mut state = self.state();
        state.free.retain(|(number, _)| *number != pack);
        !state.writing.contains(&pack)
    }

    /// Does somebody write to the pack?
    pub(crate) fn is_written(&self, pack: i64) -> bool {
        self.state().writing.contains(&pack)
    }

    /// Forgets the open file of a pack that is gone.
    pub(crate) fn close(&self, pack: i64) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&pack);
    }

    fn file(&self, pack: i64) -> io::Result<Arc<File>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(&pack) {
            return Ok(file.clone());
        }
        let file = Arc::new(File::open(self.path(pack))?);
        files.insert(pack, file.clone());
        Ok(file)
    }

    /// The stored form of a chunk, as it is on disk. `None` if the pack is gone.
    pub(crate) fn stored(&self, place: &Place) -> Result<Option<Vec<u8>>, StorageError> {
        let failed = || StorageError::io(format!("reading {}", self.path(place.pack).display()));
        let file = match self.file(place.pack) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed())?,
        };
        let mut bytes = vec![0; usize::try_from(place.stored).map_err(StorageError::damaged)?];
        let count = read_fully_at(&file, place.offset, &mut bytes).map_err(failed())?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }

    /// A chunk's bytes from their stored form, checked against its hash.
    pub(crate) fn unpack(&self, chunk: &StoredChunk, stored: Vec<u8>) -> Result<Vec<u8>, StorageError> {
        let length = usize::try_from(chunk.length).map_err(StorageError::damaged)?;
        let bytes = if stored.len() == length { Some(stored) } else { self.decompress(&stored, length) };
        bytes.filter(|bytes| bytes.len() == length && Hash::of(bytes) == chunk.hash).ok_or_else(|| {
            StorageError::damaged(format!(
                "chunk {} at {} in {}",
                chunk.hash,
                chunk.place.offset,
                self.path(chunk.place.pack).display()
            ))
        })
    }

    fn decompress(&self, stored: &[u8], length: usize) -> Option<Vec<u8>> {
        let idle = || self.decompressors.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut decompressor = taken.or_else(|| Decompressor::new().ok())?;
        let bytes = decompressor.decompress(stored, length).ok();
        let mut idle = idle();
        if idle.len() < IDLE_DECOMPRESSORS {
            idle.push(decompressor);
        }
        bytes
    }
}

fn files_in(root: &Path) -> Vec<(Option<i64>, PathBuf)> {
    let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.map(|file| (file.file_name().to_str().and_then(|name| name.parse().ok()), file.path())).collect()
}
