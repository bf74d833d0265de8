//! A content comes out of its document as it went in, whatever was edited, and the document is small where little was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/bytes.rs"]
mod bytes;

use bytes::noise;
use opship_record::Hash;
use opship_residual::apply::OneBase;
use opship_residual::{BLOCK, ResidualError, Signature, Signer, apply, chunks, delta, exact, packed};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

fn document(old: &[u8], new: &[u8]) -> Vec<u8> {
    let (hash, signature) = (Hash::of(old), Signature::of(old));
    delta::make(new, new.len() as u64, Some((&hash, &signature)), Vec::new()).unwrap()
}

fn applied(document: &[u8], old: &[u8], limit: u64) -> Result<Vec<u8>, ResidualError> {
    let mut made = Vec::new();
    apply::apply(document, limit, &OneBase(Hash::of(old), old), &mut made)?;
    Ok(made)
}

/// What an editor does to a file.
#[derive(Debug, Clone)]
enum Edit {
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Overwrite(usize, Vec<u8>),
    Move(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0usize..20_000;
    let bytes = prop::collection::vec(any::<u8>(), 0..3000);
    prop_oneof![
        (at.clone(), bytes.clone()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (at.clone(), 0usize..6000).prop_map(|(at, count)| Edit::Remove(at, count)),
        (at.clone(), bytes).prop_map(|(at, bytes)| Edit::Overwrite(at, bytes)),
        (at.clone(), 0usize..6000, at).prop_map(|(from, count, to)| Edit::Move(from, count, to)),
    ]
}

fn edited(mut content: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        let end = content.len();
        match edit {
            Edit::Insert(at, bytes) => drop(content.splice((*at).min(end)..(*at).min(end), bytes.iter().copied())),
            Edit::Remove(at, count) => drop(content.drain((*at).min(end)..(at + count).min(end))),
            Edit::Overwrite(at, bytes) => {
                let range = (*at).min(end)..(at + bytes.len()).min(end);
                content.splice(range, bytes.iter().copied());
            }
            Edit::Move(from, count, to) => {
                let part: Vec<u8> = content.drain((*from).min(end)..(from + count).min(end)).collect();
                let to = (*to).min(content.len());
                content.splice(to..to, part);
            }
        }
    }
    content
}

proptest! {
    #[test]
    fn every_edit_comes_out_as_it_went_in(
        seed in any::<u64>(), length in 0usize..16_000, repeats in any::<bool>(), edits in prop::collection::vec(edit(), 0..6),
    ) {
        let mut old = noise(seed, length);
        if repeats {
            old.iter_mut().for_each(|byte| *byte &= 1);
            old.extend_from_within(..);
        }
        let new = edited(old.clone(), &edits);
        let document = document(&old, &new);
        prop_assert!(applied(&document, &old, new.len() as u64).unwrap() == new);
        let document = exact::make(&new, (&Hash::of(&old), &old), Vec::new()).unwrap();
        prop_assert!(applied(&document, &old, new.len() as u64).unwrap() == new);
    }

    #[test]
    fn a_signature_is_the_same_in_any_pieces_and_comes_back(content in prop::collection::vec(any::<u8>(), 0..5000), piece in 1usize..3000) {
        let mut signer = Signer::default();
        content.chunks(piece).for_each(|piece| signer.update(piece));
        let signature = signer.finish();
        prop_assert_eq!(&signature, &Signature::of(&content));
        prop_assert_eq!(Signature::decode(&signature.encode()).unwrap(), signature);
    }
}

#[test]
fn a_small_edit_of_a_large_content_takes_about_two_blocks() {
    let old = noise(1, 3_000_000);
    let most = 3 * BLOCK;
    for at in [0, 1_500_000, 2_999_999] {
        let mut overwritten = old.clone();
        overwritten[at] ^= 1;
        let mut inserted = old.clone();
        inserted.splice(at..at, *b"seven bytes more");
        let mut removed = old.clone();
        removed.drain(at..(at + 100).min(old.len()));
        for (what, new) in [("overwritten", overwritten), ("inserted", inserted), ("removed", removed)] {
            let document = document(&old, &new);
            assert!(document.len() < most, "{what} at {at}: {} bytes", document.len());
            assert!(applied(&document, &old, 1 << 30).unwrap() == new, "{what} at {at}");
        }
    }
    let appended = [old.as_slice(), b"a line more"].concat();
    assert!(document(&old, &appended).len() < 100, "{}", document(&old, &appended).len());
}

#[test]
fn a_signature_takes_less_than_one_percent() {
    for length in [16 << 10, 1_000_003, 5 << 20] {
        let bytes = Signature::of(&noise(3, length)).encode().len();
        assert!(bytes * 100 < length, "{bytes} bytes for {length}");
    }
}

#[test]
fn what_a_document_may_not_do_is_refused() {
    let old = noise(1, 4096);
    let new = [b"new".as_slice(), &old].concat();
    let document = document(&old, &new);
    assert!(matches!(applied(&document, &old, 4098), Err(ResidualError::TooLong { length: 4099, limit: 4098 })));
    assert!(matches!(applied(&document, b"another", 1 << 20), Err(ResidualError::BaseMissing(_))));
    for cut in 0..document.len() {
        assert!(applied(&document[..cut], &old, 1 << 20).is_err(), "cut at {cut}");
    }
    let more = [document.as_slice(), &[0]].concat();
    assert!(applied(&more, &old, 1 << 20).is_err());
    // A base that is shorter than the one that the copies are of.
    let mut made = Vec::new();
    let shorter = OneBase(Hash::of(&old), &old[..4000]);
    assert!(apply::apply(document.as_slice(), 1 << 20, &shorter, &mut made).is_err());
    let growing = delta::make(new.as_slice(), 10, None, Vec::new());
    assert_eq!(growing.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

/// Chunks by their hashes, and no contents.
struct Chunks(BTreeMap<Hash, Vec<u8>>);

impl apply::Sources for Chunks {
    type Base = &'static [u8];

    fn base(&self, _: &Hash) -> io::Result<Option<&'static [u8]>> {
        Ok(None)
    }

    fn chunk(&self, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(hash).cloned())
    }
}

#[test]
fn chunks_that_the_receiver_has_are_named_and_not_sent() {
    let old = noise(1, 2_000_000);
    let mut there = BTreeMap::new();
    let keep = |chunk: &[u8]| {
        there.insert(Hash::of(chunk), chunk.to_vec());
        Ok(())
    };
    chunks::cut(old.as_slice(), keep).unwrap();
    let mut new = old.clone();
    new.splice(900_000..900_000, *b"what is inserted");
    let known = there.keys().copied().collect();
    let document = delta::make_of_chunks(new.as_slice(), new.len() as u64, &known, Vec::new()).unwrap();
    assert!(document.len() < 3 * chunks::MOST, "{} bytes", document.len());
    let mut made = Vec::new();
    let mut chunks = Chunks(there);
    apply::apply(document.as_slice(), 1 << 30, &chunks, &mut made).unwrap();
    assert!(made == new);
    let some = *chunks.0.keys().next().unwrap();
    chunks.0.insert(some, b"another length".to_vec());
    assert!(matches!(apply::apply(document.as_slice(), 1 << 30, &chunks, &mut made), Err(ResidualError::Malformed(_))));
    chunks.0.remove(&some);
    assert!(matches!(
        apply::apply(document.as_slice(), 1 << 30, &chunks, &mut made),
        Err(ResidualError::BaseMissing(_))
    ));
}

fn pack(document: &[u8], length: u64, piece: usize) -> Vec<u8> {
    let mut encoder = packed::Encoder::new(Vec::new(), length).unwrap();
    document.chunks(piece).for_each(|piece| encoder.write_all(piece).unwrap());
    encoder.finish().unwrap()
}

#[test]
fn packing_gives_the_same_bytes_whatever_pieces_it_gets() {
    let text: Vec<u8> = (0..200_000u32).flat_map(|n| format!("{} ", n.wrapping_mul(n) % 977).into_bytes()).collect();
    let whole = pack(&text, text.len() as u64, text.len());
    for piece in [1 << 10, 100_000, 131_072] {
        assert!(pack(&text, text.len() as u64, piece) == whole, "in pieces of {piece}");
    }
    let mut unpacked = Vec::new();
    packed::decoder(whole.as_slice()).unwrap().read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == text && whole.len() < text.len() / 3);
    let cut = packed::decoder(&whole[..whole.len() - 1]).unwrap().read_to_end(&mut Vec::new());
    assert!(cut.is_err());
}

#[test]
fn a_window_over_the_bound_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(packed::MAX_WINDOW_LOG + 1).unwrap();
    encoder.write_all(&[7; 1 << 20]).unwrap();
    let bytes = encoder.finish().unwrap();
    assert!(packed::decoder(bytes.as_slice()).unwrap().read_to_end(&mut Vec::new()).is_err());
}
