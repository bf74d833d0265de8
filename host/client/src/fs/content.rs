//! Contents of files as a world reads them.

use super::Signature;
use crate::ClientError;
use opship_record::Hash;
use opship_world::{FileContent, SourceError, read_fully_at};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A file whose content is known: a kept copy, to which nobody else writes, or the start of one that may grow.
pub(crate) struct KeptContent {
    pub file: File,
    /// Bytes of the content; what the file has behind them is not part of it.
    pub length: u64,
    pub hash: Hash,
    /// The path that it was kept for, for messages.
    pub path: String,
}

impl KeptContent {
    /// A file that was downloaded; its bytes were verified on their way in.
    pub(crate) fn downloaded(file: &Path, hash: Hash) -> Result<Arc<dyn FileContent>, ClientError> {
        let failed = || ClientError::io("reading a download");
        let file = File::open(file).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        Ok(Arc::new(KeptContent { file, length, hash, path: "download".to_owned() }))
    }
}

impl FileContent for KeptContent {
    fn length(&self) -> u64 {
        self.length
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let rest = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = rest.min(buffer.len());
        read_fully_at(&self.file, offset, &mut buffer[..wanted]).map_err(|error| unreadable(&self.path, &error))
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
