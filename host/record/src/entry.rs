//! Entries as they travel: envelope, body, parts.

use crate::answer::Reason;
use crate::effect::Change;
use crate::limits::{self, MAX_ENVELOPE, MAX_INLINE_PART, MAX_PARTS, MAX_RECORD, MAX_WAITS};
use crate::record::{Record, id_of};
use crate::{Error, FORMAT_VERSION, Hash, codec, effect};
use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use std::fmt;

/// The identity of one working copy. It is made at random when a working copy is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct ClientId(ByteArray<16>);

impl ClientId {
    /// Wraps random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> ClientId {
        ClientId(bytes.into())
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({self})")
    }
}

/// What precedes each entry in a request. (client, sequence) is the idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Envelope {
    /// [`FORMAT_VERSION`].
    #[n(0)]
    pub format: u8,
    /// The client.
    #[n(1)]
    pub client: ClientId,
    /// The entry's number, gapless from 1.
    #[n(2)]
    pub sequence: u64,
    /// What follows.
    #[n(3)]
    pub kind: BodyKind,
    /// Id of what follows ([`Body::id`]).
    #[n(4)]
    pub body: Hash,
    /// Earlier entries of the client that must have ended first, ascending; absent: none.
    #[n(5)]
    pub waits: Option<Vec<u64>>,
    /// The first 8 bytes of the id of the version that the client believes to be the head: a hint.
    #[n(6)]
    pub head: Option<ByteArray<8>>,
    /// How many parts follow the body; absent: none.
    #[n(7)]
    pub parts: Option<u16>,
}

/// Which kind of body follows an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum BodyKind {
    /// A [`Record`].
    #[n(0)]
    Operation,
    /// A [`Value`].
    #[n(1)]
    Value,
}

/// Files changed by other means than an operation. The list of changes travels as a part.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Value {
    /// [`FORMAT_VERSION`].
    #[n(0)]
    pub format: u8,
    /// [`effect::list_digest`] of the changes.
    #[n(1)]
    pub changes: Hash,
    /// How many changes.
    #[n(2)]
    pub count: u32,
    /// Sum of the lengths of the files written, in bytes (2^64 - 1 where it would be more).
    #[n(3)]
    pub bytes: u64,
    /// Why the results of an operation travel and not the operation; absent: there was none.
    #[n(4)]
    pub reason: Option<Reason>,
}

impl Value {
    /// The value entry of a sorted list of changes that no operation made.
    pub fn new(changes: &[Change]) -> Value {
        let lengths = changes.iter().filter_map(|c| c.after.blob()).map(|(length, _)| length);
        let bytes = lengths.fold(0, u64::saturating_add);
        let count = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        Value { format: FORMAT_VERSION, changes: effect::list_digest(changes), count, bytes, reason: None }
    }

    /// Is this the list that the value was made of?
    pub fn is_of(&self, changes: &[Change]) -> bool {
        *self == Value { reason: self.reason, ..Value::new(changes) }
    }
}

/// An entry's body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly every body is an operation, and few are held at a time")]
pub enum Body {
    /// An operation, with its record.
    Operation(Record),
    /// A value.
    Value(Value),
}

impl Body {
    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Body::Operation(record) => record.encode(),
            Body::Value(value) => codec::encode(value),
        }
    }

    /// The id: of a record, the record id.
    pub fn id(&self) -> Hash {
        id_of(&self.encode())
    }

    /// The kind.
    pub fn kind(&self) -> BodyKind {
        match self {
            Body::Operation(_) => BodyKind::Operation,
            Body::Value(_) => BodyKind::Value,
        }
    }

    /// Reads a body from outside.
    ///
    /// # Errors
    /// [`Error`] as for [`Record::decode`].
    pub fn decode(kind: BodyKind, bytes: &[u8]) -> Result<Body, Error> {
        match kind {
            BodyKind::Operation => Record::decode(bytes).map(Body::Operation),
            BodyKind::Value => {
                limits::check("value", bytes.len(), MAX_RECORD)?;
                let value: Value = codec::decode(bytes, "value")?;
                if value.format != FORMAT_VERSION {
                    return Err(Error::FormatVersion { found: value.format });
                }
                if value.reason == Some(Reason::NoOperation) {
                    let detail = "a field with its default value must be left out";
                    return Err(Error::Inconsistent { what: "value", detail });
                }
                Ok(Body::Value(value))
            }
        }
    }
}

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum PartKind {
    /// A blob: a file's content, a module, standard input, a tree node of a mount.
    #[n(0)]
    Blob,
    /// The list of observations ([`crate::observation::encode_list`]).
    #[n(1)]
    Observations,
    /// The list of changes ([`effect::encode_list`]).
    #[n(2)]
    Changes,
    /// The streams' lengths and hashes ([`crate::record::encode_streams`]).
    #[n(3)]
    Streams,
    /// What must be added to the replayed contents to get the recorded ones.
    #[n(4)]
    Residual,
}

