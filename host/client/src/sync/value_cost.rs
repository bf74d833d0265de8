//! What an entry's results cost by value.

use super::send::{self, Bases};
use crate::choice::Results;
use crate::log::LogEntry;
use crate::transfer::{Counting, Memory, packed_length, packed_sample};
use crate::{ClientError, WorkingCopy};
use opship_record::Hash;
use opship_record::limits::MAX_INLINE_PART;
use opship_world::FileContent;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

/// Contents are compressed up to here; what is longer is reckoned at the same ratio.
const SAMPLE: u64 = 4 << 20;
/// What a value entry takes besides its contents, for each path: its line in the list, of which the hash does not compress.
const PER_PATH: u64 = 60;

/// Bytes that shipping the entry's results by value would send: a line for each path, and the contents, small ones
/// compressed as one stream in a request, large ones each by itself as in an upload. Contents that are no longer at hand
/// count as they are.
pub(super) fn estimate(copy: &WorkingCopy, entry: &LogEntry) -> Result<u64, ClientError> {
    let lists = copy.lists(entry.number)?;
    let streams = lists.streams.iter().map(|s| (s.stdout, s.stdout_length));
    let files = lists.changes.iter().filter_map(|change| change.after.blob()).map(|(length, hash)| (hash, length));
    let (mut contents, mut seen): (Vec<(Hash, u64)>, BTreeSet<Hash>) = Default::default();
    contents.extend(files.filter(|(hash, _)| seen.insert(*hash)));
    // A stream counts only where a file has taken it up: then its hash is in the index.
    for (hash, length) in streams {
        if length > 0 && copy.has_content(&hash)? && seen.insert(hash) {
            contents.push((hash, length));
        }
    }
    Ok(PER_PATH * lists.changes.len() as u64 + whole(copy, contents)?)
}

/// What contents take that go as they are.
fn whole(copy: &WorkingCopy, contents: Vec<(Hash, u64)>) -> Result<u64, ClientError> {
    let (small, large): (Vec<_>, Vec<_>) = contents.into_iter().partition(|(_, l)| *l <= MAX_INLINE_PART as u64);
    let mut total = compressed(copy, &small)?;
    for content in large {
        total += compressed(copy, &[content])?;
    }
    Ok(total)
}

/// What shipping the entry's results by value is predicted to take, as they would go now: what the server has or makes is
/// only named, and what it has something like goes as the difference to that. Up to `budget` bytes of such contents are
/// compared from end to end, of others a sample.
pub(super) fn predict(
    copy: &WorkingCopy,
    memory: &Memory,
    entry: &LogEntry,
    mut budget: u64,
) -> Result<Results, ClientError> {
    let changes = copy.lists(entry.number)?.changes;
    let bases = send::bases(memory, &changes);
    let mut results = Results { bytes: PER_PATH * changes.len() as u64, read: 0 };
    let (mut new, mut seen) = (Vec::new(), BTreeSet::new());
    for (length, hash) in changes.iter().filter_map(|change| change.after.blob()) {
        let is_there = copy.is_with_server(&hash)? || copy.is_produced(&hash, entry.number)?;
        if is_there || memory.has_signature(&hash) || !seen.insert(hash) {
            continue;
        }
        results.read = results.read.saturating_add(length);
        match difference(copy, memory, &bases, hash, &mut budget)? {
            Some(bytes) => results.bytes = results.bytes.saturating_add(bytes),
            None => new.push((hash, length)),
        }
    }
    results.bytes = results.bytes.saturating_add(whole(copy, new)?);
    Ok(results)
}

/// What a content takes as the difference to one that the server has; `None`: there is none, or it is not at hand.
fn difference(
    copy: &WorkingCopy,
    memory: &Memory,
    bases: &Bases,
    hash: Hash,
    budget: &mut u64,
) -> Result<Option<u64>, ClientError> {
    let base = bases.get(&hash).and_then(|base| Some((base, memory.signature(base)?)));
    let (Some((base, signature)), Some(content)) = (base, copy.blob_source(&hash)?) else { return Ok(None) };
    let content: Arc<dyn FileContent> = content;
    let length = content.length();
    if length > *budget {
        return packed_sample(&content, (base, &signature)).map(Some);
    }
    *budget -= length;
    packed_length(&content, Some((base, &signature))).map(Some)
}

/// What contents take as one stream.
fn compressed(copy: &WorkingCopy, contents: &[(Hash, u64)]) -> Result<u64, ClientError> {
    let failed = || ClientError::io("compressing a content");
    let mut counter = Counting(0);
    let mut encoder = zstd::stream::write::Encoder::new(&mut counter, 3).map_err(failed())?;
    let (mut read, mut length, mut absent, mut buffer) = (0, 0u64, 0u64, vec![0; 256 << 10]);
    for (hash, content_length) in contents {
        let Some(content) = copy.blob_source(hash)? else {
            absent = absent.saturating_add(*content_length);
            continue;
        };
        length = length.saturating_add(*content_length);
        let mut offset = 0;
        while offset < *content_length && read < SAMPLE {
            let count = content.read_at(offset, &mut buffer)?;
            if count == 0 {
                break;
            }
            encoder.write_all(&buffer[..count]).map_err(failed())?;
            offset += count as u64;
            read += count as u64;
        }
    }
    encoder.finish().map_err(failed())?;
    // Reckoned in 128 bits: lengths may use all 64.
    let whole = u128::from(counter.0) * u128::from(length) / u128::from(read.max(1));
    Ok(u64::try_from(whole).unwrap_or(length).min(length).saturating_add(absent))
}
