//! What travels with an entry: lists and contents, inside the request where they are small, uploaded before where not.

use super::Sync;
use super::parcels::{MAX_IN_PARCEL, is_middling};
use super::send::bases;
use super::ship::Shipping;
use crate::ClientError;
use crate::log::LogEntry;
use crate::transfer::Plain;
use opship_record::answer::Need;
use opship_record::effect::Change;
use opship_record::entry::{BodyKind, Part, PartKind};
use opship_record::limits::{MAX_INLINE_PART, MAX_PARTS};
use opship_record::{Hash, codec, effect, observation};
use opship_world::FileContent;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes of small contents in one request.
pub(super) const SMALL_BYTES: usize = 8 << 20;
/// Small contents that go with one entry: with its lists they are fewer parts than an entry may have.
const SMALL_PARTS: usize = MAX_PARTS - 8;
/// With this many bytes of contents the server is first asked which of them it has.
const ASK_FROM: u64 = 32 << 10;
/// A content below this length is sent unasked: asking takes twice its hash, which does not compress.
const ASK_EACH: u64 = 1 << 10;

/// With more large contents than this the server is asked before they are uploaded one by one.
const ASK_LARGE: usize = 4;

/// For contents of this length it is asked first how large files may be.
const ASK_LIMIT_FROM: u64 = 4 << 20;

/// A content's hash and length.
pub(super) type Content = (Hash, u64);

