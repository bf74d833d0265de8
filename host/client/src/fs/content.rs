//! Contents of files as a world reads them.

use super::Signature;
use opship_record::Hash;
use opship_world::{FileContent, SourceError, read_fully_at};
use std::fs::File;

/// A kept copy: nobody else writes to it.
pub(crate) struct KeptContent {
    pub file: File,
    pub length: u64,
    pub hash: Hash,
    /// The path that it was kept for, for messages.
    pub path: String,
}

impl FileContent for KeptContent {
    fn length(&self) -> u64 {
        self.length
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        read_fully_at(&self.file, offset, buffer).map_err(|error| unreadable(&self.path, &error))
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// A live file whose content the server holds. Whether it was changed meanwhile is checked when the run is over; a
/// change that shows in its signature while it is read ends the run at once.
pub(crate) struct LiveContent {
    pub file: File,
    pub signature: Signature,
    pub hash: Hash,
    pub path: String,
}

impl FileContent for LiveContent {
    fn length(&self) -> u64 {
        self.signature.size
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let rest = usize::try_from(self.signature.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = rest.min(buffer.len());
        let count =
            read_fully_at(&self.file, offset, &mut buffer[..wanted]).map_err(|error| unreadable(&self.path, &error))?;
        if count < wanted {
            return Err(changed(&self.path));
        }
        Ok(count)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// The file was changed while it was used.
pub(crate) fn changed(path: &str) -> SourceError {
    SourceError {
        path: path.to_owned(),
        detail: "another program changed it while it was read; run again when it is quiet".to_owned(),
        changed: true,
    }
}

/// The file cannot be read.
pub(crate) fn unreadable(path: &str, error: &std::io::Error) -> SourceError {
    SourceError { path: path.to_owned(), detail: format!("{error}; make it readable or remove it"), changed: false }
}
