//! The data directory: private, used by one server at a time.
//!
//! ```text
//! <data>/lock           held while a server runs; holds its process id
//! <data>/admin-token    the administrator's token, for clients of the same user on this machine
//! <data>/reserve        room set aside for collecting on a full disk
//! <data>/metadata.db    SQLite, with -wal and -shm beside it
//! <data>/packs/xx/…     chunks of blobs over 32 KiB
//! <data>/blobs/ab/…     blobs over 32 KiB by hash, of data directories from before there were chunks
//! <data>/staging/       outputs of runs in progress; cleared at each start
//! ```

use crate::StorageError;
use opship_record::token;
use rustix::fs::FallocateFlags;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes set aside for collecting on a full disk: what frees space writes first.
const RESERVE: u64 = 4 << 20;

/// The directory, locked as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory where it is missing, makes it private and locks it.
    pub(crate) fn open(path: &Path) -> Result<DataDir, StorageError> {
        make_dir(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(StorageError::io(format!("making {} private", path.display())))?;
        let lock = lock(path)?;
        let staging = path.join("staging");
        match fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StorageError::io(format!("clearing {}", staging.display()))(error));
            }
            _ => make_dir(&staging)?,
        }
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("metadata.db")
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.path.join("staging")
    }

    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.path.join("admin-token")
    }

    /// Sets room aside, if there is twice as much. Where the file system cannot do that, nothing is set aside.
    pub(crate) fn set_reserve(&self) {
        let path = self.path.join("reserve");
        let is_made = path.metadata().is_ok_and(|metadata| metadata.len() == RESERVE);
        let free = rustix::fs::statvfs(&self.path).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        if is_made || free < 2 * RESERVE {
            return;
        }
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let made = made.and_then(|file| Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE)?));
        if let Err(error) = made {
            tracing::debug!(%error, "no room is set aside for collecting");
            self.give_up_reserve();
        }
    }

    /// Gives up what was set aside, for whoever is about to free more.
    pub(crate) fn give_up_reserve(&self) {
        let _ = fs::remove_file(self.path.join("reserve"));
    }

    /// The administrator's token: read from its file, or made and made durable there.
    pub(crate) fn admin_token(&self) -> Result<String, StorageError> {
        let file = self.admin_token_file();
        let failed = |error| StorageError::io(format!("reading or making {}", file.display()))(error);
        match fs::read_to_string(&file) {
            Ok(text) if token::is_token(text.trim()) => Ok(text.trim().to_owned()),
            Ok(_) => {
                Err(StorageError::Damaged(format!("{} is not a token: remove it to get a new one", file.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = new_token()?;
                self.write_token(&token).map_err(failed)?;
                Ok(token)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Whole or not at all, so that a crash leaves no half a token.
    fn write_token(&self, token: &str) -> io::Result<()> {
        let new = self.path.join("admin-token.new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(file, "{token}")?;
        file.sync_all()?;
        fs::rename(&new, self.admin_token_file())?;
        sync_dir(&self.path)
    }
}

/// A token of random bits.
pub(crate) fn new_token() -> Result<String, StorageError> {
    let bytes = random::<{ token::RANDOM_BYTES }>()?;
    Ok(token::from_random(&bytes))
}

/// 160 random bits in hexadecimal digits.
pub(crate) fn new_secret() -> Result<String, StorageError> {
    Ok(random::<20>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn random<const N: usize>() -> Result<[u8; N], StorageError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| StorageError::io("getting random numbers")(io::Error::other(error.to_string())))?;
    Ok(bytes)
}

fn lock(data: &Path) -> Result<File, StorageError> {
    let path = data.join("lock");
    let failed = || StorageError::io(format!("locking {}", path.display()));
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = open.map_err(failed())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
            let pid = if pid.is_empty() { "unknown".to_owned() } else { pid };
            return Err(StorageError::Locked { data: data.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed())?;
    Ok(file)
}

/// Makes a private directory, and those above it.
pub(crate) fn make_dir(path: &Path) -> Result<(), StorageError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(StorageError::io(format!("making the directory {}", path.display())))
}

/// Makes a directory's entries durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
