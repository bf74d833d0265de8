//! Copies with their hash.

use crate::source::hash_file;
use opship_record::{Hash, Hasher};
use opship_world::{FileContent, read_fully_at};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read, Write};

use super::Root;

/// Makes a new file for reading and writing, 0600.
pub(crate) fn write_new(root: &Root, path: &str) -> io::Result<File> {
    Ok(File::from(root.open_at(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o600)?))
}

/// Copies `from`, at most its first `limit` bytes, into the empty file `to` and hashes what was copied. The copy shares
/// blocks with the original where the file system can do that.
pub(crate) fn copy_hashed(from: &File, to: &mut File, limit: u64) -> io::Result<(u64, Hash)> {
    let whole = limit == u64::MAX && rustix::fs::ioctl_ficlone(&*to, from).is_ok();
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0u64;
    while offset < limit {
        let want = usize::try_from(limit - offset).unwrap_or(usize::MAX).min(buffer.len());
        // After a clone the copy is read, so that the hash is that of what was kept.
        let count = read_fully_at(if whole { to } else { from }, offset, &mut buffer[..want])?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        if !whole {
            to.write_all(&buffer[..count])?;
        }
        offset += count as u64;
    }
    Ok((offset, hasher.finish()))
}

/// Copies a content into the empty file `to` and hashes what was copied. The copy shares blocks with the file that the
/// content is of, where there is one and the file system can do that.
pub(crate) fn copy_content(content: &dyn FileContent, to: &mut File) -> io::Result<Hash> {
    if content.file().is_some_and(|from| rustix::fs::ioctl_ficlone(&*to, from).is_ok()) {
        // The file may have more than the content.
        if to.metadata()?.len() > content.length() {
            to.set_len(content.length())?;
        }
        // Of the copy, and not of the original, which may be changed by now.
        return hash_file(to).map(|(_, hash)| hash);
    }
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        let count = content.read_at(offset, &mut buffer).map_err(|error| io::Error::other(error.to_string()))?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        offset += count as u64;
    }
}

/// Copies what is left of `from`, which may be a pipe, to the end of `to` and hashes it.
pub(crate) fn stream_hashed(from: &mut dyn Read, to: &mut File) -> io::Result<(u64, Hash)> {
    let (mut hasher, mut length, mut buffer) = (Hasher::new(), 0, vec![0; 256 << 10]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok((length, hasher.finish())),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                to.write_all(&buffer[..count])?;
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_and_the_hash_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("from");
        let bytes: Vec<u8> = (0..600_000u32).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        for limit in [0, 5, 300_000, u64::MAX] {
            let mut to = tempfile::tempfile().unwrap();
            let (length, hash) = copy_hashed(&File::open(&path).unwrap(), &mut to, limit).unwrap();
            let expected = &bytes[..bytes.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
            assert_eq!((length, hash), (expected.len() as u64, Hash::of(expected)));
            assert_eq!(to.metadata().unwrap().len(), length);
        }
    }
}
