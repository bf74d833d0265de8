//! What a server answers to an entry.

use crate::record::Record;
use crate::{Error, Hash, TreePath, codec};
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Decoder, Encode};
use std::fmt;

/// How an entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Verdict {
    /// The replay gave the recorded digests.
    #[n(0)]
    Matched,
    /// Committed by value.
    #[n(1)]
    Shipped,
    /// Replayed on other inputs; the head holds that result.
    #[n(2)]
    Rebased,
    /// Another's change stands; the author keeps his beside it.
    #[n(3)]
    Conflicted,
    /// Refused.
    #[n(4)]
    Rejected,
    /// The replay and a residual gave the recorded digests.
    #[n(5)]
    Repaired,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Verdict; 6] = [
        Verdict::Matched,
        Verdict::Shipped,
        Verdict::Rebased,
        Verdict::Conflicted,
        Verdict::Rejected,
        Verdict::Repaired,
    ];

    /// The word used in CLI, JSON, API, metrics and console.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Matched => "matched",
            Verdict::Shipped => "shipped",
            Verdict::Rebased => "rebased",
            Verdict::Conflicted => "conflicted",
            Verdict::Rejected => "rejected",
            Verdict::Repaired => "repaired",
        }
    }

    /// Does the head hold the recorded outputs, so that the client may drop what it kept?
    pub fn is_final_for_client(self) -> bool {
        matches!(self, Verdict::Matched | Verdict::Shipped | Verdict::Repaired)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an entry is not `matched`: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Reason {
    /// The files were changed by other means than a recorded operation.
    #[n(0)]
    NoOperation,
    /// The value was predicted to be cheaper.
    #[n(1)]
    CheaperByValue,
    /// The server does not have the module and did not get it.
    #[n(2)]
    ModuleUnknown,
    /// The server does not accept or cannot compile the module.
    #[n(3)]
    ModuleRefused,
    /// The module imports what the world does not have.
    #[n(4)]
    Imports,
    /// The replay gave other bytes.
    #[n(5)]
    Diverged,
    /// What the run depended on was changed by another.
    #[n(6)]
    InputsChanged,
    /// Another's change would be overwritten.
    #[n(7)]
    OutputsChanged,
    /// The replay exits otherwise or traps.
    #[n(8)]
    OutcomeChanged,
    /// The replay met a limit of the server's operator.
    #[n(9)]
    Limit,
    /// The workspace's quota is used up.
    #[n(10)]
    Quota,
    /// The server does not know the record's engine profile.
    #[n(11)]
    EngineDiffers,
    /// The replay took too long.
    #[n(12)]
    ReplaySlow,
    /// The record would hold a secret.
    #[n(13)]
    Secret,
    /// A policy of the server or workspace forbids it.
    #[n(14)]
    Policy,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 15] = [
        Reason::NoOperation,
        Reason::CheaperByValue,
        Reason::ModuleUnknown,
        Reason::ModuleRefused,
        Reason::Imports,
        Reason::Diverged,
        Reason::InputsChanged,
        Reason::OutputsChanged,
        Reason::OutcomeChanged,
        Reason::Limit,
        Reason::Quota,
        Reason::EngineDiffers,
        Reason::ReplaySlow,
        Reason::Secret,
        Reason::Policy,
    ];

    /// The word used in CLI, JSON, API, metrics and console.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoOperation => "no-operation",
            Reason::CheaperByValue => "cheaper-by-value",
            Reason::ModuleUnknown => "module-unknown",
            Reason::ModuleRefused => "module-refused",
            Reason::Imports => "imports",
            Reason::Diverged => "diverged",
            Reason::InputsChanged => "inputs-changed",
            Reason::OutputsChanged => "outputs-changed",
            Reason::OutcomeChanged => "outcome-changed",
            Reason::Limit => "limit",
            Reason::Quota => "quota",
            Reason::EngineDiffers => "engine-differs",
            Reason::ReplaySlow => "replay-slow",
            Reason::Secret => "secret",
            Reason::Policy => "policy",
        }
    }

    /// What a person can do next.
    pub fn next_step(self) -> &'static str {
        match self {
            Reason::NoOperation => "run commands through 'opship run' to ship them as operations",
            Reason::CheaperByValue => {
                "nothing to do: the results were predicted to arrive sooner than a replay would end"
            }
            Reason::ModuleUnknown => "run 'opship module add' so that the module is registered",
            Reason::ModuleRefused => "see the detail; ask the server's operator to raise the module limits",
            Reason::Imports => "rebuild the module for WASI preview 1 (wasm32-wasip1)",
            Reason::Diverged => "see the differences with 'opship show'; the module is not deterministic in this world",
            Reason::InputsChanged => {
                "look at the result on the new inputs; where there is none, run the operation again"
            }
            Reason::OutputsChanged => "compare with the conflict copy beside the file, then keep one",
            Reason::OutcomeChanged => "run the operation again and look at its exit code",
            Reason::Limit => "ask the server's operator to raise the limit that the detail names",
            Reason::Quota => "free space in the workspace or ask its administrator for more",
            Reason::EngineDiffers => "update the older one of client and server",
            Reason::ReplaySlow => "nothing to do: the result was shipped instead",
            Reason::Secret => "keep secrets out of arguments and variables",
            Reason::Policy => "ask whoever runs the server",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Status {
    /// It ended: `verdict` is there.
    #[n(0)]
    Ended,
    /// It takes long: ask again (the same key and body), or at `location`.
    #[n(1)]
    Accepted,
    /// It waits for entries that ended `rejected` or `conflicted`: `waits` names them.
    #[n(2)]
    Parked,
    /// The server needs more: `needs` says what; send the same key and body again with it.
    #[n(3)]
    Needs,
    /// The server holds another body under this key: the working copy is a copy of another (`client-forked`).
    #[n(4)]
    Forked,
    /// An error that says nothing of the entry itself; `detail` says what, and it may be sent again.
    #[n(5)]
    Failed,
}

/// Something that the server needs before it can go on with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Need {
    /// The lists of observations, changes and streams.
    #[n(0)]
    Lists,
    /// A blob.
    #[n(1)]
    Blob {
        /// Its hash.
        #[n(0)]
        hash: Hash,
    },
    /// A module.
    #[n(2)]
    Module {
        /// Its hash.
        #[n(0)]
        hash: Hash,
    },
    /// The tree of a mount, with all that it holds.
    #[n(3)]
    Tree {
        /// Its hash.
        #[n(0)]
        hash: Hash,
    },
    /// The results themselves: the lists, and every blob that they name and the server lacks.
    #[n(4)]
    Values,
}

