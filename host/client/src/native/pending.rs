//! Which runs are at work or being recorded, as others see it.

use crate::fs::OPSHIP;
use crate::{ClientError, WorkingCopy};
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Held, shared, from before a program starts until its run is recorded.
const RUNS: &str = "native.lock";
/// Held by who records, one at a time.
const RECORDER: &str = "recorder.lock";
/// How long a scan that makes entries waits for programs to end. What they have changed by then goes by value.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits while one is being recorded: a little longer than its module may run.
const RECORDING: Duration = Duration::from_secs(70);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A run that is at work or being recorded. It ends with the last process that has the descriptor.
#[derive(Debug)]
pub struct Recording(OwnedFd);

impl Recording {
    /// The next process that this one starts inherits it.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn hand_over(&self) -> Result<(), ClientError> {
        rustix::io::fcntl_setfd(&self.0, FdFlags::empty()).map_err(ClientError::io("handing over a lock"))
    }
}

impl WorkingCopy {
    /// A native run begins: until it is recorded, what changes in the folder may be its work.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn begin_native(&self) -> Result<Recording, ClientError> {
        Ok(Recording(self.shared.flock(RUNS, FlockOperation::LockShared)?))
    }

    /// Waits until it is this process's turn to record.
    pub(super) fn lock_recorder(&self) -> Result<OwnedFd, ClientError> {
        self.shared.flock(RECORDER, FlockOperation::LockExclusive)
    }

    /// Waits, but not for long, until no native run is at work or being recorded.
    pub(crate) fn wait_for_recordings(&self) -> Result<(), ClientError> {
        let begun = Instant::now();
        // Without the file there never was a run.
        if self
            .shared
            .root
            .stat(&format!("{OPSHIP}/{RUNS}"))
            .map_err(ClientError::io("looking for native runs"))?
            .is_none()
        {
            return Ok(());
        }
        while self.shared.try_lock(RUNS)?.is_none() {
            let is_recording = || Ok::<_, ClientError>(self.shared.try_lock(RECORDER)?.is_none());
            if begun.elapsed() >= RECORDING || (begun.elapsed() >= PATIENCE && !is_recording()?) {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}
