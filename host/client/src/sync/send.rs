//! Sending contents ahead of their entry: as documents where a signature of something like them is here, small ones many at
//! once, large ones by an upload that goes on where it was cut and lets what is more urgent pass.

use super::parcels::{MAX_IN_PARCEL, is_middling};
use super::parts::{Content, SMALL_BYTES};
use super::ship::Shipping;
use super::{Sync, signatures};
use crate::ClientError;
use crate::log::LogEntry;
use crate::net::{Api, DocumentName, documents_body, pack};
use crate::transfer::{Like, Memory, Outcome, Signed, Upload, chunk_hashes, packed_length, small_document};
use opship_record::effect::{After, Before, Change};
use opship_record::limits::MAX_INLINE_PART;
use opship_record::{Hash, TreePath};
use opship_residual::Signature;
use opship_world::FileContent;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes that a request more takes, with its answer.
const REQUEST: usize = 500;
/// Least length of a content whose chunks are asked for.
pub(super) const CHUNKED_FROM: u64 = 4 << 20;
/// Of so many chunks one is asked for first.
const SAMPLED: usize = 16;
/// After so many contents in a row of which the server has no chunk, no more is asked in this sync.
const UNKNOWN_CONTENTS: u32 = 3;
/// Up to this length a content is compressed both with its base and without.
const COMPARED: u64 = 1 << 20;
/// How often is looked whether something has come that goes beside what is under way.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an upload is held up at one time: what is more urgent may have to wait for the server.
const HELD_FOR: Duration = Duration::from_secs(3);

/// Contents, each with one that the server holds and that it is likely like.
pub(super) type Bases = BTreeMap<Hash, Hash>;

/// Documents that go in one request.
#[derive(Default)]
struct Group {
    contents: Vec<Content>,
    documents: Vec<(Hash, Vec<u8>)>,
    signatures: Vec<Signature>,
    bytes: usize,
}

/// For the contents that changes write, what was at their path before, or at one that is removed by the same changes and
/// has the same name or about the same length, as far as a signature of it is here.
pub(super) fn bases(memory: &Memory, changes: &[Change]) -> Bases {
    let mut removed = Vec::new();
    for change in changes.iter().filter(|change| change.after == After::Removed) {
        if let Before::File { hash } = change.before
            && let Some(signature) = memory.signature(&hash)
        {
            removed.push((&change.path, hash, signature.length()));
        }
    }
    let mut bases = Bases::new();
    for change in changes {
        let Some((length, hash)) = change.after.blob().filter(|(length, _)| *length >= signatures::LEAST) else {
            continue;
        };
        let base = match change.before {
            Before::File { hash } => memory.has_signature(&hash).then_some(hash),
            _ => alike(&removed, &change.path, length),
        };
        bases.extend(base.map(|base| (hash, base)));
    }
    bases
}