impl Sync<'_> {
    /// The parts that go with an entry at first into a request of `length` bytes so far: of a value its list and its small
    /// contents, of an operation nothing, unless a program of the user's own ran. What has no room there is uploaded.
    ///
    /// An entry that the server may hold already goes again as it is, also where contents are gone: if the server lacks
    /// them, it says so, and then the entry may be changed.
    pub(super) async fn first_parts(
        &mut self,
        entry: &LogEntry,
        length: usize,
        shipping: &mut Shipping<'_>,
    ) -> Result<Vec<Part>, ClientError> {
        if entry.kind == BodyKind::Operation {
            return self.operation_parts(entry).await;
        }
        let changes = self.copy.lists(entry.number)?.changes;
        let mut parts = vec![self.list_part(PartKind::Changes, effect::encode_list(&changes)).await?];
        let unknown = self.not_with_server(entry, &changes)?;
        let mut bases = bases(&self.memory, &changes);
        let unknown = self.send_documents(unknown, &mut bases).await?;
        let contents = if entry.sent || self.may_have_some()? { self.lacking(unknown).await? } else { unknown };
        let (mut inside, mut ahead, mut room) = (Vec::new(), Vec::new(), SMALL_BYTES.saturating_sub(length));
        for (hash, bytes) in contents {
            match usize::try_from(bytes) {
                Ok(bytes) if bytes <= MAX_INLINE_PART && bytes <= room && inside.len() < SMALL_PARTS => {
                    room -= bytes;
                    inside.push((hash, bytes));
                }
                _ => ahead.push((hash, bytes)),
            }
        }
        if self.would_be_refused(&ahead).await? {
            // The entry alone is answered with why.
            return Ok(parts);
        }
        self.upload(entry, &ahead, &bases, shipping).await?;
        for (hash, bytes) in inside {
            parts.push(Part::inline(PartKind::Blob, self.small_content(&hash, bytes)?));
        }
        Ok(parts)
    }

    /// Is one of these larger than the workspace takes? Asked once a sync, and only for what takes much longer than asking.
    pub(super) async fn would_be_refused(&mut self, contents: &[Content]) -> Result<bool, ClientError> {
        let Some(most) = contents.iter().map(|(_, bytes)| *bytes).max().filter(|most| *most >= ASK_LIMIT_FROM) else {
            return Ok(false);
        };
        let limit = match self.largest_file {
            Some(limit) => limit,
            None => *self.largest_file.insert(self.api.workspace().await?.largest_file()),
        };
        Ok(most > limit)
    }

    /// Has a value contents that the server may lack and that are too large for a request?
    pub(super) fn has_large(&self, entry: &LogEntry) -> Result<bool, ClientError> {
        if entry.kind == BodyKind::Operation || entry.value_bytes <= MAX_INLINE_PART as u64 {
            return Ok(false);
        }
        let contents = self.not_with_server(entry, &self.copy.lists(entry.number)?.changes)?;
        Ok(contents.iter().any(|(_, length)| *length > MAX_INLINE_PART as u64))
    }

    /// The contents that changes write, but for those that the server is known to have or makes by replaying; in the
    /// order of paths, so that what is alike stands together and compresses well.
    fn not_with_server(&self, entry: &LogEntry, changes: &[Change]) -> Result<Vec<Content>, ClientError> {
        let (mut unknown, mut seen) = (Vec::new(), BTreeSet::new());
        for (length, hash) in changes.iter().filter_map(|change| change.after.blob()) {
            // A signature is only of what the server held. Should it be gone there, the answer asks for it.
            let is_there = self.copy.is_produced(&hash, entry.number)?
                || self.copy.is_with_server(&hash)?
                || self.memory.has_signature(&hash);
            if is_there || seen.contains(&hash) {
                continue;
            }
            let is_gone = entry.sent && self.copy.blob_source(&hash)?.is_none();
            if !is_gone {
                seen.insert(hash);
                unknown.push((hash, length));
            }
        }
        Ok(unknown)
    }

    /// Those of the contents that the server does not have, as far as asking can pay. Few large ones are not asked for, nor
    /// one of middling length: the head of an upload asks too.
    async fn lacking(&mut self, contents: Vec<Content>) -> Result<Vec<Content>, ClientError> {
        let is_large = |(_, length): &Content| *length > MAX_IN_PARCEL;
        let few = contents.iter().filter(|content| is_large(content)).count() <= ASK_LARGE;
        let is_single = contents.iter().filter(|content| is_middling(content)).count() == 1;
        let asks_itself = |content: &Content| (few && is_large(content)) || (is_single && is_middling(content));
        let asked = |content: &Content| content.1 >= ASK_EACH && !asks_itself(content);
        let bytes: u64 = contents.iter().filter(|content| asked(content)).map(|(_, length)| length).sum();
        if bytes <= ASK_FROM {
            return Ok(contents);
        }
        self.missing_of(contents, asked).await
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
    pub(super) async fn satisfy(
        &mut self,
        entry: &LogEntry,
        needs: &[Need],
        shipping: &mut Shipping<'_>,
    ) -> Result<(), ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let lengths: BTreeMap<Hash, u64> =
            changes.iter().filter_map(|c| c.after.blob()).map(|(length, hash)| (hash, length)).collect();
        let mut blobs = Vec::new();
        for need in needs {
            match need {
                Need::Lists => {}
                // One that no change names (standard input) counts as large: it is read to its end.
                Need::Blob { hash } => blobs.push((*hash, lengths.get(hash).copied().unwrap_or(u64::MAX))),
                Need::Module { hash } => self.book.upload_module(&mut self.api, hash).await?,
                Need::Tree { hash } => self.book.upload_tree(&mut self.api, hash).await?,
                Need::Values => {
                    let all = lengths.iter().map(|(hash, length)| (*hash, *length)).collect();
                    blobs.extend(self.lacking(all).await?);
                }
            }
        }
        let mut bases = bases(&self.memory, &changes);
        let blobs = self.send_documents(blobs, &mut bases).await?;
        self.upload(entry, &blobs, &bases, shipping).await
    }

    /// A list inside the request, or uploaded and named where it is too long.
    pub(super) async fn list_part(&mut self, kind: PartKind, bytes: Vec<u8>) -> Result<Part, ClientError> {
        if bytes.len() <= MAX_INLINE_PART {
            return Ok(Part::inline(kind, bytes));
        }
        let hash = Hash::of(&bytes);
        self.api.put_blob(&hash, std::io::Cursor::new(bytes)).await?;
        Ok(Part { kind, hash, bytes: None })
    }

    /// The bytes of a content of this length.
    pub(super) fn small_content(&self, hash: &Hash, length: usize) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        // One byte more shows a file that has grown.
        let mut reader = Plain::new(self.content(hash)?).take(length as u64 + 1);
        let read = reader.read_to_end(&mut bytes).map_err(ClientError::io("reading a content to ship"));
        self.read(hash, read)?;
        if Hash::of(&bytes) != *hash {
            return Err(self.changed_meanwhile(hash));
        }
        Ok(bytes)
    }

    pub(super) fn content(&self, hash: &Hash) -> Result<Arc<dyn FileContent>, ClientError> {
        self.copy.blob_source(hash)?.ok_or_else(|| self.changed_meanwhile(hash))
    }

    /// A file was changed between the scan and its upload; the next scan takes its new state.
    pub(super) fn changed_meanwhile(&self, hash: &Hash) -> ClientError {
        ClientError::Changed { path: self.path_of(hash) }
    }

    /// What came of reading a content; an error names its file, and concerns the entry that the content is of alone.
    pub(super) fn read<T>(&self, hash: &Hash, read: Result<T, ClientError>) -> Result<T, ClientError> {
        read.map_err(|error| match error {
            ClientError::Io { error, .. } if is_change(&error) => self.changed_meanwhile(hash),
            ClientError::Io { error, .. } => ClientError::Read { path: self.path_of(hash), detail: error.to_string() },
            ClientError::Changed { .. } => self.changed_meanwhile(hash),
            ClientError::Read { detail, .. } => ClientError::Read { path: self.path_of(hash), detail },
            error => error,
        })
    }

    /// The path that waits to be shipped with this content.
    fn path_of(&self, hash: &Hash) -> String {
        let named = |entry: LogEntry| {
            let changes = self.copy.lists(entry.number).ok()?.changes;
            changes.into_iter().find(|change| change.after.blob().is_some_and(|(_, found)| found == *hash))
        };
        let change = self.copy.pending().unwrap_or_default().into_iter().find_map(named);
        change.map_or_else(|| format!("content {}", hash.short()), |change| change.path.to_string())
    }
}

/// Does it tell that a file is no longer what it was?
fn is_change(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
