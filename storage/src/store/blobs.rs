//! Blobs in and out.

use super::{Inner, Result, Store};
use crate::blobs::{BlobContent, Received, SMALL_BLOB};
use crate::sqlite::blobs;
use crate::{Role, Scope, StorageError, failpoint};
use bytes::Bytes;
use futures::Stream;
use opship_record::Hash;
use opship_world::{Produced, ProducedBody};

impl Store {
    /// Takes a blob in: streams it, verifies it, and makes it durable and visible in the workspace. Gives its length in
    /// bytes. The bytes must come even if another workspace has them.
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
        let is_stored = self.0.database.read(|connection| blobs::is_stored(connection, &expected))?;
        let received = self.0.blobs.receive(expected, limit, is_stored, bytes).await;
        let (length, small) = match received.map_err(|error| self.0.classify(error))? {
            Received::Small(bytes) => (bytes.len() as u64, Some(bytes)),
            Received::Large(length) => (length, None),
        };
        failpoint::hit("storage-blob");
        let workspace = scope.workspace;
        self.0
            .database
            .write_async(move |connection| name(connection, Some(workspace), &expected, length, small))
            .await?;
        Ok(length)
    }

    /// Takes bytes in that are in memory. Blocks.
    ///
    /// # Errors
    /// As [`Store::put_blob`].
    pub fn put_blob_bytes(&self, scope: &Scope, bytes: &[u8]) -> Result<Hash> {
        scope.needs(Role::Write)?;
        self.0.keep_bytes(Some(scope.workspace), bytes)
    }

    /// Takes in what a replay in the workspace made; its file is moved into place. Blocks. Small ones better travel in
    /// [`crate::Commit::small_blobs`], which spares a transaction.
    ///
    /// # Errors
    /// As [`Store::put_blob`].
    pub fn put_produced(&self, scope: &Scope, produced: &Produced) -> Result<()> {
        scope.needs(Role::Write)?;
        self.0.keep(Some(scope.workspace), produced)
    }

    /// Those of the blobs that are not visible in the workspace.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn missing_blobs(&self, scope: &Scope, hashes: &[Hash]) -> Result<Vec<Hash>> {
        self.0.database.read(|connection| {
            let mut missing = Vec::new();
            for hash in hashes {
                if blobs::length(connection, scope.workspace, hash)?.is_none() {
                    missing.push(*hash);
                }
            }
            Ok(missing)
        })
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
}

impl Inner {
    pub(super) fn classify(&self, error: StorageError) -> StorageError {
        error.classify(self.data.path())
    }

    pub(crate) fn open_blob(&self, scope: &Scope, hash: &Hash) -> Result<Option<BlobContent>> {
        let found = self.database.read(|connection| blobs::find(connection, scope.workspace, hash))?;
        found.map(|found| self.content(hash, found)).transpose()
    }

    pub(super) fn content(&self, hash: &Hash, found: blobs::StoredBlob) -> Result<BlobContent> {
        match found.bytes {
            Some(bytes) => Ok(BlobContent::small(*hash, bytes)),
            None => self.blobs.read(hash, found.length),
        }
    }

    /// Keeps bytes, visible in a workspace if one is given.
    pub(super) fn keep_bytes(&self, workspace: Option<i64>, bytes: &[u8]) -> Result<Hash> {
        let hash = Hash::of(bytes);
        let body = ProducedBody::Memory(bytes.to_vec());
        self.keep(workspace, &Produced { body, length: bytes.len() as u64, hash })?;
        Ok(hash)
    }

    fn keep(&self, workspace: Option<i64>, produced: &Produced) -> Result<()> {
        let (hash, length) = (produced.hash, produced.length);
        let small = if length > SMALL_BLOB as u64 {
            if !self.database.read(|connection| blobs::is_stored(connection, &hash))? {
                self.blobs.keep_large(produced).map_err(|error| self.classify(error))?;
            }
            None
        } else {
            let mut bytes = Vec::new();
            produced.copy_to(&mut bytes).map_err(StorageError::io("reading an output"))?;
            Some(bytes)
        };
        failpoint::hit("storage-blob");
        self.database.write(move |connection| name(connection, workspace, &hash, length, small))
    }
}

/// Names a blob in the database: small ones with their bytes, larger ones after they are durable.
fn name(
    connection: &rusqlite::Connection,
    workspace: Option<i64>,
    hash: &Hash,
    length: u64,
    small: Option<Vec<u8>>,
) -> Result<()> {
    blobs::insert(connection, hash, length, small.as_deref())?;
    workspace.map_or(Ok(()), |workspace| blobs::show(connection, workspace, hash))
}
