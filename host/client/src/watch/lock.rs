//! One watch a working copy, and one sync at a time.

use crate::{ClientError, WorkingCopy};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::time::Instant;

/// How often a lock is tried that somebody else has.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// The lock's name in `.opship`.
const WATCH_LOCK: &str = "watch.lock";

impl WorkingCopy {
    /// Takes the lock that a watch holds as long as it runs; `None` if there is one.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub(crate) fn try_lock_watch(&self) -> Result<Option<OwnedFd>, ClientError> {
        self.shared.try_lock(WATCH_LOCK)
    }

    /// Is the lock that a watch holds no longer that of the folder that it was started in? So it is when the folder, or its
    /// `.opship`, was removed or moved.
    pub(crate) fn has_lost_watch(&self, lock: &OwnedFd) -> bool {
        let held = rustix::fs::fstat(lock);
        let there = rustix::fs::stat(self.own_folder().join(WATCH_LOCK));
        match (held, there) {
            (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino),
            (_, Err(error)) => matches!(error, Errno::NOENT | Errno::NOTDIR),
            (Err(_), _) => false,
        }
    }

    /// As [`WorkingCopy::try_lock_sync`], waiting for whoever has the lock, for so long.
    ///
    /// # Errors
    /// [`ClientError::Busy`] after that, [`ClientError::Io`].
    pub(crate) async fn lock_sync_within(&self, patience: Duration) -> Result<OwnedFd, ClientError> {
        let end = Instant::now() + patience;
        loop {
            if let Some(lock) = self.try_lock_sync()? {
                return Ok(lock);
            }
            if Instant::now() >= end {
                return Err(ClientError::Busy);
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
    }
}
