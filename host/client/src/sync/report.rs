//! What a sync did.

use opship_record::answer::{Reason, Verdict};
use opship_record::entry::BodyKind;

/// What a sync did.
#[derive(Debug, Clone, Default)]
pub struct SyncReport {
    /// The entries that got an answer, in the order of their verdicts.
    pub entries: Vec<EntryReport>,
    /// What came from others.
    pub pulled: PullReport,
    /// Bytes sent, headers included.
    pub sent: u64,
    /// Bytes received, headers included.
    pub received: u64,
    /// How long it took.
    pub seconds: f64,
}

/// How one entry fared.
#[derive(Debug, Clone)]
pub struct EntryReport {
    /// The log's number of it.
    pub number: u64,
    /// Operation or value.
    pub kind: BodyKind,
    /// The command line, or a summary of the changes.
    pub command: String,
    /// How it ended; `None`: it waits.
    pub verdict: Option<Verdict>,
    /// Why it is not `matched`.
    pub reason: Option<Reason>,
    /// What the server says about it.
    pub detail: Option<String>,
    /// Does it wait for an entry that ended `rejected` or `conflicted`?
    pub parked: bool,
    /// Bytes sent for it, its share of headers included.
    pub sent: u64,
    /// Bytes received for it.
    pub received: u64,
    /// Bytes that its results would have cost by value, compressed.
    pub value_bytes: u64,
    /// Time of the replay in microseconds, if there was one.
    pub replay_micros: Option<u64>,
    /// From the first request to the verdict, in seconds.
    pub seconds: f64,
}

/// An operation of another that was replayed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The version that it made.
    pub version: u64,
    /// Bytes of contents that need not be downloaded.
    pub saved: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// What came from others.
#[derive(Debug, Clone, Default)]
pub struct PullReport {
    /// Number of the version that the working copy stands on now.
    pub version: u64,
    /// Paths that were brought to another state.
    pub changed: u64,
    /// Paths that wait because of local changes, with the reason.
    pub deferred: Vec<(String, String)>,
    /// Operations of others that were replayed here, and what that saved.
    pub replayed: Vec<Replayed>,
    /// Names that came and that other systems cannot hold, or not beside each other, with the reason.
    pub names: Vec<(String, String)>,
    /// Conflict copies that were made.
    pub conflict_copies: Vec<String>,
}
