//! Blobs in and out.

use super::{Inner, Result, Store};
use crate::blobs::{BlobContent, SMALL_BLOB};
use crate::packs::{Chunked, Ingest, Keeping, Naming, Taken, list};
use crate::sqlite::{blobs, chunks};
use crate::{Role, Scope, StorageError, failpoint};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use opship_record::Hash;
use opship_world::Produced;
use rusqlite::Connection;
use std::io;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of a stream that are passed on at once.
const PART: usize = 1 << 20;

impl Store {
    /// Takes a blob in: streams it, verifies it, and makes it durable and visible in the workspace. Gives its length in
    /// bytes. The bytes must come even if another workspace has them. For use in a runtime of tokio.
    ///
    /// # Errors
    /// [`StorageError::WrongHash`], [`StorageError::TooLong`], [`StorageError::Upload`], [`StorageError::DiskFull`];
    /// what came is removed.
    pub async fn put_blob<S, E>(&self, scope: &Scope, expected: Hash, limit: u64, bytes: S) -> Result<u64>
    where
        S: Stream<Item = std::result::Result<Bytes, E>> + Send + Unpin,
        E: std::fmt::Display,
    {
        scope.needs(Role::Write)?;
        let received = self.0.receive(expected, limit, bytes).await.map_err(|error| self.0.classify(error))?;
        failpoint::hit("storage-blob");
        let workspace = scope.workspace;
        match received {
            Received::Small(bytes) => {
                let length = bytes.len() as u64;
                self.0
                    .database
                    .write_async(move |connection| name_small(connection, Some(workspace), &expected, &bytes))
                    .await?;
                Ok(length)
            }
            Received::Large(taken) => {
                let (inner, length) = (self.0.clone(), taken.naming.length());
                // On a thread of its own: whoever waits may go, and a pack that is being named must not be cut off then.
                let naming = spawn_blocking(move || inner.name_taken(Some(workspace), expected, *taken));
                naming.await.map_err(ended)??;
                Ok(length)
            }
        }
    }

    /// Takes bytes in that are in memory. Blocks.
    ///
    /// # Errors
    /// As [`Store::put_blob`].
    pub fn put_blob_bytes(&self, scope: &Scope, bytes: &[u8]) -> Result<Hash> {
        scope.needs(Role::Write)?;
        self.0.keep_bytes(Some(scope.workspace), bytes)
    }

    /// Takes in what a replay in the workspace made. Blocks. Small ones better travel in
    /// [`crate::Commit::small_blobs`], which spares a transaction.
    ///
    /// # Errors
    /// As [`Store::put_blob`].
    pub fn put_produced(&self, scope: &Scope, produced: &Produced) -> Result<()> {
        scope.needs(Role::Write)?;
        let workspace = Some(scope.workspace);
        if produced.length <= SMALL_BLOB as u64 {
            let mut bytes = Vec::new();
            produced.copy_to(&mut bytes).map_err(StorageError::io("reading an output"))?;
            return self.0.keep_small(workspace, produced.hash, bytes);
        }
        self.0.keep_large(workspace, produced.hash, |ingest| {
            let mut sink = Into { ingest, failed: None };
            let copied = produced.copy_to(&mut sink);
            match sink.failed {
                Some(error) => Err(error),
                None => copied.map_err(StorageError::io("reading an output")),
            }
        })
    }

