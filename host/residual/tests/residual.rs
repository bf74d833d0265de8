//! Residuals repair what they were made for, are read in one form only, and are what docs/wire-format.md shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/bytes.rs"]
mod bytes;

use bytes::noise;
use opship_record::{Error, Hash};
use opship_residual::parity::{Code, Parity};
use opship_residual::residual::{Delta, Item, MAX_RESIDUAL, Repair, Residual};
use opship_residual::{ResidualError, exact};
use proptest::prelude::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-format.md");

/// Content of the examples in the document.
fn example(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * at % 251) as u8).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hexadecimal digits of the example of this name.
fn shown(name: &str) -> String {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let block = text.split("```residual\n").find_map(|block| block.strip_prefix(&format!("name: {name}\nhex: ")));
    let block = block.unwrap_or_else(|| panic!("docs/wire-format.md has no {name}"));
    block.split("```").next().unwrap().split_whitespace().collect()
}

fn parity(content: &[u8], symbols: u16) -> Repair {
    Repair::parity(content, Code::new(symbols, content.len() as u64).unwrap()).unwrap()
}

fn one(repair: Repair) -> Residual {
    Residual::new(vec![Item { index: 0, repair }]).unwrap()
}

fn applied(repair: &Repair, replayed: &[u8], limit: u64) -> Result<Vec<u8>, ResidualError> {
    let mut made = Vec::new();
    repair.apply((&Hash::of(replayed), &replayed), limit, &mut made)?;
    Ok(made)
}

#[test]
fn the_document_shows_a_parity_and_a_residual_to_the_byte() {
    let code = Code::new(4, 256).unwrap();
    assert_eq!(shown("parity"), hex(Parity::of(example(256).as_slice(), code).unwrap().as_bytes()));
    let (replayed, recorded) = (example(300), [&example(100), &b"x"[..], &example(300)[100..]].concat());
    // Stored as it is, so that the example does not depend on how an encoder compresses.
    let document = exact::make(&recorded, (&Hash::of(&replayed), &replayed), Vec::new()).unwrap();
    let mut stored = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, document.len() as u8];
    stored.extend([(document.len() << 3 | 1) as u8, (document.len() >> 5) as u8, 0]);
    stored.extend(&document);
    let delta = Repair::Delta(Delta::from_bytes(stored));
    assert!(applied(&delta, &replayed, 1000).unwrap() == recorded);
    let items = vec![Item { index: 0, repair: delta }, Item { index: 2, repair: parity(b"abc", 2) }];
    let residual = Residual::new(items).unwrap();
    assert_eq!(shown("residual"), hex(&residual.encode()));
    assert_eq!(Residual::decode(&residual.encode()).unwrap(), residual);
}

#[test]
fn sixteen_differences_in_a_megabyte_take_under_400_bytes_as_a_delta() {
    let recorded = noise(1, 1 << 20);
    let mut replayed = recorded.clone();
    (0..16).for_each(|number| {
        let at = noise(number, 3).iter().fold(0, |at, byte| at << 8 | usize::from(*byte)) % (recorded.len() - 8);
        replayed[at..at + 8].copy_from_slice(&noise(number + 100, 8));
    });
    let mut longer = replayed.clone();
    longer.splice(500_000..500_000, *b"inserted");
    longer.drain(100_000..100_003);
    for replayed in [replayed, longer] {
        let residual = one(Repair::delta(&recorded, (&Hash::of(&replayed), &replayed)).unwrap());
        let bytes = residual.encode();
        assert!(bytes.len() < 400, "{} bytes", bytes.len());
        let read = Residual::decode(&bytes).unwrap();
        assert!(applied(&read.items()[0].repair, &replayed, 1 << 20).unwrap() == recorded);
    }
}

#[test]
fn what_moved_or_changed_in_length_everywhere_is_found() {
    let line = |number: u32, digits: usize| format!("{{\"id\": {number}, \"took\": {:.digits$}}}\n", 0.123_456_789);
    let replayed: Vec<u8> = (0..5000).flat_map(|number| line(number, 3).into_bytes()).collect();
    let recorded: Vec<u8> =
        (0..5000).flat_map(|number| line(number, if number % 9 == 0 { 5 } else { 3 }).into_bytes()).collect();
    let delta = |recorded: &[u8], replayed: &[u8]| Delta::make(recorded, (&Hash::of(replayed), replayed)).unwrap();
    let bytes = delta(&recorded, &replayed).as_bytes().len();
    assert!(bytes < 1000, "{bytes} bytes");
    let noise = noise(4, 300_000);
    let moved = [&noise[200_000..], &noise[..200_000]].concat();
    assert!(delta(&moved, &noise).as_bytes().len() < 100);
    assert_eq!(delta(&moved, &noise).bases().unwrap(), [Hash::of(&noise)]);
}

