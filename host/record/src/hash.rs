//! BLAKE3 digests.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// A BLAKE3 digest (32 bytes). Of a blob it is the plain hash, as `b3sum` prints it; of structures it is made in
/// key-derivation mode with a context, so that a structure's bytes stored as a blob never pass for the structure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The digest of no bytes.
    pub fn of_empty() -> Hash {
        Hash::of(&[])
    }

    /// The plain digest of a blob's bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a structure's encoding under `context` (BLAKE3's derive_key mode).
    pub fn derive(context: &'static str, bytes: &[u8]) -> Hash {
        Hash(blake3::derive_key(context, bytes))
    }

    /// Wraps a digest made elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 8 bytes: enough to tell whether it is the expected one of two that came about without malice.
    pub fn mark(&self) -> [u8; 8] {
        let mut mark = [0; 8];
        mark.copy_from_slice(&self.0[..8]);
        mark
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({})", self.short())
    }
}

impl FromStr for Hash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Hash, Error> {
        let refused = || Error::HashText { text: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()) {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| refused())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refused())?;
        }
        Ok(Hash(bytes))
    }
}

impl<C> minicbor::Encode<C> for Hash {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for Hash {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = d.bytes()?;
        let bytes = bytes.try_into().map_err(|_| minicbor::decode::Error::message("a hash has 32 bytes"))?;
        Ok(Hash(bytes))
    }
}

/// An incremental [`Hash::of`] for bytes that arrive in pieces.
#[derive(Clone, Default, Debug)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// A hasher that has seen no bytes.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes added so far.
    pub fn finish(&self) -> Hash {
        Hash(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn text_form_round_trips_and_refuses_everything_else() {
        let hash = Hash::of(b"abc");
        assert_eq!(hash.to_string().parse::<Hash>().unwrap(), hash);
        for bad in ["", "00", &hash.to_string().to_uppercase(), &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<Hash>().is_err(), "{bad}");
        }
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let mut hasher = Hasher::new();
        hasher.update(b"ab");
        hasher.update(b"c");
        assert_eq!(hasher.finish(), Hash::of(b"abc"));
        assert_ne!(Hash::derive("opship test", b"abc"), Hash::of(b"abc"));
    }
}
