//! What came with an entry: inline blobs, and the lists behind a record's digests.

use crate::contents::read_all;
use crate::decide::compare;
use crate::problem::Problem;
use crate::replay::Ran;
use crate::state::State;
use opship_record::answer::Need;
use opship_record::effect::{self, Change};
use opship_record::entry::{Part, PartKind, Value};
use opship_record::limits::{MAX_LIST, MAX_NEEDS};
use opship_record::record::{Lists, Record, StepStreams};
use opship_record::{Hash, codec, observation};
use opship_storage::{SMALL_BLOB, Scope, StorageError};
use opship_world::{FileContent, Produced, SourceError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why work on an entry stops without an ending.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Halt {
    /// The client must send something first.
    Needs(Vec<Need>),
    /// What was sent contradicts itself, or the server failed; the text says which.
    Failed(String),
}

impl From<StorageError> for Halt {
    fn from(error: StorageError) -> Halt {
        match error {
            StorageError::Incomplete { blobs, .. } if !blobs.is_empty() => {
                Halt::Needs(blobs.into_iter().take(MAX_NEEDS).map(|hash| Need::Blob { hash }).collect())
            }
            error => Halt::Failed(Problem::from(error).detail().to_owned()),
        }
    }
}

impl From<SourceError> for Halt {
    fn from(error: SourceError) -> Halt {
        Halt::Failed(Problem::internal(&error).detail().to_owned())
    }
}

impl From<opship_record::Error> for Halt {
    fn from(error: opship_record::Error) -> Halt {
        Halt::Failed(error.to_string())
    }
}

/// The parts of an entry.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Blobs that came inline; their hashes were checked when they were decoded.
    pub(crate) blobs: BTreeMap<Hash, Arc<[u8]>>,
    lists: Vec<Part>,
}

impl Parts {
    /// Sorts the parts of a decoded entry.
    pub(crate) fn new(parts: Vec<Part>) -> Parts {
        let mut sorted = Parts::default();
        for part in parts {
            match (part.kind, part.bytes) {
                (PartKind::Blob, Some(bytes)) => {
                    sorted.blobs.insert(part.hash, Vec::from(bytes).into());
                }
                (PartKind::Blob, None) => {}
                (_, bytes) => sorted.lists.push(Part { bytes, ..part }),
            }
        }
        sorted
    }

    /// Did a list come?
    pub(crate) fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }

    /// The bytes of a list, inline or uploaded before; `None` if none came.
    pub(crate) fn list(&self, state: &State, scope: &Scope, kind: PartKind) -> Result<Option<Vec<u8>>, Halt> {
        let Some(part) = self.lists.iter().find(|part| part.kind == kind) else { return Ok(None) };
        if let Some(bytes) = &part.bytes {
            return Ok(Some(bytes.to_vec()));
        }
        let Some(blob) = state.store.open_blob(scope, &part.hash)? else {
            return Err(Halt::Needs(vec![Need::Blob { hash: part.hash }]));
        };
        if blob.length() > MAX_LIST as u64 {
            return Err(Halt::Failed(format!(
                "a list is over the limit of {MAX_LIST} bytes; ship fewer changes at once"
            )));
        }
        Ok(Some(read_all(&blob)?))
    }

    /// The changes of a value entry.
    pub(crate) fn changes(&self, state: &State, scope: &Scope, value: &Value) -> Result<Vec<Change>, Halt> {
        let Some(bytes) = self.list(state, scope, PartKind::Changes)? else {
            return Err(Halt::Needs(vec![Need::Lists]));
        };
        let changes = effect::decode_list(&bytes)?;
        if !value.is_of(&changes) {
            let detail = "the list of changes is another than the one that the value names; send the right one";
            return Err(Halt::Failed(detail.to_owned()));
        }
        Ok(changes)
    }

    /// The lists behind a record. A list whose digest is absent is empty and need not come; nor need observations that
    /// the replay `ran` made too.
    pub(crate) fn lists(
        &self,
        state: &State,
        scope: &Scope,
        record: &Record,
        ran: Option<&Ran>,
    ) -> Result<Lists, Halt> {
        let wanted = |digest: Option<Hash>, kind| match (digest, self.list(state, scope, kind)?) {
            (Some(_), None) => Err(Halt::Needs(vec![Need::Lists])),
            (_, bytes) => Ok(bytes),
        };
        let steps = record.plan.steps.len();
        let observed = ran.filter(|ran| ran.agreement.observations).map(|ran| &ran.outcome.lists.observations);
        let lists = Lists {
            observations: match (self.list(state, scope, PartKind::Observations)?, observed) {
                (Some(bytes), _) => observation::decode_list(&bytes)?,
                (None, Some(observed)) => observed.clone(),
                (None, None) if record.observations.is_some() => return Err(Halt::Needs(vec![Need::Lists])),
                (None, None) => Vec::new(),
            },
            changes: match wanted(record.content, PartKind::Changes)? {
                Some(bytes) => effect::decode_list(&bytes)?,
                None => Vec::new(),
            },
            streams: match wanted(record.streams, PartKind::Streams)? {
                Some(bytes) => codec::decode::<Vec<StepStreams>>(&bytes, "list of streams")?,
                None => vec![StepStreams::default(); steps],
            },
            exits: record.exits.clone().unwrap_or_else(|| vec![0; steps]),
        };
        if !compare(record, &lists).is_match() {
            let detail = "the lists do not have the record's digests; send the lists that the record was made of";
            return Err(Halt::Failed(detail.to_owned()));
        }
        Ok(lists)
    }

    /// Keeps every blob that came inline, so that it need not come again.
    pub(crate) fn keep(&self, state: &State, scope: &Scope) -> Result<(), StorageError> {
        let hashes: Vec<Hash> = self.blobs.keys().copied().collect();
        let missing = state.store.missing_blobs(scope, &hashes)?;
        missing.iter().filter_map(|hash| self.blobs.get(hash)).try_for_each(|bytes| {
            state.store.put_blob_bytes(scope, bytes)?;
            Ok(())
        })
    }
}

