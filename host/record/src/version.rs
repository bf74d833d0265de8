//! Versions: states of a workspace's tree.

use crate::entry::ClientId;
use crate::{Error, FORMAT_VERSION, Hash, codec};
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
    /// Id of the version before; absent for number 0.
    #[n(3)]
    pub parent: Option<Hash>,
    /// The client whose entry made it; absent for number 0.
    #[n(4)]
    pub author: Option<ClientId>,
    /// That entry's sequence number; absent for number 0.
    #[n(5)]
    pub sequence: Option<u64>,
    /// Id of that entry's body; absent for number 0.
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
    /// [`Error`] for bytes that are no canonical version of this format.
    pub fn decode(bytes: &[u8]) -> Result<Version, Error> {
        let version: Version = codec::decode(bytes, "version")?;
        if version.format != FORMAT_VERSION {
            return Err(Error::FormatVersion { found: version.format });
        }
        Ok(version)
    }
}
