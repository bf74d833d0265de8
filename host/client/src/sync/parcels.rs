//! Sending contents that are not large, many in one upload, which goes on where it was cut as that of a large one does.

use super::Sync;
use super::parts::{Content, SMALL_BYTES};
use super::send::CHUNKED_FROM;
use super::ship::Shipping;
use crate::ClientError;
use crate::log::LogEntry;
use crate::net::{DocumentName, pack};
use crate::transfer::{Like, Outcome, Upload};
use minicbor::bytes::ByteSlice;
use opship_record::limits::MAX_INLINE_PART;
use opship_record::{Hash, codec};
use opship_world::MemoryContent;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longest content in a parcel: of longer ones the chunks are asked for.
pub(super) const MAX_IN_PARCEL: u64 = CHUNKED_FROM - 1;
/// How often a parcel of which the server has nothing is sent again in one sync.
const TRIES: u32 = 3;

/// Is a content too long for the inside of a request, and fit for a parcel?
pub(super) fn is_middling((_, length): &Content) -> bool {
    *length > MAX_INLINE_PART as u64 && *length <= MAX_IN_PARCEL
}

impl Sync<'_> {
    /// Uploads contents of less than 4 MiB; gives those that must go one by one, since the server does not take parcels.
    pub(super) async fn upload_parcels(
        &mut self,
        entry: &LogEntry,
        contents: Vec<Content>,
        total: u64,
        shipping: &mut Shipping<'_>,
    ) -> Result<Vec<Content>, ClientError> {
        let mut left = contents.as_slice();
        while !left.is_empty() && !self.no_parcels {
            self.progress.step("uploading files", (contents.len() - left.len()) as u64, total);
            let (group, rest) = left.split_at(first_group(left));
            self.no_parcels = !self.upload_parcel(entry, group, shipping).await?;
            if !self.no_parcels {
                left = rest;
            }
        }
        Ok(left.to_vec())
    }

    /// Uploads one parcel, from where an earlier upload of the same bytes stands. `false`: the server does not take it.
    async fn upload_parcel(
        &mut self,
        entry: &LogEntry,
        contents: &[Content],
        shipping: &mut Shipping<'_>,
    ) -> Result<bool, ClientError> {
        let mut contents = contents.to_vec();
        for _ in 0..TRIES {
            let Some(key) = contents.first().map(|(hash, _)| key(hash)) else { return Ok(true) };
            let begun = self.memory.begun(&key);
            let packed = match self.packed(&contents).await {
                Ok(packed) => packed,
                Err(error) => {
                    // A file is another now, and nobody will go on with this.
                    self.drop_parcel(&key, begun).await?;
                    return Err(error);
                }
            };
            let content = Arc::new(MemoryContent::new(packed.as_slice()));
            let mut upload = Upload { hash: Hash::of(&packed), content, like: Like::Parcel, begun: false };
            let document = upload.name().document;
            upload.begun = begun.as_ref() == Some(&document);
            if !upload.begun {
                self.drop_parcel(&key, begun).await?;
                self.memory.begin(&key, &document);
                self.memory.begin(&any(), "");
            }
            let outcome = self.drive(entry, upload, shipping).await?;
            self.memory.end(&key);
            match outcome {
                Outcome::Done(_) => return Ok(true),
                Outcome::Gone => contents = self.missing_of(contents, |_| true).await?,
                Outcome::Mismatch | Outcome::Unknown => return Ok(false),
            }
        }
        Ok(false)
    }

    /// A sequence of contents, compressed as one.
    async fn packed(&self, contents: &[Content]) -> Result<Vec<u8>, ClientError> {
        let mut sequence = Vec::new();
        for (hash, length) in contents {
            let bytes = self.small_content(hash, usize::try_from(*length).unwrap_or(usize::MAX))?;
            sequence.extend(codec::encode(&<&ByteSlice>::from(bytes.as_slice())));
        }
        let packing = tokio::task::spawn_blocking(move || pack(&sequence)).await;
        let packed = packing.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        packed.map_err(ClientError::io("compressing contents"))
    }

    async fn drop_parcel(&mut self, key: &Hash, begun: Option<String>) -> Result<(), ClientError> {
        let Some(document) = begun else { return Ok(()) };
        self.memory.end(key);
        self.api.drop_upload(&DocumentName { content: None, document }).await
    }

    /// Can the server have contents of an entry before it is sent? Not where the workspace is as new as the working copy,
    /// and nothing was sent before.
    pub(super) fn may_have_some(&self) -> Result<bool, ClientError> {
        Ok(self.copy.base()?.0 > 0 || self.memory.begun(&any()).is_some())
    }

    /// The contents but for those of the asked ones that the server has.
    pub(super) async fn missing_of(
        &mut self,
        mut contents: Vec<Content>,
        asked: impl Fn(&Content) -> bool,
    ) -> Result<Vec<Content>, ClientError> {
        let hashes: Vec<Hash> = contents.iter().filter(|content| asked(content)).map(|(hash, _)| *hash).collect();
        let missing: BTreeSet<Hash> = self.api.missing_blobs(&hashes).await?.into_iter().collect();
        contents.retain(|content| !asked(content) || missing.contains(&content.0));
        Ok(contents)
    }
}

/// How many contents the first parcel takes.
fn first_group(contents: &[Content]) -> usize {
    let mut bytes = 0;
    // A byte string's head counts too, or there would be no bound for empty contents.
    let fits = |(_, length): &&Content| {
        bytes += length + 5;
        bytes <= SMALL_BYTES as u64
    };
    contents.iter().take_while(fits).count().max(1)
}

/// What an upload of a parcel that begins with this content is remembered by.
pub(super) fn key(first: &Hash) -> Hash {
    Hash::derive("opship 1 parcel", first.as_bytes())
}

/// What it is remembered by that any parcel was begun.
fn any() -> Hash {
    Hash::derive("opship 1 parcel", b"")
}
