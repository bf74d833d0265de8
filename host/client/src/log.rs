//! Entries of the log as others see them: the network half, the command line.

use crate::ClientError;
use crate::choice::Prediction;
use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_record::entry::{Body, BodyKind, ClientId};
use opship_record::{Hash, TreePath};

/// Where an entry of the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// Its intent is durable and its files are being exchanged; recovery rolls it forward.
    Applying,
    /// It is in the log and has no verdict yet.
    Pending,
    /// It has a verdict.
    Ended,
}

impl EntryState {
    /// The word for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            EntryState::Applying => "applying",
            EntryState::Pending => "pending",
            EntryState::Ended => "ended",
        }
    }
}

/// An entry of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The log's own number of it. It never changes, also when the entry moves to another client id.
    pub number: u64,
    /// The client id under which it is shipped.
    pub client: ClientId,
    /// Its sequence number under that id.
    pub sequence: u64,
    /// Operation or value.
    pub kind: BodyKind,
    /// Where it stands.
    pub state: EntryState,
    /// May the server hold it? It was put into a request ([`crate::WorkingCopy::mark_sent`]), and the answer to that was
    /// neither `needs` nor `parked`.
    pub sent: bool,
    /// The command line, or a summary of the changes, for people.
    pub command: String,
    /// The canonical bytes of its body.
    pub body: Vec<u8>,
    /// Sequence numbers of the entries that it still waits for, under the same client id, ascending.
    pub waits: Vec<u64>,
    /// Bytes that shipping it by value would send: the contents written and not held by the server.
    pub value_bytes: u64,
    /// The last answer, if there was one.
    pub answer: Option<Answer>,
    /// Bytes sent for it so far.
    pub sent_bytes: u64,
    /// Bytes received for it so far.
    pub received_bytes: u64,
    /// When it was appended, in milliseconds since 1970.
    pub created: u64,
    /// When its verdict came, in milliseconds since 1970.
    pub ended: Option<u64>,
    /// Was what is kept for it dropped? [`crate::WorkingCopy::release`].
    pub released: bool,
    /// How long an operation's run took here, in microseconds.
    pub run_micros: Option<u64>,
    /// What was predicted for shipping it.
    pub prediction: Option<Prediction>,
    /// What it took from its first request to its verdict, in microseconds.
    pub shipped_micros: Option<u64>,
}

impl LogEntry {
    /// The verdict, if it ended.
    pub fn verdict(&self) -> Option<Verdict> {
        self.answer.as_ref().and_then(|answer| answer.verdict)
    }

    /// Why the results of an operation travel under this entry; `None` for an operation, and where there was none.
    pub(crate) fn reason_of_value(&self) -> Result<Option<Reason>, ClientError> {
        Ok(match Body::decode(self.kind, &self.body)? {
            Body::Value(value) => value.reason,
            Body::Operation(_) => None,
        })
    }

    /// Does it wait for entries that ended `rejected` or `conflicted`?
    pub fn is_parked(&self) -> bool {
        let was_parked = self.answer.as_ref().is_some_and(|answer| answer.status == Status::Parked);
        self.state == EntryState::Pending && was_parked && !self.waits.is_empty()
    }
}

/// Bytes that an exchange with the server took, as counted by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// A path that a pull could not bring to the server's state yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// The path.
    pub path: TreePath,
    /// The server's state of it; `None`: gone.
    pub node: Option<opship_record::node::Node>,
    /// Why it was left alone.
    pub reason: String,
}

/// How an entry reached a path, for `why`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Number of the entry that made the path's state; `None`: it was pulled.
    pub entry: Option<u64>,
    /// Does the server hold the state?
    pub synced: bool,
    /// The content's hash, of a file.
    pub hash: Option<Hash>,
}