#[test]
fn a_repair_is_bounded_and_told_where_it_cannot_be() {
    let (recorded, replayed) = (noise(1, 5000), noise(2, 5000));
    let delta = Repair::delta(&recorded, (&Hash::of(&replayed), &replayed)).unwrap();
    assert!(applied(&delta, &replayed, 5000).unwrap() == recorded);
    assert!(matches!(applied(&delta, &replayed, 4999), Err(ResidualError::TooLong { length: 5000, limit: 4999 })));
    assert!(matches!(applied(&delta, &recorded, 5000), Err(ResidualError::BaseMissing(_))));
    let parity = parity(&recorded, 16);
    assert!(matches!(applied(&parity, &replayed, 5000), Err(ResidualError::Unrepairable)));
    assert!(matches!(applied(&parity, &recorded, 4999), Err(ResidualError::TooLong { .. })));
    assert!(matches!(applied(&parity, &recorded[1..], 5000), Err(ResidualError::OtherLength { .. })));
    assert!(applied(&parity, &recorded, 5000).unwrap() == recorded);
}

#[test]
fn other_forms_of_a_residual_are_refused() {
    let item = |index| Item { index, repair: parity(b"abc", 2) };
    for items in [vec![], vec![item(1), item(1)], vec![item(2), item(1)]] {
        assert!(matches!(Residual::new(items), Err(ResidualError::Malformed(_))));
    }
    let bytes = one(parity(b"abc", 2)).encode();
    // a2 00 01 01 81 82 00 84 01 02 03 58 24 ...: the places of the format, the index, the symbols and the length.
    assert_eq!(bytes[..13], [0xa2, 0, 1, 1, 0x81, 0x82, 0, 0x84, 1, 2, 3, 0x58, 36]);
    let refused = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        Residual::decode(&bytes).unwrap_err()
    };
    assert!(matches!(refused(2, 2), ResidualError::Record(Error::FormatVersion { found: 2 })));
    assert!(matches!(refused(4, 0x80), ResidualError::Record(_)));
    assert!(matches!(refused(9, 3), ResidualError::Symbols(3)));
    assert!(matches!(refused(9, 4), ResidualError::Malformed(_)));
    assert!(matches!(Residual::decode(&[bytes.as_slice(), &[0]].concat()), Err(ResidualError::Record(_))));
    assert!((0..bytes.len()).all(|cut| Residual::decode(&bytes[..cut]).is_err()));
    let large = one(Repair::Delta(Delta::from_bytes(vec![0; MAX_RESIDUAL]))).encode();
    assert!(matches!(Residual::decode(&large), Err(ResidualError::Record(Error::TooLarge { .. }))));
    // An array that says that it has very many items, and one that does not say how many.
    for array in [&[0x9b, 0, 0, 1, 0, 0, 0, 0, 0][..], &[0x9a, 0, 1, 0, 1], &[0x9f]] {
        let bytes = [&[0xa2, 0, 1, 1], array, &[0x82, 0, 0x82, 0, 0x40]].concat();
        assert!(matches!(Residual::decode(&bytes), Err(ResidualError::Record(_))));
    }
}

fn item() -> impl Strategy<Value = Repair> {
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        bytes.clone().prop_map(|bytes| Repair::Delta(Delta::from_bytes(bytes))),
        (bytes, 1u16..9).prop_map(|(content, half)| parity(&content, 2 * half)),
    ]
}

proptest! {
    #[test]
    fn residuals_come_back(items in prop::collection::btree_map(any::<u32>(), item(), 1..5)) {
        let items = items.into_iter().map(|(index, repair)| Item { index, repair }).collect();
        let residual = Residual::new(items).unwrap();
        prop_assert_eq!(Residual::decode(&residual.encode()).unwrap(), residual);
    }
}