/// A part of an entry. Bytes over [`MAX_INLINE_PART`] are uploaded as a blob first and named by hash alone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Part {
    /// What the bytes are.
    #[n(0)]
    pub kind: PartKind,
    /// [`Hash::of`] the bytes.
    #[n(1)]
    pub hash: Hash,
    /// The bytes; `None`: they were uploaded under `hash`.
    #[n(2)]
    pub bytes: Option<ByteVec>,
}

impl Part {
    /// A part that travels inside the request.
    pub fn inline(kind: PartKind, bytes: Vec<u8>) -> Part {
        Part { kind, hash: Hash::of(&bytes), bytes: Some(bytes.into()) }
    }
}

/// An entry with what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The envelope.
    pub envelope: Envelope,
    /// The body.
    pub body: Body,
    /// The parts.
    pub parts: Vec<Part>,
}

impl Entry {
    /// An entry with its envelope filled in.
    pub fn new(client: ClientId, sequence: u64, waits: &[u64], body: Body, parts: Vec<Part>) -> Entry {
        let envelope = Envelope {
            format: FORMAT_VERSION,
            client,
            sequence,
            kind: body.kind(),
            body: body.id(),
            waits: (!waits.is_empty()).then(|| waits.to_vec()),
            head: None,
            // Too many parts stay too many, and are refused, rather than pass for none.
            parts: Some(u16::try_from(parts.len()).unwrap_or(u16::MAX)).filter(|n| *n > 0),
        };
        Entry { envelope, body, parts }
    }

    /// Appends the entry to a request's body (a CBOR sequence: envelope, body, parts).
    pub fn encode_into(&self, request: &mut Vec<u8>) {
        request.extend(codec::encode(&self.envelope));
        request.extend(self.body.encode());
        self.parts.iter().for_each(|part| request.extend(codec::encode(part)));
    }

    /// Reads the next entry of a request's body and moves `bytes` behind it.
    ///
    /// # Errors
    /// [`Error`]: the request is refused from here on; entries read before stand.
    pub fn decode_next(bytes: &mut &[u8]) -> Result<Entry, Error> {
        let envelope: Envelope = codec::decode_next(bytes, "envelope", MAX_ENVELOPE)?;
        envelope.validate()?;
        let length = codec::item_length(bytes)?
            .ok_or(Error::Malformed { what: "entry", detail: "the request ends before the body".to_owned() })?;
        let (body_bytes, rest) = bytes.split_at(length);
        let body = Body::decode(envelope.kind, body_bytes)?;
        if id_of(body_bytes) != envelope.body {
            return Err(Error::Inconsistent { what: "envelope", detail: "the body is another than the one it names" });
        }
        *bytes = rest;
        let count = usize::from(envelope.parts.unwrap_or(0));
        let parts = (0..count).map(|_| decode_part(bytes)).collect::<Result<_, _>>()?;
        Ok(Entry { envelope, body, parts })
    }
}

fn decode_part(bytes: &mut &[u8]) -> Result<Part, Error> {
    let part: Part = codec::decode_next(bytes, "part", MAX_INLINE_PART + 64)?;
    if let Some(inline) = &part.bytes {
        limits::check("part", inline.len(), MAX_INLINE_PART)?;
        if Hash::of(inline) != part.hash {
            return Err(Error::Inconsistent { what: "part", detail: "its bytes have another hash" });
        }
    }
    Ok(part)
}

impl Envelope {
    fn validate(&self) -> Result<(), Error> {
        let refuse = |detail| Err(Error::Inconsistent { what: "envelope", detail });
        if self.format != FORMAT_VERSION {
            return Err(Error::FormatVersion { found: self.format });
        }
        if self.sequence == 0 || self.sequence > i64::MAX as u64 {
            return refuse("sequence numbers start at 1 and end at 2^63 - 1");
        }
        let waits = self.waits();
        limits::check("number of entries waited for", waits.len(), MAX_WAITS)?;
        if self.waits.as_ref().is_some_and(Vec::is_empty) || self.parts == Some(0) {
            return refuse("a field with its default value must be left out");
        }
        if !waits.is_sorted_by(|a, b| a < b) || waits.iter().any(|w| *w == 0 || *w >= self.sequence) {
            return refuse("an entry waits for earlier ones, in ascending order");
        }
        limits::check("number of parts", usize::from(self.parts.unwrap_or(0)), MAX_PARTS)
    }

    /// The entries that this one waits for.
    pub fn waits(&self) -> &[u64] {
        self.waits.as_deref().unwrap_or_default()
    }
}
