//! The form of a bundle file, version 1 (docs/wire-format.md, "Bundles").
//!
//! After [`MAGIC`] come sections, each with its kind (one byte) and length (four bytes, the most significant first), in the
//! order of their kinds; what a content holds follows it in pieces. The last section is the BLAKE3 of all before it.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use opship_record::entry::{Body, BodyKind, ClientId, Entry, Part, PartKind};
use opship_record::node::Node;
use opship_record::record;
use opship_record::{Hash, TreePath, effect, observation};
use std::io;

/// What a bundle starts with: the name and the version of the form.
pub(super) const MAGIC: [u8; 16] = *b"opship bundle 1\n";
/// The version of the form that this build writes and reads.
pub(super) const FORMAT: u8 = 1;
/// Most paths of a bundle's version. With their states they are held in memory.
pub(super) const MAX_PATHS: u64 = 1_000_000;
/// Most bytes of a page of states, decompressed.
pub(super) const MAX_PAGE: usize = 1 << 20;
/// Most bytes of an entry with its lists, decompressed.
pub(super) const MAX_ENTRY: usize = 64 << 20;
/// Most bytes of a piece of a compressed content.
pub(super) const MAX_PIECE: usize = 1 << 20;
/// Bytes that compressing may add to what does not compress.
const PACKING: usize = 1 << 10;

/// A path with its state in the version; `None`: the working copy that made the bundle does not know it, and neither what is
/// below it and not named.
pub(crate) type State = (TreePath, Option<Node>);

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A [`Head`]; the first section.
    Head = 1,
    /// A page of the version's states, compressed.
    States = 2,
    /// A [`BundledEntry`], compressed.
    Entry = 3,
    /// A node of a mount's tree.
    Node = 4,
    /// Hash and length of a content; its pieces follow.
    Content = 5,
    /// A piece of a compressed content.
    Piece = 6,
    /// The BLAKE3 of all before; the last section.
    End = 7,
}

impl Kind {
    /// The kind of a number.
    pub(super) fn of(number: u8) -> io::Result<Kind> {
        let all = [Kind::Head, Kind::States, Kind::Entry, Kind::Node, Kind::Content, Kind::Piece, Kind::End];
        all.into_iter().find(|kind| *kind as u8 == number).ok_or_else(|| bad("a section is of an unknown kind"))
    }

    /// Most bytes of a section.
    pub(super) fn longest(self) -> usize {
        match self {
            Kind::Head => 64 << 10,
            Kind::States => MAX_PAGE + PACKING,
            Kind::Entry => MAX_ENTRY + (MAX_ENTRY >> 7) + PACKING,
            Kind::Node | Kind::Piece => MAX_PIECE,
            Kind::Content => 40,
            Kind::End => 32,
        }
    }
}

/// What a bundle is of.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Head {
    /// [`FORMAT`].
    #[n(0)]
    pub(super) format: u8,
    /// Address of the server, as the working copy that made the bundle knows it.
    #[n(1)]
    pub server: String,
    /// The workspace's name.
    #[n(2)]
    pub workspace: String,
    /// The version; absent where the working copy stood between two.
    #[n(3)]
    pub version: Option<Claim>,
    /// The version whose contents are left out; absent: none are.
    #[n(4)]
    pub since: Option<u64>,
    /// Number of paths of the version.
    #[n(5)]
    pub paths: u64,
    /// Number of entries that had no verdict.
    #[n(6)]
    pub entries: u64,
    /// Number of contents.
    #[n(7)]
    pub contents: u64,
    /// When it was made, in milliseconds since 1970.
    #[n(8)]
    pub made: u64,
}

/// What a bundle says about its version. The server alone knows whether it is so.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Claim {
    /// The version's number.
    #[n(0)]
    pub number: u64,
    /// The first 8 bytes of its id, where the working copy knows them.
    #[n(1)]
    pub mark: Option<ByteArray<8>>,
    /// Hash of its tree, where the bundle has the states of all its paths.
    #[n(2)]
    pub root: Option<Hash>,
}

/// An entry without a verdict, with its lists.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct BundledEntry {
    /// The client.
    #[n(0)]
    pub client: ClientId,
    /// The entry's number under it.
    #[n(1)]
    pub sequence: u64,
    /// What the body is.
    #[n(2)]
    pub kind: BodyKind,
    /// The entries that it waits for.
    #[n(3)]
    pub waits: Vec<u64>,
    /// The command line, or a summary of the changes, for people.
    #[n(4)]
    pub command: String,
    /// The body.
    #[n(5)]
    pub body: ByteVec,
    /// The list of changes.
    #[n(6)]
    pub changes: ByteVec,
    /// The list of observations; absent for a value.
    #[n(7)]
    pub observations: Option<ByteVec>,
    /// The list of streams; absent for a value.
    #[n(8)]
    pub streams: Option<ByteVec>,
}

impl BundledEntry {
    /// Checks that the entry may be shipped, and that its lists are those that its body names.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.entry(Vec::new())?.encode_into(&mut bytes);
        Entry::decode_next(&mut bytes.as_slice()).map_err(bad)?;
        let changes = effect::decode_list(&self.changes).map_err(bad)?;
        let agrees = match (self.body()?, &self.observations, &self.streams) {
            (Body::Value(value), None, None) => value.is_of(&changes),
            (Body::Operation(record), Some(observations), Some(streams)) => {
                let observations = observation::decode_list(observations).map_err(bad)?;
                let streams = record::decode_streams(streams).map_err(bad)?;
                let digests = effect::digests(&changes);
                (record.before, record.content, record.metadata) == (digests.before, digests.content, digests.metadata)
                    && record.observations == observation::digest(&observations)
                    && record.streams == record::streams_digest(&streams)
            }
            _ => false,
        };
        if agrees { Ok(()) } else { Err(bad("the lists of an entry are others than its body names")) }
    }

    /// The body.
    pub(super) fn body(&self) -> io::Result<Body> {
        Body::decode(self.kind, &self.body).map_err(bad)
    }

    /// The entry as it is shipped.
    pub(super) fn entry(&self, parts: Vec<Part>) -> io::Result<Entry> {
        Ok(Entry::new(self.client, self.sequence, &self.waits, self.body()?, parts))
    }

    /// Its lists, as parts of it carry them.
    pub(super) fn lists(&self) -> Vec<(PartKind, Vec<u8>)> {
        let lists = [
            (PartKind::Changes, Some(&self.changes)),
            (PartKind::Observations, self.observations.as_ref()),
            (PartKind::Streams, self.streams.as_ref()),
        ];
        lists.into_iter().filter_map(|(kind, list)| Some((kind, list?.to_vec()))).collect()
    }

    /// The contents that it writes.
    pub(super) fn contents(&self) -> io::Result<Vec<(Hash, u64)>> {
        let changes = effect::decode_list(&self.changes).map_err(bad)?;
        Ok(changes.iter().filter_map(|change| change.after.blob()).map(|(length, hash)| (hash, length)).collect())
    }
}

/// What is wrong with a bundle.
pub(super) fn bad(detail: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail.to_string())
}
