//! A working copy: a folder, its index and its log.

use crate::choice::Ship;
use crate::db::{self, Db, intent};
use crate::fs::{OPSHIP, Root};
use crate::identity::Identity;
use crate::layout::{self, Config, ReplayOnPull};
use crate::staging::Staging;
use crate::{ClientError, exchange};
use opship_record::entry::ClientId;
use rustix::fs::{FlockOperation, OFlags};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long a command waits for the working copy's lock before it says so.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// A working copy. Cheap to clone; it may be used from several threads, and several processes may use one folder.
///
/// It reads neither environment nor terminal; the descriptors 1 and 2 of the process are looked at only to know whether
/// they are files of the tree.
#[derive(Debug, Clone)]
pub struct WorkingCopy {
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a working copy share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub root: Root,
    pub db: Db,
    pub path: PathBuf,
    config: Config,
}

/// The working copy's lock: held to check, append, apply and scan, never while a module runs. Dropping it unlocks.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "closing the descriptor unlocks")] OwnedFd);

impl WorkingCopy {
    /// Opens the working copy that `start` is in, and finishes what a killed process left undone.
    ///
    /// # Errors
    /// [`ClientError::NoWorkingCopy`], [`ClientError::Newer`], [`ClientError::Damaged`], or what the system answers.
    pub fn open(start: &Path) -> Result<WorkingCopy, ClientError> {
        let path = layout::find_root(start)?;
        let config = Config::read(&path)?;
        let copy = WorkingCopy::at(path, config)?;
        let lock = copy.lock()?;
        Staging::sweep(&copy.shared)?;
        drop(lock);
        Ok(copy)
    }

    /// Opens the working copy that `start` is in without waiting for whoever works on it. For looking, and for locks of one's
    /// own: what a killed process left is finished by whoever takes the lock.
    ///
    /// # Errors
    /// As [`WorkingCopy::open`].
    pub fn open_beside(start: &Path) -> Result<WorkingCopy, ClientError> {
        let path = layout::find_root(start)?;
        let config = Config::read(&path)?;
        WorkingCopy::at(path, config)
    }

    /// Makes a working copy of `workspace` on `server` out of the folder `path`, which is made if it is not there. What
    /// the folder holds becomes a value entry with the next scan.
    ///
    /// # Errors
    /// [`ClientError::AlreadyWorkingCopy`], or what the system answers.
    pub fn create(path: &Path, server: &str, workspace: &str) -> Result<WorkingCopy, ClientError> {
        std::fs::create_dir_all(path).map_err(ClientError::io(format!("making the folder '{}'", path.display())))?;
        let path = std::path::absolute(path).map_err(ClientError::io("finding the folder"))?;
        if path.join(OPSHIP).join("state.db").exists() {
            return Err(ClientError::AlreadyWorkingCopy(path));
        }
        layout::make_folders(&path)?;
        let (server, workspace) = (server.to_owned(), workspace.to_owned());
        let (replay_on_pull, ship) = (ReplayOnPull::default(), Ship::default());
        let config = Config { server, workspace, replay_on_pull, ship };
        config.write(&path)?;
        WorkingCopy::at(path, config)
    }

    fn at(path: PathBuf, config: Config) -> Result<WorkingCopy, ClientError> {
        let root = Root::open(&path).map_err(ClientError::io(format!("opening '{}'", path.display())))?;
        let db = Db::open(&path.join(OPSHIP).join("state.db"))?;
        let shared = Shared { root, db, path, config };
        Identity::check(&shared)?;
        Ok(WorkingCopy { shared: Arc::new(shared) })
    }