/// What differs between a record and its replay.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Difference {
    /// What is compared.
    #[n(0)]
    pub aspect: Aspect,
    /// The path, for paths.
    #[n(1)]
    pub path: Option<TreePath>,
    /// The step, for streams and exit codes.
    #[n(2)]
    pub step: Option<u8>,
    /// Hash of the recorded content; absent: not there.
    #[n(3)]
    pub recorded: Option<Hash>,
    /// Hash of the replayed content; absent: not there.
    #[n(4)]
    pub replayed: Option<Hash>,
    /// Recorded length in bytes, or exit code.
    #[n(5)]
    pub recorded_length: Option<u64>,
    /// Replayed length in bytes, or exit code.
    #[n(6)]
    pub replayed_length: Option<u64>,
    /// First differing offset in bytes, where both contents are at hand.
    #[n(7)]
    pub offset: Option<u64>,
}

/// What a [`Difference`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Aspect {
    /// Something that the run depended on.
    #[n(0)]
    Observation,
    /// The state before of a written path.
    #[n(1)]
    Before,
    /// Content or kind after.
    #[n(2)]
    Content,
    /// Mode or mtime after.
    #[n(3)]
    Metadata,
    /// Standard output.
    #[n(4)]
    Stdout,
    /// Standard error.
    #[n(5)]
    Stderr,
    /// Exit code.
    #[n(6)]
    Exit,
    /// The replay did not finish: it trapped or met a limit.
    #[n(7)]
    Finish,
}

impl Aspect {
    /// The word for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Observation => "observation",
            Aspect::Before => "state before",
            Aspect::Content => "content",
            Aspect::Metadata => "metadata",
            Aspect::Stdout => "stdout",
            Aspect::Stderr => "stderr",
            Aspect::Exit => "exit code",
            Aspect::Finish => "finish",
        }
    }
}

/// One answer. Answers to a request's entries come as a CBOR sequence, in the order in which the entries end.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Answer {
    /// The entry's sequence number.
    #[n(0)]
    pub sequence: u64,
    /// Where it stands.
    #[n(1)]
    pub status: Status,
    /// How it ended; absent also if this build does not know the verdict.
    #[cbor(n(2), decode_with = "known", default)]
    pub verdict: Option<Verdict>,
    /// Why it is not `matched`; absent also if this build does not know the reason.
    #[cbor(n(3), decode_with = "known", default)]
    pub reason: Option<Reason>,
    /// Number of the version that it made, or of the head where it made none.
    #[n(4)]
    pub version: Option<u64>,
    /// What the server needs.
    #[n(5)]
    pub needs: Option<Vec<Need>>,
    /// How record and replay differ.
    #[n(6)]
    pub report: Option<Vec<Difference>>,
    /// The entries that it waits for.
    #[n(7)]
    pub waits: Option<Vec<u64>>,
    /// Text for people: what happened and what to do next.
    #[n(8)]
    pub detail: Option<String>,
    /// Address to ask at, relative to the server.
    #[n(9)]
    pub location: Option<String>,
    /// Time of the replay in microseconds.
    #[n(10)]
    pub replay_micros: Option<u64>,
    /// After `rebased`: the record of the run on the other inputs.
    #[n(11)]
    pub record: Option<Box<Record>>,
    /// The first 8 bytes of the id of version `version`: numbers alone do not tell one history from another.
    #[n(12)]
    pub version_mark: Option<ByteArray<8>>,
}

/// Reads a number of a closed list, `None` for one that a newer server has added. (Left to itself minicbor also skips the
/// item behind an unknown one, and takes values for keys from there on.)
fn known<'b, C, T: Decode<'b, C>>(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Option<T>, minicbor::decode::Error> {
    let start = d.position();
    match T::decode(d, ctx) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_unknown_variant() => {
            d.set_position(start);
            d.skip()?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Answer {
    /// An answer with nothing but a status.
    pub fn new(sequence: u64, status: Status) -> Answer {
        Answer {
            sequence,
            status,
            verdict: None,
            reason: None,
            version: None,
            needs: None,
            report: None,
            waits: None,
            detail: None,
            location: None,
            replay_micros: None,
            record: None,
            version_mark: None,
        }
    }

    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads the next answer of a response and moves `bytes` behind it; keys that this build does not know are ignored.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn decode_next(bytes: &mut &[u8]) -> Result<Answer, Error> {
        codec::decode_lenient(bytes, "answer")
    }
}
