//! What a run leaves behind.

use crate::source::{FileContent, SourceError, SpillFile};
use opship_record::record::Lists;
use opship_record::{Hash, Hasher, TreePath};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;

/// All effects of an operation, and the lists that its record is made of.
#[derive(Debug)]
pub struct Outcome {
    /// Observations, changes, streams and exit codes.
    pub lists: Lists,
    /// The contents of written files, by final path. A file that was only renamed is not here.
    pub files: BTreeMap<TreePath, Produced>,
    /// Standard output and standard error of each step.
    pub streams: Vec<(Produced, Produced)>,
}

/// Bytes that a run made.
#[derive(Debug)]
pub struct Produced {
    /// Where they are.
    pub body: ProducedBody,
    /// How many.
    pub length: u64,
    /// Their hash.
    pub hash: Hash,
}

/// Where produced bytes are.
#[derive(Debug)]
pub enum ProducedBody {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file of the run's [`crate::Spill`].
    Spilled(SpillFile),
}

impl Produced {
    /// Reads as [`FileContent::read_at`] does.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.body {
            ProducedBody::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            ProducedBody::Spilled(spill) => read_fully_at(&spill.file, offset, buffer),
        }
    }

    /// Passes all bytes to `sink`, in pieces.
    ///
    /// # Errors
    /// The operating system's, or the sink's.
    pub fn copy_to(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        if let ProducedBody::Memory(bytes) = &self.body {
            return sink.write_all(bytes);
        }
        let mut buffer = vec![0; 256 << 10];
        let mut offset = 0;
        loop {
            match self.read_at(offset, &mut buffer)? {
                0 => return Ok(()),
                count => {
                    sink.write_all(&buffer[..count])?;
                    offset += count as u64;
                }
            }
        }
    }
}

/// Fills `buffer` from `offset` on, short only at the end of the file.
///
/// # Errors
/// The operating system's.
pub fn read_fully_at(file: &std::fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Hashes a content by reading it once.
///
/// # Errors
/// [`SourceError`] if it cannot be read.
pub fn hash_content(content: &dyn FileContent) -> Result<Hash, SourceError> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        match content.read_at(offset, &mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
}
