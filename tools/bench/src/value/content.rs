//! Contents and folders that are the same in each run.

use crate::error::{BenchError, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A small generator of numbers (splitmix64, Steele, Lea and Flood 2014).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }
}

/// Bytes that do not compress, as of media and archives.
pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(numbers.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    made.map_err(BenchError::io(format!("write '{}'", path.display())))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(BenchError::io(format!("read '{}'", path.display())))
}

/// Makes all files a day old, so that what is changed next differs from them by its time for every tool.
pub(crate) fn age(folder: &Path) -> Result<()> {
    let day_ago = SystemTime::now() - Duration::from_secs(24 * 3600);
    for path in files(folder)? {
        let set = File::options().write(true).open(&path).and_then(|file| file.set_modified(day_ago));
        set.map_err(BenchError::io(format!("set the time of '{}'", path.display())))?;
    }
    Ok(())
}

/// All files below a folder but opship's own.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let failed = || BenchError::io(format!("list '{}'", folder.display()));
    for item in fs::read_dir(folder).map_err(failed())? {
        let item = item.map_err(failed())?;
        if item.file_name() == ".opship" {
            continue;
        }
        match item.file_type().map_err(failed())?.is_dir() {
            true => found.extend(files(&item.path())?),
            false => found.push(item.path()),
        }
    }
    found.sort();
    Ok(found)
}

/// A file's mode, the nanoseconds of its last change since 1970, and its bytes.
pub(crate) type State = (u32, i128, Vec<u8>);

/// Each file's path below the folder with its state.
pub(crate) fn snapshot(folder: &Path) -> Result<BTreeMap<PathBuf, State>> {
    let mut all = BTreeMap::new();
    for path in files(folder)? {
        let found = path.metadata().map_err(BenchError::io(format!("look at '{}'", path.display())))?;
        let changed = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        all.insert(
            path.strip_prefix(folder).unwrap_or(&path).to_owned(),
            (found.mode() & 0o777, changed, read(&path)?),
        );
    }
    Ok(all)
}

/// Bytes of all files below a folder.
pub(super) fn bytes_below(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for path in files(folder)? {
        sum += path.metadata().map_err(BenchError::io(format!("look at '{}'", path.display())))?.len();
    }
    Ok(sum)
}
