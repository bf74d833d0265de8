//! What an entry's results would have cost by value.

use crate::log::LogEntry;
use crate::{ClientError, WorkingCopy};
use opship_record::Hash;
use std::collections::BTreeSet;
use std::io::Write;

/// Contents are compressed up to here; what is longer is reckoned at the same ratio.
const SAMPLE: u64 = 4 << 20;
/// What a value entry takes besides its contents, for each path: its line in the list, compressed not at all.
const PER_PATH: u64 = 100;

/// Bytes that shipping the entry's results by value would send: contents compressed as an upload compresses them, and a
/// line for each path. Contents that are no longer at hand count as they are.
pub(super) fn estimate(copy: &WorkingCopy, entry: &LogEntry) -> Result<u64, ClientError> {
    let lists = copy.lists(entry.number)?;
    let streams = lists.streams.iter().map(|s| (s.stdout, s.stdout_length));
    let files = lists.changes.iter().filter_map(|change| change.after.blob()).map(|(length, hash)| (hash, length));
    // A stream counts only where a file has taken it up: then its hash is in the index.
    let mut contents: BTreeSet<(Hash, u64)> = files.collect();
    for (hash, length) in streams {
        if length > 0 && copy.has_content(&hash)? {
            contents.insert((hash, length));
        }
    }
    let mut total = PER_PATH * lists.changes.len() as u64;
    for (hash, length) in contents {
        total += compressed(copy, &hash, length)?;
    }
    Ok(total)
}

fn compressed(copy: &WorkingCopy, hash: &Hash, length: u64) -> Result<u64, ClientError> {
    let Some(content) = copy.blob_source(hash)? else { return Ok(length) };
    let mut counter = Counting(0);
    let failed = || ClientError::io("compressing a content");
    let mut encoder = zstd::stream::write::Encoder::new(&mut counter, 3).map_err(failed())?;
    let (mut offset, mut buffer) = (0, vec![0; 256 << 10]);
    while offset < length.min(SAMPLE) {
        let count = content.read_at(offset, &mut buffer)?;
        if count == 0 {
            break;
        }
        encoder.write_all(&buffer[..count]).map_err(failed())?;
        offset += count as u64;
    }
    encoder.finish().map_err(failed())?;
    // Reckoned in 128 bits: lengths may use all 64.
    let whole = u128::from(counter.0) * u128::from(length.max(1)) / u128::from(offset.max(1));
    Ok(u64::try_from(whole).unwrap_or(length).min(length))
}

struct Counting(u64);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
