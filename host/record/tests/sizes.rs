//! The sizes that DESIGN.md §5 promises.
#![allow(clippy::unwrap_used, missing_docs)]

use opship_record::entry::{Body, ClientId, Entry};
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::record::Record;
use opship_record::{FORMAT_VERSION, Hash};

/// Every digest present, late clock, a large sequence number, an entry waited for, a head hint.
fn largest_plain_entry() -> Entry {
    let digest = Some(Hash::of(b"x"));
    let step = Step::new(Hash::of(b"module"), [vec![b'a'; 4], vec![b'b'; 60]]);
    let plan = Plan {
        format: FORMAT_VERSION,
        steps: vec![step],
        clock_start: u64::MAX,
        seed: [7; 16].into(),
        limits: None,
        profile: PROFILE,
    };
    let record = Record {
        plan,
        exits: None,
        observations: digest,
        before: digest,
        content: digest,
        metadata: digest,
        streams: digest,
        native: None,
    };
    let mut entry = Entry::new(ClientId::from_bytes([9; 16]), 100_000, &[99_999], Body::Operation(record), Vec::new());
    entry.envelope.head = Some([1; 8].into());
    entry
}

#[test]
fn record_and_envelope_stay_under_400_bytes_with_one_step_and_64_bytes_of_arguments() {
    let mut bytes = Vec::new();
    largest_plain_entry().encode_into(&mut bytes);
    assert!(bytes.len() < 400, "{} bytes", bytes.len());
    let mut rest = bytes.as_slice();
    assert_eq!(Entry::decode_next(&mut rest).unwrap(), largest_plain_entry());
    assert!(rest.is_empty());
}