    /// The root folder, as it was called when the working copy was opened.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Server and workspace.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The client id under which new entries are shipped.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn client(&self) -> Result<ClientId, ClientError> {
        Identity::client(&self.shared.db.read())
    }

    /// Takes the lock, waiting for another process that has it, and finishes what a process that was killed, or met a
    /// full disk, left undone. So whoever has the lock finds folder, index and log in agreement.
    pub(crate) fn lock(&self) -> Result<Lock, ClientError> {
        let lock = self.shared.lock()?;
        let intents = intent::all(&self.shared.db.read())?;
        for (id, intent) in intents {
            tracing::info!(entry = intent.entry, "finishing an exchange that was interrupted");
            exchange::finish(&self.shared, id, &intent)?;
        }
        Ok(lock)
    }

    /// Takes the lock that allows one sync at a time; `None` if another process has it. Dropping it unlocks.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn try_lock_sync(&self) -> Result<Option<OwnedFd>, ClientError> {
        self.shared.try_lock("sync.lock")
    }

    /// Makes the folder an ordinary one again: `.opship` goes, the files stay. Unshipped entries are lost. What somebody
    /// wrote to a displaced file becomes a conflict copy first.
    ///
    /// # Errors
    /// [`ClientError::Refused`] while a program has a displaced file open for writing, or a watch runs; [`ClientError::Io`].
    pub fn leave(self) -> Result<(), ClientError> {
        let Some(_watch) = self.try_lock_watch()? else {
            return Err(ClientError::Refused("an 'opship watch' runs on this folder; end it first".to_owned()));
        };
        let _lock = self.lock()?;
        crate::release::release_all_displaced(&self.shared)?;
        self.shared.root.remove_all(OPSHIP).map_err(ClientError::io("removing '.opship'"))
    }

    /// A named value of the network half's own; names start with `net.`.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn setting(&self, name: &str) -> Result<Option<String>, ClientError> {
        Ok(db::meta(&self.shared.db.read(), name)?)
    }

    /// Sets a named value of the network half's own.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), ClientError> {
        Ok(db::set_meta(&self.shared.db.read(), name, value)?)
    }
}

/// The process that has a lock of this file, as `/proc/locks` tells: number, FLOCK, ADVISORY, WRITE, process, device:inode.
fn holder(file: &Path) -> Option<String> {
    let inode = std::fs::metadata(file).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, process, place, ..] if place.rsplit(':').next() == Some(&inode) => Some(process.to_owned()),
        _ => None,
    })
}

impl Shared {
    /// Takes a lock in `.opship` without waiting; `None` if another process has it. Dropping it unlocks.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<OwnedFd>, ClientError> {
        let path = format!("{OPSHIP}/{name}");
        let failed = format!("locking '{path}'");
        let file = self.root.open_at(&path, OFlags::RDWR | OFlags::CREATE, 0o600);
        let file = file.map_err(ClientError::io(failed.as_str()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(ClientError::io(failed)(error)),
        }
    }

    /// Takes a lock in `.opship`, waiting as the operation says. Dropping it unlocks.
    pub(crate) fn flock(&self, name: &str, operation: FlockOperation) -> Result<OwnedFd, ClientError> {
        let path = format!("{OPSHIP}/{name}");
        let lock = || -> std::io::Result<OwnedFd> {
            let file = self.root.open_at(&path, OFlags::RDWR | OFlags::CREATE, 0o600)?;
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation))?;
            Ok(file)
        };
        lock().map_err(ClientError::io(format!("locking '{path}'")))
    }

    fn lock(&self) -> Result<Lock, ClientError> {
        if let Some(lock) = self.try_lock("lock")? {
            return Ok(Lock(lock));
        }
        let (locked, is_locked) = mpsc::channel::<()>();
        let lock = self.path.join(OPSHIP).join("lock");
        thread::spawn(move || {
            if is_locked.recv_timeout(TOLD_AFTER) == Err(RecvTimeoutError::Timeout) {
                let holder = holder(&lock).map_or("another process".to_owned(), |id| format!("process {id}"));
                tracing::warn!(
                    "waiting for {holder}, which works on this folder; if it is stopped, let it go on or end it"
                );
            }
        });
        let lock = self.flock("lock", FlockOperation::LockExclusive).map(Lock);
        drop(locked);
        lock
    }
}