    /// Those of the blobs that are not visible in the workspace.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn missing_blobs(&self, scope: &Scope, hashes: &[Hash]) -> Result<Vec<Hash>> {
        let workspace = scope.workspace;
        let (missing, old) = self.0.database.read(|connection| {
            let (mut missing, mut old) = (Vec::new(), Vec::new());
            for hash in hashes {
                match blobs::is_old(connection, workspace, hash)? {
                    None => missing.push(*hash),
                    Some(true) => old.push(*hash),
                    Some(false) => {}
                }
            }
            Ok((missing, old))
        })?;
        // Whoever hears that a blob is here relies on it, so it must not be collected for a while.
        if !old.is_empty() {
            self.0
                .database
                .write(move |connection| old.iter().try_for_each(|hash| blobs::touch(connection, workspace, hash)))?;
        }
        Ok(missing)
    }

    /// A blob's length in bytes, if it is visible in the workspace.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn blob_length(&self, scope: &Scope, hash: &Hash) -> Result<Option<u64>> {
        self.0.database.read(|connection| blobs::length(connection, scope.workspace, hash))
    }

    /// A blob's bytes, if it is visible in the workspace.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if the bytes are not there as they must be.
    pub fn open_blob(&self, scope: &Scope, hash: &Hash) -> Result<Option<BlobContent>> {
        self.0.open_blob(scope, hash)
    }

    /// Which of these chunks are in blobs of the workspace?
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn known_chunks(&self, scope: &Scope, hashes: &[Hash]) -> Result<Vec<bool>> {
        let found = self.0.database.read(|connection| {
            hashes.iter().map(|hash| chunks::number(connection, hash)).collect::<Result<Vec<Option<i64>>>>()
        })?;
        // No chunk has the number 0.
        let numbers: Vec<i64> = found.into_iter().map(|number| number.unwrap_or(0)).collect();
        self.0.visible.are_in(&self.0.database, scope.workspace, &numbers)
    }

    /// For each beginning of a hash, a chunk in a blob of the workspace whose hash begins so.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn find_chunks(&self, scope: &Scope, prefixes: &[[u8; 8]]) -> Result<Vec<Option<Hash>>> {
        let found = self.0.database.read(|connection| {
            prefixes.iter().map(|prefix| chunks::by_prefix(connection, prefix)).collect::<Result<Vec<_>>>()
        })?;
        let visible = |(number, hash): (i64, Hash)| {
            let visible = self.0.visible.are_in(&self.0.database, scope.workspace, &[number])?;
            Ok(visible.contains(&true).then_some(hash))
        };
        found.into_iter().map(|some| some.into_iter().find_map(|one| visible(one).transpose()).transpose()).collect()
    }

    /// A chunk's bytes, if it is in a blob of the workspace.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if the bytes are not there as they must be.
    pub fn open_chunk(&self, scope: &Scope, hash: &Hash) -> Result<Option<Vec<u8>>> {
        let found = self.0.database.read(|connection| chunks::by_hash(connection, hash))?;
        let Some(chunk) = found else { return Ok(None) };
        let visible = self.0.visible.are_in(&self.0.database, scope.workspace, &[chunk.id])?;
        if visible.contains(&true) { self.0.read_chunk(&chunk).map(Some) } else { Ok(None) }
    }
}

/// What came in from a stream, verified.
enum Received {
    /// Small enough for the database.
    Small(Vec<u8>),
    /// Durable in packs.
    Large(Box<Taken>),
}

impl Inner {
    pub(super) fn classify(&self, error: StorageError) -> StorageError {
        error.classify(self.data.path())
    }

    pub(crate) fn open_blob(self: &Arc<Inner>, scope: &Scope, hash: &Hash) -> Result<Option<BlobContent>> {
        self.open_found(hash, |connection| blobs::find(connection, scope.workspace, hash))
    }

    /// Opens the blob that `find` finds.
    pub(super) fn open_found(
        self: &Arc<Inner>,
        hash: &Hash,
        find: impl FnOnce(&Connection) -> Result<Option<blobs::StoredBlob>>,
    ) -> Result<Option<BlobContent>> {
        let held = self.in_use.hold_blob(*hash);
        let Some(found) = self.database.read(find)? else { return Ok(None) };
        let length = found.length;
        let content = match (found.bytes, found.chunks) {
            (Some(bytes), _) => BlobContent::small(*hash, bytes)?,
            (None, Some(packed)) => {
                let runs = list::unpack(hash, length, &packed)?;
                BlobContent::chunked(*hash, length, Chunked::new(self.clone(), *hash, runs, held))
            }
            (None, None) => BlobContent::file(*hash, length, self.files.open(hash, length)?),
        };
        Ok(Some(content))
    }

    /// Keeps bytes, visible in a workspace if one is given.
    pub(super) fn keep_bytes(self: &Arc<Inner>, workspace: Option<i64>, bytes: &[u8]) -> Result<Hash> {
        let hash = Hash::of(bytes);
        if bytes.len() <= SMALL_BLOB {
            self.keep_small(workspace, hash, bytes.to_vec())?;
        } else {
            self.keep_large(workspace, hash, |ingest| bytes.chunks(PART).try_for_each(|part| ingest.take(part)))?;
        }
        Ok(hash)
    }

    fn keep_small(&self, workspace: Option<i64>, hash: Hash, bytes: Vec<u8>) -> Result<()> {
        failpoint::hit("storage-blob");
        self.database.write(move |connection| name_small(connection, workspace, &hash, &bytes))
    }