/// Lists that a client sent, with the contents that came beside them.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) lists: Lists,
    /// Inline contents that the changes name and that are small enough to travel in the transaction.
    pub(crate) small: Vec<Arc<[u8]>>,
    /// Every content that the changes name.
    pub(crate) pinned: Vec<Hash>,
    /// Those of them that are neither here nor inline.
    pub(crate) lacking: Vec<Hash>,
}

impl Sent {
    /// Finds the contents that the changes name, and checks that they are as long as the changes say: a version must
    /// never state a length that its content does not have.
    /// What a replay made counts as here, although it was not the whole of what was recorded.
    pub(crate) fn new(
        state: &State,
        scope: &Scope,
        parts: &Parts,
        lists: Lists,
        ran: Option<&Ran>,
    ) -> Result<Sent, Halt> {
        let mut sent = Sent { lists, small: Vec::new(), pinned: Vec::new(), lacking: Vec::new() };
        let made: BTreeMap<Hash, &Produced> = ran.into_iter().flat_map(Ran::produced).map(|p| (p.hash, p)).collect();
        let mut seen = BTreeSet::new();
        let named: Vec<_> = sent.lists.changes.iter().filter_map(|change| change.after.blob()).collect();
        for (length, hash) in named {
            if !seen.insert((hash, length)) {
                continue;
            }
            let found = match parts.blobs.get(&hash) {
                Some(bytes) => Some(bytes.len() as u64),
                None => state.store.blob_length(scope, &hash)?,
            };
            let found = found.or_else(|| made.get(&hash).map(|made| made.length));
            match found {
                Some(found) if found != length => {
                    let detail = format!("content {hash} has {found} bytes, but a change says {length}; mend the list");
                    return Err(Halt::Failed(detail));
                }
                Some(_) => sent.hold(state, scope, parts.blobs.get(&hash), made.get(&hash).copied())?,
                None => sent.lacking.push(hash),
            }
            sent.pinned.push(hash);
        }
        Ok(sent)
    }

    /// Makes a content durable, now or in the transaction, if it is not here already.
    fn hold(
        &mut self,
        state: &State,
        scope: &Scope,
        inline: Option<&Arc<[u8]>>,
        made: Option<&Produced>,
    ) -> Result<(), Halt> {
        match (inline, made) {
            (Some(bytes), _) if bytes.len() <= SMALL_BLOB => self.small.push(Arc::clone(bytes)),
            (Some(bytes), _) => drop(state.store.put_blob_bytes(scope, bytes)?),
            (None, Some(made)) => state.store.put_produced(scope, made)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// What the client must upload, at most [`MAX_NEEDS`] at once.
    pub(crate) fn needs(&self) -> Vec<Need> {
        self.lacking.iter().take(MAX_NEEDS).map(|hash| Need::Blob { hash: *hash }).collect()
    }
}
