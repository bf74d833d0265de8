//! Records: what is needed to run an operation again and to know that it came out the same.

use crate::effect::{self, Change};
use crate::limits::{self, MAX_RECORD};
use crate::observation::{self, Observation};
use crate::plan::Plan;
use crate::{Error, Hash, codec};
use minicbor::{Decode, Encode};

const RECORD_CONTEXT: &str = "opship 1 record";
const STREAMS_CONTEXT: &str = "opship 1 streams";

/// A record. It names no version: it stands for itself, whatever else is in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Record {
    /// What to run.
    #[n(0)]
    pub plan: Plan,
    /// Exit code of each step; absent: all are 0.
    #[n(1)]
    pub exits: Option<Vec<u32>>,
    /// Digest of the observations; absent: none.
    #[n(2)]
    pub observations: Option<Hash>,
    /// Digest of the states before; absent: nothing was written.
    #[n(3)]
    pub before: Option<Hash>,
    /// Digest of content and kind after; absent: nothing was written.
    #[n(4)]
    pub content: Option<Hash>,
    /// Digest of modes and times after; absent: nothing was written.
    #[n(5)]
    pub metadata: Option<Hash>,
    /// Digest of the streams; absent: all were empty.
    #[n(6)]
    pub streams: Option<Hash>,
    /// `true`: a program of the client's own ran in the module's place. Modes and times after are its own, a replay cannot
    /// give them, and its streams went to its caller unseen. Absent: the module itself ran.
    #[n(7)]
    pub native: Option<bool>,
}

/// Length and hash of what a step wrote to its standard output and standard error.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepStreams {
    /// Length of standard output in bytes; 0 where it went to a file.
    #[n(0)]
    pub stdout_length: u64,
    /// Hash of standard output.
    #[n(1)]
    pub stdout: Hash,
    /// Length of standard error in bytes.
    #[n(2)]
    pub stderr_length: u64,
    /// Hash of standard error.
    #[n(3)]
    pub stderr: Hash,
}

impl Default for StepStreams {
    fn default() -> StepStreams {
        StepStreams { stdout_length: 0, stdout: Hash::of_empty(), stderr_length: 0, stderr: Hash::of_empty() }
    }
}

/// The full lists behind a record's digests. They stay with whoever made them until they are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    /// What the run depended on, sorted.
    pub observations: Vec<Observation>,
    /// What it did, sorted by path.
    pub changes: Vec<Change>,
    /// The streams of each step.
    pub streams: Vec<StepStreams>,
    /// The exit code of each step.
    pub exits: Vec<u32>,
}

impl Record {
    /// The record of a run of `plan` that gave `lists`.
    pub fn new(plan: Plan, lists: &Lists) -> Record {
        let changes = effect::digests(&lists.changes);
        Record {
            plan,
            exits: lists.exits.iter().any(|code| *code != 0).then(|| lists.exits.clone()),
            observations: observation::digest(&lists.observations),
            before: changes.before,
            content: changes.content,
            metadata: changes.metadata,
            streams: streams_digest(&lists.streams),
            native: None,
        }
    }

    /// Did a program of the client's own run in the module's place?
    pub fn is_native(&self) -> bool {
        self.native == Some(true)
    }

    /// Reads a record from outside.
    ///
    /// # Errors
    /// [`Error`] for a record that is too large, malformed, not canonical or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<Record, Error> {
        limits::check("record", bytes.len(), MAX_RECORD)?;
        let record: Record = codec::decode(bytes, "record")?;
        record.validate()?;
        Ok(record)
    }

    /// Checks what the encoding alone cannot.
    ///
    /// # Errors
    /// [`Error`] names the field.
    pub fn validate(&self) -> Result<(), Error> {
        self.plan.validate()?;
        if let Some(exits) = &self.exits
            && (exits.len() != self.plan.steps.len() || exits.iter().all(|code| *code == 0))
        {
            return Err(Error::Inconsistent {
                what: "record",
                detail: "each step has one exit code, absent if all are 0",
            });
        }
        let written = [self.before, self.content, self.metadata];
        if written.iter().any(Option::is_some) && written.iter().any(Option::is_none) {
            return Err(Error::Inconsistent { what: "record", detail: "the digests of changes come together" });
        }
        if self.native == Some(false) || self.is_native() && self.streams.is_some() {
            let detail = "a native record says so by `true` and has no streams, any other leaves the field out";
            return Err(Error::Inconsistent { what: "record", detail });
        }
        Ok(())
    }

    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// The record's id.
    pub fn id(&self) -> Hash {
        id_of(&self.encode())
    }
}

/// The id of a record or value from its canonical bytes.
pub(crate) fn id_of(bytes: &[u8]) -> Hash {
    Hash::derive(RECORD_CONTEXT, bytes)
}

/// The canonical bytes of the streams of all steps, as a part carries them.
pub fn encode_streams(streams: &[StepStreams]) -> Vec<u8> {
    codec::encode(&streams)
}

/// Reads the streams of all steps from outside.
///
/// # Errors
/// [`Error`] for more than [`limits::MAX_STEPS`], or bytes that are malformed or not canonical.
pub fn decode_streams(bytes: &[u8]) -> Result<Vec<StepStreams>, Error> {
    let streams: Vec<StepStreams> = codec::decode(bytes, "list of streams")?;
    limits::check("number of steps", streams.len(), limits::MAX_STEPS)?;
    Ok(streams)
}

/// Digest of the streams of all steps, `None` if all are empty.
pub fn streams_digest(streams: &[StepStreams]) -> Option<Hash> {
    let empty = streams.iter().all(|s| *s == StepStreams::default());
    (!empty).then(|| Hash::derive(STREAMS_CONTEXT, &encode_streams(streams)))
}
