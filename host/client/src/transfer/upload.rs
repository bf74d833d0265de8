//! An upload: one request as long as nothing cuts it off, and then on from the byte where the server stands. It can be held
//! up at any time for what is more urgent.

use super::Signed;
use crate::ClientError;
use crate::net::{Api, DocumentName, RequestBody};
use bytes::Bytes;
use opship_record::{Hash, Hasher};
use opship_residual::{Signature, delta, packed};
use opship_world::FileContent;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Bytes of a piece of the body: each takes nine more on the wire where the body's length is not stated, and one is what
/// still goes when the upload is held up.
const PIECE: usize = 256 << 10;
/// Up to this length of its content a document is made before it is sent: then its length is stated, which takes fewer
/// bytes. It is little, since nothing is sent meanwhile.
const WHOLE: u64 = 4 << 20;
/// Tries in a row that bring nothing before the upload is left to the next sync.
const TRIES: u32 = 4;
/// Pause before the first of them; each next is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// How long the word that the server wants a body may take.
const WANTED_WITHIN: Duration = Duration::from_secs(5);

/// A content to be uploaded.
#[derive(Clone)]
pub(crate) struct Upload {
    /// The content's hash.
    pub(crate) hash: Hash,
    /// The content.
    pub(crate) content: Arc<dyn FileContent>,
    /// What the server holds of it.
    pub(crate) like: Like,
    /// Was it begun before, so that it may go on?
    pub(crate) begun: bool,
}

/// What the server holds of a content.
#[derive(Clone)]
pub(crate) enum Like {
    /// Nothing that is known here.
    Nothing,
    /// A content that it is like, with its signature.
    Base(Arc<(Hash, Signature)>),
    /// Some of its chunks.
    Chunks(Arc<BTreeSet<Hash>>),
    /// Nothing: it is a parcel of several contents, as it goes.
    Parcel,
}

/// How an upload ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The server holds the content; its signature, if all of it was read for that.
    Done(Option<Signature>),
    /// What came out at the server was not the content: the base is not what it was thought to be, or the file changed.
    Mismatch,
    /// The server has nothing of a parcel that was begun: it never came, or its contents are stored and the answer was lost.
    Gone,
    /// The server takes no such uploads.
    Unknown,
}

impl Upload {
    /// The document that it sends.
    pub(crate) fn name(&self) -> DocumentName {
        let like = match &self.like {
            Like::Parcel => return DocumentName::of_parcel(&self.hash),
            Like::Nothing => "none".to_owned(),
            Like::Base(base) => base.0.to_string(),
            Like::Chunks(known) => {
                let mut hasher = Hasher::new();
                known.iter().for_each(|hash| hasher.update(hash.as_bytes()));
                format!("chunks {}", hasher.finish())
            }
        };
        DocumentName::new(self.hash, &like)
    }

    /// Uploads over a connection of its own; stands still while `held` is set.
    ///
    /// # Errors
    /// [`ClientError`]: what the server has stays there, and a later upload goes on from it.
    pub(crate) async fn run(self, api: &mut Api, held: watch::Receiver<bool>) -> Result<Outcome, ClientError> {
        let name = self.name();
        let mut offset = if self.begun { api.upload_offset(&name).await? } else { None };
        let is_parcel = matches!(self.like, Like::Parcel);
        if is_parcel && self.begun && offset.is_none() {
            return Ok(Outcome::Gone);
        }
        let mut tries = 0;
        loop {
            let error = match self.send(api, &name, offset, &held).await {
                Err(ClientError::Problem { status: 404 | 405, .. }) if offset.is_none() => return Ok(Outcome::Unknown),
                Err(ClientError::Problem { kind, .. })
                    if matches!(kind.as_str(), "hash-mismatch" | "document" | "base-missing") =>
                {
                    return Ok(Outcome::Mismatch);
                }
                Err(error) if may_go_on(&error) => error,
                result => return result.map(Outcome::Done),
            };
            tracing::debug!(%error, "an upload was cut off");
            tries += 1;
            let stands = loop {
                if tries > TRIES {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE * 2u32.pow(tries - 1)).await;
                match api.upload_offset(&name).await {
                    Err(error) if may_go_on(&error) => tries += 1,
                    stands => break stands?,
                }
            };
            if is_parcel && stands.is_none() {
                return Ok(Outcome::Gone);
            }
            if stands > offset {
                tries = 0;
            }
            offset = stands;
        }
    }