impl Sync<'_> {
    /// Sends contents whose documents are small, together; gives those that are left.
    pub(super) async fn send_documents(
        &mut self,
        contents: Vec<Content>,
        bases: &mut Bases,
    ) -> Result<Vec<Content>, ClientError> {
        let (mut left, mut group) = (Vec::new(), Group::default());
        for (hash, length) in contents {
            match self.small_delta(&hash, bases).await? {
                Some((document, signature)) => {
                    group.bytes += document.len() + 40;
                    group.contents.push((hash, length));
                    group.documents.push((hash, document));
                    group.signatures.push(signature);
                }
                None => left.push((hash, length)),
            }
            if group.bytes >= SMALL_BYTES {
                left.extend(self.send_group(std::mem::take(&mut group), bases).await?);
            }
        }
        left.extend(self.send_group(group, bases).await?);
        Ok(left)
    }

    async fn small_delta(&self, hash: &Hash, bases: &Bases) -> Result<Option<(Vec<u8>, Signature)>, ClientError> {
        let base = bases.get(hash).filter(|_| !self.no_documents);
        let Some((base, signature)) = base.and_then(|base| Some((*base, self.memory.signature(base)?))) else {
            return Ok(None);
        };
        let content = self.content(hash)?;
        let plain = self.plain_if_small(hash, content.length())?;
        let making = tokio::task::spawn_blocking(move || {
            let made = small_document(content, (&base, &signature))?;
            let Some(plain) = plain else { return Ok(made) };
            // What is small may be smaller yet as it is: of what compresses well little is left to copy.
            let pack = |bytes: &[u8]| pack(bytes).map_err(ClientError::io("compressing a content"));
            Ok(match made {
                Some(made) if pack(&made.0)?.len() < pack(&plain)?.len() => Some(made),
                _ => None,
            })
        });
        let made = making.await.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        self.read(hash, made)
    }

    /// The bytes of a content that would go inside a request.
    fn plain_if_small(&self, hash: &Hash, length: u64) -> Result<Option<Vec<u8>>, ClientError> {
        match usize::try_from(length) {
            Ok(length) if length <= MAX_INLINE_PART => self.small_content(hash, length).map(Some),
            _ => Ok(None),
        }
    }

    /// Sends a group; gives the contents that are left.
    async fn send_group(&mut self, group: Group, bases: &mut Bases) -> Result<Vec<Content>, ClientError> {
        if group.documents.is_empty() || !self.pays(&group)? {
            return Ok(group.contents);
        }
        let Some(refused) = self.api.put_documents(&group.documents).await? else {
            self.no_documents = true;
            return Ok(group.contents);
        };
        for ((hash, _), signature) in group.contents.iter().zip(&group.signatures) {
            if refused.contains(hash) {
                bases.remove(hash);
            } else {
                self.memory.keep_signature(hash, signature);
            }
        }
        Ok(group.contents.into_iter().filter(|(hash, _)| refused.contains(hash)).collect())
    }

    /// Does a request of documents take less than the contents would inside their entry's? A large one does in any case: it
    /// would take a request of its own.
    fn pays(&self, group: &Group) -> Result<bool, ClientError> {
        let mut whole = Vec::new();
        for (hash, length) in &group.contents {
            match usize::try_from(*length) {
                Ok(length) if length <= MAX_INLINE_PART => whole.extend(self.small_content(hash, length)?),
                _ => return Ok(true),
            }
        }
        let packed =
            |bytes: &[u8]| pack(bytes).map(|packed| packed.len()).map_err(ClientError::io("compressing a content"));
        Ok(packed(&documents_body(&group.documents))? + REQUEST < packed(&whole)?)
    }

    /// Uploads contents of an entry, those that are not large many at once.
    pub(super) async fn upload(
        &mut self,
        entry: &LogEntry,
        contents: &[Content],
        bases: &Bases,
        shipping: &mut Shipping<'_>,
    ) -> Result<(), ClientError> {
        let total = contents.len() as u64;
        let fits = |(hash, length): &&Content| *length <= MAX_IN_PARCEL && !bases.contains_key(hash);
        let middling = contents.iter().filter(|content| is_middling(content) && fits(content)).count();
        // A single one was not asked for, if the server may have it: the head of its own upload does so.
        let asks_itself = middling == 1 && self.may_have_some()?;
        let (together, mut alone): (Vec<Content>, Vec<Content>) =
            contents.iter().partition(|content| fits(content) && !(asks_itself && is_middling(content)));
        alone.extend(self.upload_parcels(entry, together, total, shipping).await?);
        let done = total - alone.len() as u64;
        for (number, (hash, _)) in alone.into_iter().enumerate() {
            self.progress.step("uploading files", done + number as u64, total);
            self.upload_large(entry, hash, bases.get(&hash), shipping).await?;
        }
        Ok(())
    }

    /// Uploads one content, from where an earlier upload of the same document stands.
    async fn upload_large(
        &mut self,
        entry: &LogEntry,
        hash: Hash,
        base: Option<&Hash>,
        shipping: &mut Shipping<'_>,
    ) -> Result<(), ClientError> {
        let begun = self.memory.begun(&hash);
        let content = match (self.content(&hash), begun) {
            (Err(error), Some(document)) => {
                // The file is another now, and nobody will go on with this.
                self.memory.end(&hash);
                self.api.drop_upload(&DocumentName { content: Some(hash), document }).await?;
                return Err(error);
            }
            (content, _) => content?,
        };
        let base = base.and_then(|base| Some((*base, self.memory.signature(base)?)));
        let mut like = match base {
            Some(base) => self.read(&hash, of_smaller_document(&content, base).await)?,
            None => self.chunks_there(&hash, &content).await?,
        };
        loop {
            let mut upload = Upload { hash, content: Arc::clone(&content), like: like.clone(), begun: false };
            let document = upload.name().document;
            upload.begun = self.memory.begun(&hash).as_ref() == Some(&document);
            let is_first = matches!(like, Like::Nothing) && !upload.begun;
            self.memory.begin(&hash, &document);
            let outcome = match self.drive(entry, upload, shipping).await {
                // Nobody will go on with it.
                Err(ClientError::Changed { .. }) => {
                    self.memory.end(&hash);
                    self.api.drop_upload(&DocumentName { content: Some(hash), document }).await?;
                    return Err(self.changed_meanwhile(&hash));
                }
                outcome => outcome?,
            };
            self.memory.end(&hash);
            match outcome {
                Outcome::Done(signature) => {
                    if let Some(signature) = signature {
                        self.memory.keep_signature(&hash, &signature);
                    }
                    return Ok(());
                }
                // What went before, or what was copied from, may be to blame: once more, whole and from the beginning.
                Outcome::Mismatch if !is_first => {
                    // Not if it is the file that has changed.
                    self.content(&hash)?;
                    like = Like::Nothing;
                }
                Outcome::Mismatch => return Err(self.changed_meanwhile(&hash)),
                Outcome::Unknown | Outcome::Gone => return self.put_whole(&hash, content).await,
            }
        }
    }

    /// Which chunks of a content the server has. A few are asked for first: of what is new nothing is known, and after some
    /// such contents no more is asked.
    async fn chunks_there(&mut self, hash: &Hash, content: &Arc<dyn FileContent>) -> Result<Like, ClientError> {
        if content.length() < CHUNKED_FROM || self.unknown_contents >= UNKNOWN_CONTENTS {
            return Ok(Like::Nothing);
        }
        let content = Arc::clone(content);
        let hashes = tokio::task::spawn_blocking(move || chunk_hashes(content)).await;
        let hashes = hashes.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        let hashes = self.read(hash, hashes)?;
        let (sample, rest): (Vec<_>, Vec<_>) = hashes.into_iter().enumerate().partition(|(n, _)| n % SAMPLED == 0);
        let only_hashes = |numbered: Vec<(usize, Hash)>| numbered.into_iter().map(|(_, hash)| hash).collect::<Vec<_>>();
        let mut known = self.api.known_chunks(&only_hashes(sample)).await?;
        if known.is_empty() {
            self.unknown_contents += 1;
            return Ok(Like::Nothing);
        }
        self.unknown_contents = 0;
        known.extend(self.api.known_chunks(&only_hashes(rest)).await?);
        Ok(Like::Chunks(Arc::new(known)))
    }

    /// For a server that takes no uploads that go on.
    async fn put_whole(&mut self, hash: &Hash, content: Arc<dyn FileContent>) -> Result<(), ClientError> {
        self.api.put_blob(hash, Signed::new(content)).await.map_err(|error| match error {
            ClientError::Problem { kind, .. } if kind == "hash-mismatch" => self.changed_meanwhile(hash),
            error => error,
        })
    }

    /// Lets an upload run, and holds it up for entries that become ready meanwhile and are small.
    pub(super) async fn drive(
        &mut self,
        entry: &LogEntry,
        upload: Upload,
        shipping: &mut Shipping<'_>,
    ) -> Result<Outcome, ClientError> {
        let (hold, held) = watch::channel(false);
        // One connection for all: a new one takes a round trip, and begins slowly.
        let mut bulk = self.bulk.take().unwrap_or_else(|| self.api.for_bulk());
        let hash = upload.hash;
        let mut task = Running(tokio::spawn(async move { (upload.run(&mut bulk, held).await, bulk) }));
        let mut newest = self.copy.newest()?;
        loop {
            tokio::select! {
                outcome = &mut task.0 => {
                    let (outcome, bulk) = outcome.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
                    self.bulk = Some(bulk);
                    return self.read(&hash, outcome);
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.is_holding() {
                continue;
            }
            let now = self.copy.newest()?;
            let is_newer = std::mem::replace(&mut newest, now) != now;
            let has_answers = shipping.requests.have_answers(entry.number);
            if has_answers || is_newer && self.is_urgent(entry.number, shipping)? {
                self.holding.send_replace(true);
                let passed = self.pass(entry, &hold, shipping).await;
                self.holding.send_replace(false);
                hold.send_replace(false);
                passed?;
            }
        }
    }

    /// Is an upload held up for what is more urgent?
    pub(super) fn is_holding(&self) -> bool {
        *self.holding.borrow()
    }

    /// Ships what is urgent while the upload stands still, for a while at most.
    async fn pass(
        &mut self,
        entry: &LogEntry,
        hold: &watch::Sender<bool>,
        shipping: &mut Shipping<'_>,
    ) -> Result<(), ClientError> {
        hold.send_replace(true);
        let mut passing = Box::pin(async {
            while self.ship_urgent(entry.number, shipping).await? {}
            Ok(())
        });
        tokio::select! {
            passed = &mut passing => return passed,
            () = tokio::time::sleep(HELD_FOR) => {}
        }
        hold.send_replace(false);
        passing.await
    }
}

/// An upload under way; it ends with whoever waits for it.
struct Running(JoinHandle<(Result<Outcome, ClientError>, Api)>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Which document of a content with a base goes: of a long one that with the base, of one that is soon compressed the smaller
/// one.
async fn of_smaller_document(content: &Arc<dyn FileContent>, base: (Hash, Signature)) -> Result<Like, ClientError> {
    let (content, base) = (Arc::clone(content), Arc::new(base));
    if content.length() > COMPARED {
        return Ok(Like::Base(base));
    }
    let comparing = tokio::task::spawn_blocking(move || {
        let with_base = packed_length(&content, Some((&base.0, &base.1)))?;
        let is_smaller = with_base < packed_length(&content, None)?;
        Ok(if is_smaller { Like::Base(base) } else { Like::Nothing })
    });
    comparing.await.map_err(|error| ClientError::Protocol { detail: error.to_string() })?
}

/// Of contents that go, the one that a new one is likely like: with the same file name, or of about the same length.
fn alike(removed: &[(&TreePath, Hash, u64)], path: &TreePath, length: u64) -> Option<Hash> {
    let name = |path: &TreePath| path.as_str().rsplit('/').next().map(str::to_owned);
    let close = |other: u64| other <= length.saturating_mul(2) && length <= other.saturating_mul(2);
    let same_name = removed.iter().find(|(other, ..)| name(other) == name(path));
    let nearest =
        || removed.iter().filter(|(.., other)| close(*other)).min_by_key(|(.., other)| other.abs_diff(length));
    same_name.or_else(nearest).map(|(_, hash, _)| *hash)
}
