//! `docs/wire-format.md` and the code say the same: its vectors are encoded, decoded and refused as it states.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::samples::{Sample, reencode, samples};
use opship_record::answer::{Reason, Verdict};
use opship_record::{Error, limits};
use std::collections::BTreeMap;
use std::fmt::Write;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-format.md");

/// The fields of each fenced block of a kind; lines that do not start a field go on with the one before.
fn blocks(kind: &str) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(DOCUMENT).expect("docs/wire-format.md is there");
    let mut found = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let Some(body) = block.strip_prefix(kind).and_then(|rest| rest.strip_prefix('\n')) else { continue };
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        let mut last = String::new();
        for line in body.lines() {
            match line.split_once(": ") {
                Some((key, value)) => {
                    last = key.to_owned();
                    fields.insert(last.clone(), value.to_owned());
                }
                None => fields.get_mut(&last).expect("a field goes on").push_str(line),
            }
        }
        found.push(fields);
    }
    assert_eq!(found.len(), text.matches(&format!("\n```{kind}\n")).count(), "a block was not read");
    found
}

/// Hexadecimal digits; `61*300` is a byte repeated.
fn bytes(hex: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in hex.split_whitespace() {
        let (digits, count) = match word.split_once('*') {
            Some((digits, count)) => (digits, count.parse().unwrap()),
            None => (word, 1),
        };
        let once: Vec<u8> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        bytes.extend(once.repeat(count));
    }
    bytes
}

/// A sample as the document shows it.
fn block(sample: &Sample) -> String {
    let mut text = format!("```vector\nname: {}\ntype: {}\n", sample.name, sample.kind);
    for (name, hash) in &sample.hashes {
        writeln!(text, "{name}: {hash}").unwrap();
    }
    let hex: String = sample.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = hex.as_bytes().chunks(96).map(|line| std::str::from_utf8(line).unwrap()).collect();
    write!(text, "hex: {}\n```", lines.join("\n ")).unwrap();
    text
}

#[test]
fn the_document_shows_the_bytes_and_hashes_of_every_sample() {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let missing: Vec<String> = samples().iter().map(block).filter(|block| !text.contains(block.as_str())).collect();
    assert!(missing.is_empty(), "docs/wire-format.md should hold:\n\n{}\n", missing.join("\n\n"));
    assert_eq!(blocks("vector").len(), samples().len(), "a vector in the document is of no sample");
}

#[test]
fn the_vectors_are_read_and_written_again_to_the_byte() {
    for vector in blocks("vector") {
        let bytes = bytes(&vector["hex"]);
        assert_eq!(reencode(&vector["type"], &bytes), Ok(bytes), "{}", vector["name"]);
    }
}

#[test]
fn what_the_document_calls_refused_is_refused_for_that_reason() {
    let refused = blocks("refused");
    assert!(refused.len() >= 30, "{} refused examples", refused.len());
    for example in refused {
        let error = match reencode(&example["type"], &bytes(&example["hex"])) {
            Ok(_) => panic!("accepted: {}", example["because"]),
            Err(Error::Path(error)) => format!("{error:?}"),
            Err(error) => format!("{error:?}"),
        };
        let (name, _) = error.split_once([' ', '(']).unwrap();
        assert_eq!(name, example["error"], "{}: {error}", example["because"]);
    }
}

/// Every prefix of a vector is refused: none of them is a shorter value.
#[test]
fn truncated_vectors_are_refused() {
    for Sample { name, kind, bytes, .. } in samples() {
        if matches!(kind, "path" | "request" | "response") {
            continue;
        }
        for length in 0..bytes.len() {
            assert!(reencode(kind, &bytes[..length]).is_err(), "{name} cut to {length}");
        }
    }
}

/// The rows of a table in the document that start with a number.
fn numbered(heading: &str) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let section = text.split(heading).nth(1).expect("the section is there").split("\n## ").next().unwrap();
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.parse().ok()?, cells.next()?.trim_matches('`').to_owned()))
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn the_lists_of_verdicts_reasons_and_limits_are_those_of_the_code() {
    let verdicts: Vec<_> = Verdict::ALL.iter().map(|v| (*v as usize, v.name().to_owned())).collect();
    assert_eq!(numbered("\n## Verdicts\n"), verdicts);
    let reasons: Vec<_> = Reason::ALL.iter().map(|r| (*r as usize, r.name().to_owned())).collect();
    assert_eq!(numbered("\n## Reasons\n"), reasons);
    let limits = [
        (limits::MAX_PATH, "bytes of a path"),
        (limits::MAX_COMPONENT, "bytes of a component of a path"),
        (limits::MAX_LINK_TARGET, "bytes of a symbolic link's target"),
        (limits::MAX_STEPS, "steps of an operation"),
        (limits::MAX_MOUNTS, "mounts of a step"),
        (limits::MAX_ARGUMENTS, "bytes of a step's arguments and environment"),
        (limits::MAX_MEMORY_PAGES as usize, "pages of a module's memory"),
        (limits::MAX_RECORD, "bytes of a record or value"),
        (limits::MAX_ENVELOPE, "bytes of an envelope"),
        (limits::MAX_WAITS, "entries that one waits for"),
        (limits::MAX_PARTS, "parts of an entry"),
        (limits::MAX_INLINE_PART, "bytes of a part inside a request"),
        (limits::MAX_LIST, "bytes of a list"),
        (limits::MAX_REQUEST, "bytes of a request's body"),
        (limits::MAX_NEEDS, "items of a list of needs"),
        (limits::MAX_REPORT, "items of a report"),
    ];
    assert_eq!(numbered("\n## Limits\n"), limits.map(|(limit, what)| (limit, what.to_owned())));
}

/// A newer server may say more than this build knows.
#[test]
fn unknown_keys_verdicts_and_reasons_of_an_answer_are_ignored() {
    let known = reencode("response", &[0xa2, 0, 7, 1, 0]);
    // Key 99, verdict 200, reason 201.
    let newer = [0xa5, 0, 7, 1, 0, 2, 0x18, 200, 3, 0x18, 201, 0x18, 99, 0x82, 1, 0x61, b'x'];
    assert_eq!(reencode("response", &newer), known);
}