    /// One request, from the offset to the end.
    async fn send(
        &self,
        api: &mut Api,
        name: &DocumentName,
        offset: Option<u64>,
        held: &watch::Receiver<bool>,
    ) -> Result<Option<Signature>, ClientError> {
        let (ready, begins) = oneshot::channel();
        let (sender, receiver) = mpsc::channel(1);
        // The server may have the content: then it says so at once, and nothing is sent. Of those in a parcel it was asked.
        let is_parcel = matches!(self.like, Like::Parcel);
        let (wanted, is_wanted) = watch::channel(offset.is_some() || is_parcel);
        let wanted = Arc::new(wanted);
        let runtime = Handle::current();
        let gathered = (self.content.length() <= WHOLE || is_parcel).then(Vec::new);
        let (ready, is_wanted) = (Some(ready), Some(is_wanted));
        let pieces = Pieces { sender, ready, wanted: is_wanted, held: held.clone(), runtime, gathered };
        let encoding = self.clone().encode(offset.unwrap_or(0), pieces);
        // Nothing is sent while what the server has is passed over. If that fails the encoder says why.
        let length = begins.await.ok().flatten();
        let body = match offset {
            None if !is_parcel => RequestBody::Expected(receiver, length, Arc::clone(&wanted)),
            _ => RequestBody::Stream(receiver, length),
        };
        let sent = api.upload(name, offset, body).await;
        wanted.send_replace(true);
        let encoded = encoding.await.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        match (sent, encoded) {
            (Ok(()), signature) => Ok(signature.ok()),
            (Err(_), Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ClientError::Changed { path: format!("content {}", self.hash.short()) })
            }
            (Err(error @ ClientError::Problem { .. }), _) => Err(error),
            (Err(_), Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(ClientError::Read { path: self.hash.to_string(), detail: error.to_string() })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Makes the document's bytes behind the first `skipped`, on a thread of its own.
    fn encode(self, skipped: u64, pieces: Pieces) -> JoinHandle<io::Result<Signature>> {
        tokio::task::spawn_blocking(move || {
            let failing = pieces.sender.clone();
            let length = self.content.length();
            let mut signed = Signed::new(Arc::clone(&self.content));
            let make = || {
                let mut out = packed::Skip::new(BufWriter::with_capacity(PIECE, pieces), skipped);
                let encoder = |out| packed::Encoder::new(out, length);
                let encoder = match &self.like {
                    Like::Parcel => {
                        io::copy(&mut signed, &mut out)?;
                        return out.finish();
                    }
                    Like::Nothing => delta::make(&mut signed, length, None, encoder(out)?)?,
                    Like::Base(base) => delta::make(&mut signed, length, Some((&base.0, &base.1)), encoder(out)?)?,
                    Like::Chunks(known) => delta::make_of_chunks(&mut signed, length, known, encoder(out)?)?,
                };
                encoder.finish()?.finish()
            };
            match make() {
                Ok(()) => Ok(signed.signature()),
                Err(error) => {
                    // The request must not end as if it were whole.
                    let _ = failing.blocking_send(Err(io::Error::new(error.kind(), error.to_string())));
                    Err(error)
                }
            }
        })
    }
}

/// Can the upload go on after this?
fn may_go_on(error: &ClientError) -> bool {
    match error {
        ClientError::Connection { .. } | ClientError::Unreachable { .. } => true,
        ClientError::Problem { kind, status, .. } => {
            matches!(kind.as_str(), "upload" | "mismatching-upload-offset" | "stopping") || *status == 404
        }
        _ => false,
    }
}

/// Passes pieces on to the request, unless it is held up.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    /// Told at the first piece, with the bytes that there are in all if that is known.
    ready: Option<oneshot::Sender<Option<u64>>>,
    /// Does the server want the body? Asked before the first piece.
    wanted: Option<watch::Receiver<bool>>,
    held: watch::Receiver<bool>,
    runtime: Handle,
    /// What was made so far, if all is made before any is sent.
    gathered: Option<Vec<u8>>,
}

impl Pieces {
    fn begin(&mut self, length: Option<u64>) {
        if let Some(ready) = self.ready.take() {
            // If nobody waits, sending shows it.
            let _ = ready.send(length);
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (sender, wanted, held) = (&self.sender, self.wanted.take(), &mut self.held);
        let sent = self.runtime.block_on(async {
            if let Some(mut wanted) = wanted {
                // What stands between may keep the word back; then the body goes all the same.
                let _ = tokio::time::timeout(WANTED_WITHIN, wanted.wait_for(|wanted| *wanted)).await;
            }
            // If who holds it up is gone, nobody does.
            let _ = held.wait_for(|held| !held).await;
            sender.send(Ok(Bytes::copy_from_slice(bytes))).await
        });
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.gathered {
            Some(gathered) => gathered.extend_from_slice(bytes),
            None => {
                self.begin(None);
                self.send(bytes)?;
            }
        }
        Ok(bytes.len())
    }

    /// Sends what was gathered: the encoder does this at its end alone.
    fn flush(&mut self) -> io::Result<()> {
        let Some(gathered) = self.gathered.take() else { return Ok(()) };
        self.begin(Some(gathered.len() as u64).filter(|length| *length > 0));
        gathered.chunks(PIECE).try_for_each(|piece| self.send(piece))
    }
}
