//! Strict reading of canonical CBOR (RFC 8949 §4.2.1) and of CBOR sequences (RFC 8742).
//!
//! One rule gives all of strictness: a value is accepted only if encoding it again gives the same bytes. That refuses
//! longer integers, indefinite lengths, unsorted or repeated keys and unknown keys, for every type at once.

use crate::Error;
use minicbor::{Decode, Encode};

/// The canonical bytes of a value.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and no type here refuses to be encoded.
    let _ = minicbor::encode(value, &mut bytes);
    bytes
}

/// Reads exactly one value, in canonical form and with known keys only.
///
/// # Errors
/// [`Error::Malformed`], [`Error::NotCanonical`] for other encodings and for bytes after the value.
pub fn decode<'b, T: Decode<'b, ()> + Encode<()>>(bytes: &'b [u8], what: &'static str) -> Result<T, Error> {
    let mut rest = bytes;
    let value = decode_next(&mut rest, what, usize::MAX)?;
    if !rest.is_empty() {
        return Err(Error::NotCanonical { what });
    }
    Ok(value)
}

/// Reads the next value of a sequence and moves `bytes` behind it. At most `limit` bytes belong to it.
///
/// # Errors
/// As [`decode`], and [`Error::TooLarge`].
pub fn decode_next<'b, T: Decode<'b, ()> + Encode<()>>(
    bytes: &mut &'b [u8],
    what: &'static str,
    limit: usize,
) -> Result<T, Error> {
    let (value, used) = decode_some(bytes, what)?;
    if used > limit {
        return Err(Error::TooLarge { what, actual: used as u64, limit: limit as u64 });
    }
    let (own, rest) = bytes.split_at(used);
    if encode::<T>(&value) != own {
        return Err(Error::NotCanonical { what });
    }
    *bytes = rest;
    Ok(value)
}

/// Reads the next value of an answer, where unknown keys are ignored (a newer server may say more).
///
/// # Errors
/// [`Error::Malformed`].
pub fn decode_lenient<'b, T: Decode<'b, ()>>(bytes: &mut &'b [u8], what: &'static str) -> Result<T, Error> {
    let (value, used) = decode_some(bytes, what)?;
    *bytes = &bytes[used..];
    Ok(value)
}

/// The length of the first complete CBOR item in `bytes`, `None` while it is not complete.
///
/// # Errors
/// [`Error::Malformed`] if no bytes that may follow make it an item.
pub fn item_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let mut decoder = minicbor::Decoder::new(bytes);
    match decoder.skip() {
        Ok(()) => Ok(Some(decoder.position())),
        Err(error) if error.is_end_of_input() => Ok(None),
        Err(error) => Err(Error::Malformed { what: "sequence", detail: error.to_string() }),
    }
}

fn decode_some<'b, T: Decode<'b, ()>>(bytes: &'b [u8], what: &'static str) -> Result<(T, usize), Error> {
    let mut decoder = minicbor::Decoder::new(bytes);
    match decoder.decode::<T>() {
        Ok(value) => Ok((value, decoder.position())),
        Err(error) => Err(Error::Malformed { what, detail: error.to_string() }),
    }
}
