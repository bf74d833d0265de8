//! What an entry's results would have cost by value.

use crate::log::LogEntry;
use crate::transfer::Counting;
use crate::{ClientError, WorkingCopy};
use opship_record::Hash;
use opship_record::limits::MAX_INLINE_PART;
use std::collections::BTreeSet;
use std::io::Write;

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
    let (small, large): (Vec<_>, Vec<_>) = contents.into_iter().partition(|(_, l)| *l <= MAX_INLINE_PART as u64);
    let mut total = PER_PATH * lists.changes.len() as u64 + compressed(copy, &small)?;
    for content in large {
        total += compressed(copy, &[content])?;
    }
    Ok(total)
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
