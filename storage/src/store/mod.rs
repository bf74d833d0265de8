//! The store: opening it, and the calls, one file for each of their subjects.

mod access;
mod blobs;
mod clients;
mod entries;
mod invites;
mod modules;
mod settings;
mod versions;

pub use versions::OnDifference;

use crate::blobs::BlobFiles;
use crate::data_dir::DataDir;
use crate::in_use::InUse;
use crate::packs::Packs;
use crate::sqlite::{self, Database};
use crate::visible::VisibleChunks;
use crate::{Staging, StorageError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

type Result<T> = std::result::Result<T, StorageError>;

/// Metadata and blobs in one data directory. Cloning gives another handle of the same store; it is closed, after what
/// is queued has been done, when the last handle (also in a [`crate::TreeView`]) is dropped.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

/// What the handles share. Dropped in this order: the lock goes last.
pub(crate) struct Inner {
    pub(crate) database: Database,
    /// Held by whoever collects or checks.
    pub(crate) upkeep: Mutex<()>,
    pub(crate) packs: Arc<Packs>,
    pub(crate) in_use: Arc<InUse>,
    pub(crate) visible: VisibleChunks,
    pub(crate) files: BlobFiles,
    ended: watch::Sender<i64>,
    staging: Staging,
    pub(crate) data: DataDir,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.0.data.path().display())
    }
}

impl Store {
    /// Opens the data directory, made (mode 0700, with an administrator's token) where it is missing. Blocks.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another server uses it, [`StorageError::Newer`] if a newer opship has written it,
    /// [`StorageError::Damaged`], [`StorageError::DiskFull`], [`StorageError::Io`].
    pub fn open(data: &Path) -> Result<Store> {
        open(data).map_err(|error| error.classify(data))
    }

    /// Where the administrator's token is: one line, readable by the user of the server only.
    pub fn admin_token_file(&self) -> PathBuf {
        self.0.data.admin_token_file()
    }

    /// Where replays put large outputs.
    pub fn staging(&self) -> Staging {
        self.0.staging.clone()
    }

    /// Tells whenever an entry of any workspace has ended: the id of the one that ended last. What it was,
    /// [`Store::events`] says to whom may know.
    pub fn watch(&self) -> watch::Receiver<i64> {
        self.0.ended.subscribe()
    }
}

fn open(data: &Path) -> Result<Store> {
    let data = DataDir::open(data)?;
    let database = Database::open(&data.database(), data.path())?;
    let token = access::token_hash(&data.admin_token()?);
    if !database.read(|connection| sqlite::access::has_admin_token(connection, &token))? {
        database.write(move |connection| sqlite::access::set_admin_token(connection, &token))?;
    }
    if database.read(sqlite::upkeep::is_collecting)? {
        // Whoever collected was killed.
        database.write(sqlite::upkeep::end_collecting)?;
    }
    let last = database.read(sqlite::entries::last_id)?;
    let packs = Arc::new(Packs::open(data.path(), &database.read(sqlite::chunks::packs)?));
    let files = BlobFiles::new(data.path());
    let staging = Staging::new(data.staging());
    data.set_reserve();
    Ok(Store(Arc::new(Inner {
        database,
        upkeep: Mutex::default(),
        packs,
        in_use: Arc::default(),
        visible: VisibleChunks::default(),
        files,
        ended: watch::Sender::new(last),
        staging,
        data,
    })))
}