    fn keep_large(
        self: &Arc<Inner>,
        workspace: Option<i64>,
        hash: Hash,
        fill: impl FnOnce(&mut Ingest) -> Result<()>,
    ) -> Result<()> {
        let taken = Ingest::new(self, hash, u64::MAX).and_then(|mut ingest| {
            if !ingest.is_stored() {
                fill(&mut ingest)?;
                return ingest.finish();
            }
            Ok(ingest.skip())
        });
        let taken = taken.map_err(|error| self.classify(error))?;
        failpoint::hit("storage-blob");
        self.name_taken(workspace, hash, taken)
    }

    /// Names what was taken in, to its end, whoever waits.
    fn name_taken(&self, workspace: Option<i64>, hash: Hash, taken: Taken) -> Result<()> {
        let Taken { naming, keeping } = taken;
        let named = self.database.write(move |connection| name_large(connection, workspace, &hash, naming))?;
        self.named(workspace, &hash, named, keeping)
    }

    /// Tells who must know that a blob was named.
    fn named(&self, workspace: Option<i64>, hash: &Hash, named: bool, keeping: Keeping) -> Result<()> {
        keeping.done(named);
        workspace.map_or(Ok(()), |workspace| self.visible.named(&self.database, workspace, hash))
    }

    /// Takes a stream in and verifies it.
    async fn receive<S, E>(self: &Arc<Inner>, expected: Hash, limit: u64, mut bytes: S) -> Result<Received>
    where
        S: Stream<Item = std::result::Result<Bytes, E>> + Send + Unpin,
        E: std::fmt::Display,
    {
        let (mut pending, mut count, mut length) = (Vec::new(), 0, 0u64);
        let mut cutting: Option<JoinHandle<Result<Ingest>>> = None;
        while let Some(piece) = bytes.next().await {
            let piece = piece.map_err(|error| StorageError::Upload(error.to_string()));
            let piece = piece.and_then(|piece| {
                length += piece.len() as u64;
                if length > limit { Err(StorageError::TooLong { limit }) } else { Ok(piece) }
            });
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    // What was written is removed before anybody hears of it.
                    if let Some(cutting) = cutting {
                        drop(cutting.await);
                    }
                    return Err(error);
                }
            };
            count += piece.len();
            pending.push(piece);
            if count >= PART {
                let ready = std::mem::take(&mut pending);
                count = 0;
                cutting = Some(self.clone().cut(cutting, expected, limit, ready).await?);
            }
        }
        if length <= SMALL_BLOB as u64 {
            let all = pending.concat();
            let found = Hash::of(&all);
            let is_right = found == expected;
            return if is_right { Ok(Received::Small(all)) } else { Err(StorageError::WrongHash { expected, found }) };
        }
        let ingest = self.clone().cut(cutting, expected, limit, pending).await?;
        let taken = spawn_blocking(move || futures::executor::block_on(ingest).map_err(ended)??.finish());
        let taken = taken.await.map_err(ended)??;
        Ok(Received::Large(Box::new(taken)))
    }

    /// Has the next pieces cut on another thread, once those before are.
    async fn cut(
        self: Arc<Inner>,
        before: Option<JoinHandle<Result<Ingest>>>,
        expected: Hash,
        limit: u64,
        pieces: Vec<Bytes>,
    ) -> Result<JoinHandle<Result<Ingest>>> {
        let before = match before {
            Some(cutting) => Some(cutting.await.map_err(ended)??),
            None => None,
        };
        Ok(spawn_blocking(move || {
            let mut ingest = before.map_or_else(|| Ingest::new(&self, expected, limit), Ok)?;
            pieces.iter().try_for_each(|piece| ingest.take(piece))?;
            Ok(ingest)
        }))
    }
}

/// A thread that was to work ended without an answer.
fn ended(error: tokio::task::JoinError) -> StorageError {
    StorageError::io("taking an upload in")(io::Error::other(error))
}

/// A content as something to write to.
struct Into<'a> {
    ingest: &'a mut Ingest,
    failed: Option<StorageError>,
}

impl io::Write for Into<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.ingest.take(bytes).map_err(|error| self.failed = Some(error));
        taken.map(|()| bytes.len()).map_err(|()| io::ErrorKind::Other.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn name_small(connection: &Connection, workspace: Option<i64>, hash: &Hash, bytes: &[u8]) -> Result<()> {
    blobs::insert_small(connection, hash, bytes)?;
    workspace.map_or(Ok(()), |workspace| blobs::show(connection, workspace, hash))
}

/// Names a content that is durable. Says whether what was written for it counts.
fn name_large(connection: &Connection, workspace: Option<i64>, hash: &Hash, naming: Naming) -> Result<bool> {
    let named = naming.name(connection)?;
    if let Some(workspace) = workspace {
        blobs::show(connection, workspace, hash)?;
    }
    Ok(named)
}
