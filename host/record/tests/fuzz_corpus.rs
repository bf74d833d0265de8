//! The fuzz targets, run on stable over what fuzzing kept, the vectors, what mutation makes of them, and noise.
//! Deterministic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "../../../fuzz/stable.rs"]
mod stable;

use common::samples::{Sample, reencode, samples};
use common::targets;
use stable::{Numbers, TELLING, mutate};

/// All targets on the same bytes: what is of one type is a near miss for another.
fn run_all(bytes: &[u8]) {
    for target in [
        targets::entries,
        targets::record,
        targets::value,
        targets::lists,
        targets::tree_node,
        targets::answer,
        targets::version,
        targets::path,
    ] {
        target(bytes);
    }
}

#[test]
fn what_fuzzing_kept_and_what_is_near_it_fails_no_target() {
    stable::replay("entries", 2_000, targets::entries);
    stable::replay("record", 2_000, targets::record);
    stable::replay("value", 2_000, targets::value);
    stable::replay("lists", 2_000, targets::lists);
    stable::replay("tree_node", 2_000, targets::tree_node);
    stable::replay("answer", 2_000, targets::answer);
    stable::replay("version", 2_000, targets::version);
    stable::replay("path", 2_000, targets::path);
}

#[test]
fn no_target_fails_on_mutations_of_valid_bytes() {
    let samples = samples();
    let mut numbers = Numbers(1);
    for Sample { bytes, .. } in &samples {
        run_all(bytes);
    }
    for _ in 0..40_000 {
        let mut bytes = samples[numbers.below(samples.len())].bytes.clone();
        let other = &samples[numbers.below(samples.len())].bytes;
        mutate(&mut numbers, &mut bytes, other);
        run_all(&bytes);
    }
}

#[test]
fn no_target_fails_on_noise_or_deep_nesting() {
    let mut numbers = Numbers(2);
    for _ in 0..20_000 {
        let length = numbers.below(64);
        let noise: Vec<u8> = (0..length)
            .map(|_| if numbers.below(2) == 0 { numbers.byte() } else { TELLING[numbers.below(TELLING.len())] })
            .collect();
        run_all(&noise);
    }
    // Under an unknown key of an answer anything may stand, and a skipped value must not use the stack.
    for opening in [0x81, 0x9f, 0xa1, 0xbf, 0xc0, 0xd8] {
        let mut bytes = vec![0xa3, 0, 7, 1, 0, 0x18, 99];
        bytes.extend([opening].repeat(1_000_000));
        run_all(&bytes);
        run_all(&bytes[7..]);
    }
}

/// Whatever bytes are accepted as a type are the bytes that the type is written as.
#[test]
fn mutated_vectors_are_refused_or_mean_what_they_say() {
    let mut numbers = Numbers(3);
    let samples: Vec<Sample> = samples().into_iter().filter(|s| s.kind != "response").collect();
    let mut accepted = 0;
    for _ in 0..40_000 {
        let sample = &samples[numbers.below(samples.len())];
        let mut bytes = sample.bytes.clone();
        mutate(&mut numbers, &mut bytes, &sample.bytes);
        if let Ok(again) = reencode(sample.kind, &bytes) {
            assert_eq!(again, bytes, "{}", sample.name);
            accepted += 1;
        }
    }
    assert!(accepted > 1000, "only {accepted} were accepted: the mutations say little");
}
