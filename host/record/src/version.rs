//! Versions: states of a workspace's tree.

use crate::entry::ClientId;
use crate::{Error, FORMAT_VERSION, Hash, codec, tree};
use minicbor::{Decode, Encode};

const VERSION_CONTEXT: &str = "opship 1 version";

/// One state of a workspace's tree. Number 0 is the empty tree that each workspace starts with.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Version {
    /// [`FORMAT_VERSION`].
    #[n(0)]
    pub format: u8,
    /// The version's number in its workspace, without gaps.
    #[n(1)]
    pub number: u64,
    /// Hash of the root directory's node ([`crate::tree`]).
    #[n(2)]
    pub root: Hash,
    /// Id of the version before; absent for number 0 alone.
    #[n(3)]
    pub parent: Option<Hash>,
    /// The client whose entry made it; absent where no entry did, as for number 0.
    #[n(4)]
    pub author: Option<ClientId>,
    /// That entry's sequence number; absent like `author`.
    #[n(5)]
    pub sequence: Option<u64>,
    /// Id of that entry's body; absent like `author`.
    #[n(6)]
    pub entry: Option<Hash>,
    /// When it was committed, in milliseconds since 1970.
    #[n(7)]
    pub time: u64,
}

impl Version {
    /// The version's id.
    pub fn id(&self) -> Hash {
        Hash::derive(VERSION_CONTEXT, &self.encode())
    }

    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a version from outside.
    ///
    /// # Errors
    /// [`Error`] for bytes that are no canonical version of this format, or contradict themselves.
    pub fn decode(bytes: &[u8]) -> Result<Version, Error> {
        let version: Version = codec::decode(bytes, "version")?;
        if version.format != FORMAT_VERSION {
            return Err(Error::FormatVersion { found: version.format });
        }
        version.validate()?;
        Ok(version)
    }

    fn validate(&self) -> Result<(), Error> {
        let refuse = |detail| Err(Error::Inconsistent { what: "version", detail });
        if self.parent.is_some() == (self.number == 0) {
            return refuse("every version but number 0 has one before it");
        }
        let made_by = [self.author.is_some(), self.sequence.is_some(), self.entry.is_some()];
        if made_by != [true; 3] && made_by != [false; 3] {
            return refuse("author, sequence and entry come together");
        }
        if self.number == 0 && (made_by[0] || self.root != tree::empty()) {
            return refuse("version 0 is the empty tree, and no entry made it");
        }
        Ok(())
    }
}
