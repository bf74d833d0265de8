//! What travels with an entry: lists and contents, inside the request where they are small, uploaded before where not.

use super::Sync;
use crate::ClientError;
use crate::log::LogEntry;
use opship_record::answer::Need;
use opship_record::entry::{BodyKind, Part, PartKind};
use opship_record::limits::MAX_INLINE_PART;
use opship_record::{Hash, codec, effect, observation};
use opship_world::FileContent;
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

/// Most bytes of contents inside one entry's request; the rest is uploaded, compressed.
const MAX_INLINE_CONTENTS: u64 = 16 << 10;

/// Reads a content from its start to its end.
struct ContentReader {
    content: Arc<dyn FileContent>,
    offset: u64,
}

impl Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.content.read_at(self.offset, buffer).map_err(std::io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Sync<'_> {
    /// The parts that a first request carries: of a value its list and its small contents, of an operation nothing.
    pub(super) async fn first_parts(&mut self, entry: &LogEntry) -> Result<Vec<Part>, ClientError> {
        if entry.kind == BodyKind::Operation {
            return Ok(Vec::new());
        }
        let changes = self.copy.lists(entry.number)?.changes;
        let mut parts = vec![self.list_part(PartKind::Changes, effect::encode_list(&changes)).await?];
        let blobs: BTreeSet<(Hash, u64)> = changes.iter().filter_map(|c| c.after.blob()).map(|(l, h)| (h, l)).collect();
        let mut unknown = Vec::new();
        for (hash, length) in blobs {
            // What an operation makes, the server gets by replaying it.
            if !self.copy.is_produced(&hash)? && !self.copy.is_with_server(&hash)? {
                unknown.push((hash, length));
            }
        }
        if unknown.iter().map(|(_, length)| length).sum::<u64>() <= MAX_INLINE_CONTENTS {
            for (hash, _) in unknown {
                parts.push(self.content_part(&hash)?);
            }
        } else {
            let hashes: Vec<Hash> = unknown.into_iter().map(|(hash, _)| hash).collect();
            self.upload(&hashes).await?;
        }
        Ok(parts)
    }

    /// The lists of an entry, as an answer asked for them.
    pub(super) async fn list_parts(&mut self, entry: &LogEntry) -> Result<Vec<Part>, ClientError> {
        let lists = self.copy.lists(entry.number)?;
        let mut parts = vec![self.list_part(PartKind::Changes, effect::encode_list(&lists.changes)).await?];
        if entry.kind == BodyKind::Operation {
            let observations = observation::encode_list(&lists.observations);
            parts.push(self.list_part(PartKind::Observations, observations).await?);
            parts.push(self.list_part(PartKind::Streams, codec::encode(&lists.streams)).await?);
        }
        Ok(parts)
    }

    /// Uploads what an answer asked for, but for lists, which go with the entry itself.
    pub(super) async fn satisfy(&mut self, entry: &LogEntry, needs: &[Need]) -> Result<(), ClientError> {
        let mut blobs = Vec::new();
        for need in needs {
            match need {
                Need::Lists => {}
                Need::Blob { hash } => blobs.push(*hash),
                Need::Module { hash } => self.book.upload_module(&mut self.api, hash).await?,
                Need::Tree { hash } => self.book.upload_tree(&mut self.api, hash).await?,
                Need::Values => {
                    let changes = self.copy.lists(entry.number)?.changes;
                    blobs.extend(changes.iter().filter_map(|change| change.after.blob()).map(|(_, hash)| hash));
                }
            }
        }
        self.upload(&blobs).await
    }

    /// A list inside the request, or uploaded and named where it is too long.
    async fn list_part(&mut self, kind: PartKind, bytes: Vec<u8>) -> Result<Part, ClientError> {
        if bytes.len() <= MAX_INLINE_PART {
            return Ok(Part::inline(kind, bytes));
        }
        let hash = Hash::of(&bytes);
        self.api.put_blob(&hash, std::io::Cursor::new(bytes)).await?;
        Ok(Part { kind, hash, bytes: None })
    }

    fn content_part(&self, hash: &Hash) -> Result<Part, ClientError> {
        let mut bytes = Vec::new();
        self.reader(hash)?.read_to_end(&mut bytes).map_err(ClientError::io("reading a content to ship"))?;
        if Hash::of(&bytes) != *hash {
            return Err(changed_meanwhile(hash));
        }
        Ok(Part::inline(PartKind::Blob, bytes))
    }

    fn reader(&self, hash: &Hash) -> Result<ContentReader, ClientError> {
        let content = self.copy.blob_source(hash)?.ok_or_else(|| changed_meanwhile(hash))?;
        Ok(ContentReader { content, offset: 0 })
    }

    /// Uploads the blobs that the workspace lacks.
    async fn upload(&mut self, hashes: &[Hash]) -> Result<(), ClientError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let missing = self.api.missing_blobs(hashes).await?;
        for (done, hash) in missing.iter().enumerate() {
            self.progress.step("uploading files", done as u64, missing.len() as u64);
            let reader = self.reader(hash)?;
            self.api.put_blob(hash, reader).await.map_err(|error| match error {
                ClientError::Problem { kind, .. } if kind == "hash-mismatch" => changed_meanwhile(hash),
                error => error,
            })?;
        }
        Ok(())
    }
}

/// A file was changed between the scan and its upload; the next scan takes its new state.
fn changed_meanwhile(hash: &Hash) -> ClientError {
    ClientError::Changed { path: format!("content {}", hash.short()) }
}
