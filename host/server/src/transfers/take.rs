//! Making the content of a document that was received, and keeping it.

use crate::problem::Problem;
use crate::state::State;
use bytes::Bytes;
use futures::Stream;
use http::StatusCode;
use opship_record::Hash;
use opship_residual::{ResidualError, apply, packed};
use opship_storage::{BlobContent, Scope, Store};
use opship_world::FileContent;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bytes that are passed to the store at one time.
const PIECE: usize = 128 << 10;

/// Why a content was not made of its document.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The document is at fault, or what it copies from is not here: sending it again is of no use.
    Document(Problem),
    /// The server is at fault: it may be tried again.
    Server(Problem),
}

impl Refused {
    /// The answer.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Refused::Document(problem) | Refused::Server(problem) => problem,
        }
    }
}

/// Keeps the content of a compressed document.
///
/// # Errors
/// [`Refused`]; nothing was kept then.
pub(crate) async fn take_packed(
    state: &Arc<State>,
    scope: &Arc<Scope>,
    expected: Hash,
    document: File,
) -> Result<(), Refused> {
    take(state, scope, expected, move || packed::decoder(document)).await
}

/// Keeps the content of a document in memory.
///
/// # Errors
/// [`Refused`]; nothing was kept then.
pub(crate) async fn take_document(
    state: &Arc<State>,
    scope: &Arc<Scope>,
    expected: Hash,
    document: Bytes,
) -> Result<(), Refused> {
    take(state, scope, expected, move || Ok(io::Cursor::new(document))).await
}

async fn take<R: Read>(
    state: &Arc<State>,
    scope: &Arc<Scope>,
    expected: Hash,
    document: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> Result<(), Refused> {
    let internal = |error: &dyn std::fmt::Display| Refused::Server(Problem::internal(error));
    let permit = Arc::clone(&state.uploads.applied).acquire_owned().await.map_err(|error| internal(&error))?;
    let (sender, receiver) = mpsc::channel(2);
    let (store, own_scope, limit) = (state.store.clone(), Arc::clone(scope), state.blob_bytes);
    let applying = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut pieces = Pieces { sender, gathered: Vec::with_capacity(PIECE) };
        let applied = document()
            .map_err(ResidualError::from)
            .and_then(|document| apply::apply(document, limit, &Here { store, scope: own_scope }, &mut pieces))
            .and_then(|_| Ok(pieces.flush()?));
        if applied.is_err() {
            // The store must not take what came for the whole.
            let _ = pieces.sender.blocking_send(Err(io::Error::other("its document ended early")));
        }
        applied
    });
    let kept = state.store.put_blob(scope, expected, state.blob_bytes, pieces_of(receiver)).await;
    match (applying.await.map_err(|error| internal(&error))?, kept) {
        (Ok(()), Ok(_)) => Ok(()),
        // The store took no more, and says why.
        (Err(ResidualError::Io(error)), Err(kept)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(Refused::Server(kept.into()))
        }
        (Err(error), _) => Err(refused(&error)),
        (Ok(()), Err(error @ opship_storage::StorageError::WrongHash { .. })) => Err(Refused::Document(error.into())),
        (Ok(()), Err(error)) => Err(Refused::Server(error.into())),
    }
}

fn refused(error: &ResidualError) -> Refused {
    let text = error.to_string();
    Refused::Document(match error {
        ResidualError::BaseMissing(hash) => {
            Problem::new(StatusCode::CONFLICT, "base-missing", text).with("base", json!(hash.to_string()))
        }
        ResidualError::TooLong { limit, .. } => Problem::too_large("the content of a document", *limit),
        _ => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "document", text),
    })
}

/// A content of the workspace to copy from.
struct Base(BlobContent);

impl apply::Base for Base {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer).map_err(io::Error::other)
    }
}

/// What the workspace has.
struct Here {
    store: Store,
    scope: Arc<Scope>,
}

impl apply::Sources for Here {
    type Base = Base;

    fn base(&self, hash: &Hash) -> io::Result<Option<Base>> {
        self.store.open_blob(&self.scope, hash).map(|blob| blob.map(Base)).map_err(io::Error::other)
    }

    fn chunk(&self, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        self.store.open_chunk(&self.scope, hash).map_err(io::Error::other)
    }
}

fn pieces_of(receiver: mpsc::Receiver<io::Result<Bytes>>) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
    Box::pin(futures::stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    }))
}

/// Gathers what is made into pieces for the store.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    gathered: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.gathered);
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
