//! What opship's own folder takes, by purpose.

use crate::{ClientError, WorkingCopy, db};
use std::collections::BTreeMap;
use std::path::Path;

/// What files in `.opship` are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Bytes kept for the server until it has them.
    Kept,
    /// Files whose place another one took, until the verdict.
    Displaced,
    /// Results and downloads that are not in place yet.
    Staging,
    /// The log and the index.
    Database,
    /// What the server holds of files, for sending differences.
    Signatures,
    /// Modules and their resource folders.
    Modules,
    /// Anything else.
    Other,
}

impl Purpose {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Kept => "kept",
            Purpose::Displaced => "displaced",
            Purpose::Staging => "staging",
            Purpose::Database => "database",
            Purpose::Signatures => "signatures",
            Purpose::Modules => "modules",
            Purpose::Other => "other",
        }
    }

    fn of(name: &str) -> Purpose {
        match name {
            "kept" => Purpose::Kept,
            "staging" | "downloads" => Purpose::Staging,
            "modules" | "modules.json" | "mounts" => Purpose::Modules,
            name if name.starts_with("state.db") => Purpose::Database,
            name if name.starts_with("transfer.db") => Purpose::Signatures,
            _ => Purpose::Other,
        }
    }
}

impl WorkingCopy {
    /// Bytes of opship's own files by purpose. What comes or goes meanwhile may be counted or not.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn usage(&self) -> Result<BTreeMap<Purpose, u64>, ClientError> {
        let mut usage = BTreeMap::new();
        let own = self.own_folder();
        for entry in std::fs::read_dir(&own).into_iter().flatten().flatten() {
            let purpose = Purpose::of(&entry.file_name().to_string_lossy());
            *usage.entry(purpose).or_default() += bytes_below(&entry.path());
        }
        // They are in the staging folder of the run that displaced them.
        let displaced = db::keep::displaced_files(&self.shared.db.read())?;
        let displaced: u64 = displaced.iter().map(|file| bytes_below(&self.path().join(file))).sum();
        if displaced > 0 {
            usage.insert(Purpose::Displaced, displaced);
            let staging: &mut u64 = usage.entry(Purpose::Staging).or_default();
            *staging = staging.saturating_sub(displaced);
        }
        Ok(usage)
    }
}

/// Bytes of a file, or of all below a folder; links are not followed.
fn bytes_below(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| bytes_below(&entry.path())).sum()
}
