//! Folders for the files of one run or pull: what it spills, keeps, stages, and then what it displaces.
//!
//! A folder is locked while its process lives; one that nobody locks and no entry needs is removed at the next open.

use crate::ClientError;
use crate::db::keep;
use crate::fs::write_new;
use crate::working_copy::Shared;
use opship_record::Hash;
use opship_world::{Spill, SpillFile};
use rustix::fs::{FlockOperation, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where all staging folders are.
pub(crate) const STAGING: &str = ".opship/staging";
/// How often a folder is made that is gone before it is locked.
const TRIES: u32 = 16;
/// Where kept contents are.
pub(crate) const KEPT: &str = ".opship/kept";

/// One staging folder.
#[derive(Debug)]
pub(crate) struct Staging {
    shared: Arc<Shared>,
    folder: String,
    next: AtomicU64,
    _lock: OwnedFd,
}

impl Staging {
    /// Makes a folder with a name of its own and locks it.
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Staging, ClientError> {
        let make = || -> io::Result<Option<Staging>> {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
            let folder = format!("{STAGING}/{:016x}", u64::from_le_bytes(bytes));
            shared.root.make_directory(&folder, 0o700)?;
            let lock = claim(shared, &folder);
            Ok(lock.map(|lock| Staging { shared: shared.clone(), folder, next: AtomicU64::new(0), _lock: lock }))
        };
        // A sweep of another process may be faster than the lock, and takes the folder for a leftover.
        for _ in 0..TRIES {
            if let Some(staging) = make().map_err(ClientError::io("making a folder in '.opship/staging'"))? {
                return Ok(staging);
            }
        }
        Err(ClientError::Busy)
    }

    /// The folder, below the root.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> PathBuf {
        self.shared.absolute(&self.folder)
    }

    /// A new name in the folder, as a path below the root.
    pub(crate) fn new_path(&self) -> String {
        format!("{}/{}", self.folder, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A new empty file and its path below the root.
    pub(crate) fn new_file(&self) -> io::Result<(File, String)> {
        let path = self.new_path();
        Ok((write_new(&self.shared.root, &path)?, path))
    }

    /// Removes the folders of processes that are gone, where no entry needs them. The caller has the lock.
    pub(crate) fn sweep(shared: &Shared) -> Result<(), ClientError> {
        let failed = "clearing '.opship/staging'";
        for (name, _) in shared.root.list(STAGING).map_err(ClientError::io(failed))? {
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            let folder = format!("{STAGING}/{name}");
            if keep::is_folder_used(&shared.db.read(), &folder)? {
                continue;
            }
            // Held until it is gone, so that nobody begins to use it meanwhile. What is no folder was not made here.
            if let Some(_lock) = claim(shared, &folder) {
                shared.root.remove_all(&folder).map_err(ClientError::io(failed))?;
            }
        }
        Ok(())
    }

    /// Removes what is left of the folder, if nothing in it is needed. The caller has the lock.
    pub(crate) fn discard(&self) {
        let used = keep::is_folder_used(&self.shared.db.read(), &self.folder).unwrap_or(true);
        if !used && let Err(error) = self.shared.root.remove_all(&self.folder) {
            tracing::debug!(%error, folder = self.folder, "left for the next open to clear");
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Locks a folder that nobody else has locked.
fn claim(shared: &Shared, folder: &str) -> Option<OwnedFd> {
    let directory = shared.root.open_at(folder, OFlags::RDONLY | OFlags::DIRECTORY, 0).ok()?;
    rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(directory)
}

/// The path of a kept content, below the root.
pub(crate) fn kept_path(hash: &Hash) -> String {
    format!("{KEPT}/{hash}")
}

/// Spilled contents go into the staging folder.
pub(crate) struct StagingSpill(pub Arc<Staging>);

impl Spill for StagingSpill {
    fn create(&self) -> io::Result<SpillFile> {
        let (file, path) = self.0.new_file()?;
        // The working copy may be moved while it is open; the path is for removing only, and a sweep does that too.
        Ok(SpillFile { file, path: Some(self.0.shared.absolute(&path)) })
    }
}

impl Shared {
    /// A path below the root, as the folder was called when it was opened.
    fn absolute(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// The reverse of [`Shared::absolute`]; `None` for a path elsewhere.
    pub(crate) fn below_root(&self, path: &std::path::Path) -> Option<String> {
        path.strip_prefix(&self.path).ok()?.to_str().map(str::to_owned)
    }
}
