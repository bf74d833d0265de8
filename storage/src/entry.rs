//! Entries that ended: what goes in, and what is kept of them.

use opship_record::answer::{Answer, Difference, Reason, Status, Verdict};
use opship_record::entry::{Body, BodyKind, ClientId, Envelope};
use opship_record::observation::Observation;
use opship_record::record::{Lists, Record};
use opship_record::version::Version;
use opship_record::{Hash, TreePath};

/// How an entry ended, and what is kept with it.
#[derive(Debug, Clone)]
pub struct Ending {
    /// How it ended.
    pub verdict: Verdict,
    /// Why it is not `matched`.
    pub reason: Option<Reason>,
    /// How record and replay differ.
    pub report: Vec<Difference>,
    /// Text for people: what happened and what to do next.
    pub detail: Option<String>,
    /// Time of the replay in microseconds, if there was one.
    pub replay_micros: Option<u64>,
    /// Bytes that the entry took on the wire towards the server.
    pub received_bytes: u64,
    /// Bytes that its answers took.
    pub sent_bytes: u64,
    /// Of an entry that ended `rebased`: the record of the run on the other inputs.
    pub record: Option<Box<Record>>,
}

impl Ending {
    /// An ending of which nothing but the verdict is to be said.
    pub fn new(verdict: Verdict) -> Ending {
        Ending {
            verdict,
            reason: None,
            report: Vec::new(),
            detail: None,
            replay_micros: None,
            received_bytes: 0,
            sent_bytes: 0,
            record: None,
        }
    }
}

/// An entry whose changes become the head's next version.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The entry's envelope.
    pub envelope: Envelope,
    /// Its body; its id is the envelope's.
    pub body: Body,
    /// The lists to keep with the entry. `lists.observations` are checked against the head of the moment,
    /// `lists.changes` are checked (the states before) and applied.
    pub lists: Lists,
    /// Contents of at most [`crate::SMALL_BLOB`] bytes, stored in the same transaction.
    pub small_blobs: Vec<Vec<u8>>,
    /// Blobs that the entry keeps from being collected: outputs and streams. They must be in the workspace.
    pub pinned: Vec<Hash>,
    /// How it ended.
    pub ending: Ending,
    /// Root of the tree that the lists were made on. While it is the head's root, nothing needs checking.
    pub based_on: Option<Hash>,
}

/// An entry that ends without a version: `conflicted`, `rejected`.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The entry's envelope.
    pub envelope: Envelope,
    /// Its body; its id is the envelope's.
    pub body: Body,
    /// The lists to keep with the entry, as far as they are known.
    pub lists: Lists,
    /// Contents of at most [`crate::SMALL_BLOB`] bytes, stored in the same transaction.
    pub small_blobs: Vec<Vec<u8>>,
    /// Blobs that the entry keeps from being collected: the recorded outputs. They must be in the workspace.
    pub pinned: Vec<Hash>,
    /// How it ended.
    pub ending: Ending,
}

/// What became of a [`Commit`] or [`Finish`].
#[derive(Debug, Clone)]
pub enum Committed {
    /// It is durable.
    Done {
        /// The entry as it is kept.
        entry: Box<StoredEntry>,
        /// The version that it made; `None` if it changed nothing.
        version: Option<Version>,
    },
    /// The head has moved on: an observation does not hold on it, or a state before is another. Nothing was changed.
    Stale {
        /// The first observation that does not hold.
        observation: Option<Observation>,
        /// The first path whose state before is another.
        before: Option<TreePath>,
    },
    /// The same key with the same body ended before; this is how. Nothing was changed.
    Duplicate(Box<StoredEntry>),
    /// Another body is held under this key. Nothing was changed.
    Forked,
}

/// An entry that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its number on this server, ascending in the order in which entries ended.
    pub id: i64,
    /// The client.
    pub client: ClientId,
    /// The client's number for it.
    pub sequence: u64,
    /// Id of the body.
    pub body: Hash,
    /// Operation or value.
    pub kind: BodyKind,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it is not `matched`.
    pub reason: Option<Reason>,
    /// Number of the version that it made, or of the head where it made none.
    pub version: u64,
    /// Did it make that version?
    pub made_version: bool,
    /// How record and replay differ.
    pub report: Vec<Difference>,
    /// Text for people.
    pub detail: Option<String>,
    /// Time of the replay in microseconds.
    pub replay_micros: Option<u64>,
    /// Bytes that it took on the wire towards the server.
    pub received_bytes: u64,
    /// Bytes that its answers took.
    pub sent_bytes: u64,
    /// Number of the principal who shipped it.
    pub principal: i64,
    /// When it ended, in milliseconds since 1970.
    pub time: u64,
    /// Of an entry that ended `rebased`: the record of the run on the other inputs.
    pub record: Option<Box<Record>>,
    /// When its author said that what it left to decide is decided, in milliseconds since 1970.
    pub resolved: Option<u64>,
    /// Id of version `version`.
    pub version_id: Option<Hash>,
}

impl StoredEntry {
    /// The answer to give, whenever the entry is sent again.
    pub fn answer(&self) -> Answer {
        Answer {
            verdict: Some(self.verdict),
            reason: self.reason,
            version: Some(self.version),
            report: (!self.report.is_empty()).then(|| self.report.clone()),
            detail: self.detail.clone(),
            replay_micros: self.replay_micros,
            record: self.record.clone(),
            version_mark: self.version_id.map(|id| id.mark().into()),
            ..Answer::new(self.sequence, Status::Ended)
        }
    }
}

/// An entry with all that is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryDetail {
    /// How it ended.
    pub entry: StoredEntry,
    /// The body.
    pub body: Body,
    /// The lists.
    pub lists: Lists,
    /// The blobs that it keeps from being collected.
    pub pinned: Vec<Hash>,
}

/// An operation whose replay makes what a version holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationOfVersion {
    /// The version that it made.
    pub version: u64,
    /// Its record; of one that ended `rebased`, that of the run on the other inputs.
    pub record: Record,
    /// The contents that it wrote, each once.
    pub outputs: Vec<Hash>,
}

/// Which entries to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct EntryFilter {
    /// Only entries with a lower id.
    pub before: Option<i64>,
    /// At most so many; at most 1,000 in any case.
    pub limit: usize,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only of this client.
    pub client: Option<ClientId>,
}

/// Something that happened in a workspace: an entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number of the event, ascending.
    pub id: i64,
    /// The entry that ended.
    pub entry: i64,
    /// How it ended.
    pub verdict: Verdict,
    /// The version that it made, if it made one.
    pub version: Option<u64>,
    /// When, in milliseconds since 1970.
    pub time: u64,
}
