//! Where opship's own files are, in a working copy and for a user.

use crate::ClientError;
use crate::choice::Ship;
use crate::fs::OPSHIP;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a working copy is a copy of (`.opship/config.toml`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The server's address, `http://host:port`.
    pub server: String,
    /// The workspace's name.
    pub workspace: String,
    /// Which operations of others a pull may replay here instead of downloading what they made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replay_on_pull: ReplayOnPull,
    /// How operations are shipped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ship: Ship,
}

fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// Which operations of others a pull may replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayOnPull {
    /// Those whose modules this build carries or this working copy has pinned.
    #[default]
    Standard,
    /// All whose modules are here.
    All,
    /// None.
    Never,
}

impl Config {
    /// Reads the configuration of the working copy at `root`.
    pub(crate) fn read(root: &Path) -> Result<Config, ClientError> {
        let file = root.join(OPSHIP).join("config.toml");
        let text = std::fs::read_to_string(&file).map_err(ClientError::io(format!("reading '{}'", file.display())))?;
        toml::from_str(&text).map_err(|error| ClientError::Damaged { file, detail: error.to_string() })
    }

    /// Writes it: a new file in the place of the old one.
    pub(crate) fn write(&self, root: &Path) -> Result<(), ClientError> {
        let file = root.join(OPSHIP).join("config.toml");
        let text = toml::to_string(self)
            .map_err(|error| ClientError::Damaged { file: file.clone(), detail: error.to_string() })?;
        replace_file(&file, text.as_bytes())
    }
}

/// The working copy that `start` is in: the nearest folder at or above it that holds `.opship`.
///
/// # Errors
/// [`ClientError::NoWorkingCopy`].
pub fn find_root(start: &Path) -> Result<PathBuf, ClientError> {
    let start = std::path::absolute(start).map_err(ClientError::io(format!("finding '{}'", start.display())))?;
    let found = start.ancestors().find(|folder| folder.join(OPSHIP).join("state.db").is_file());
    found.map(Path::to_path_buf).ok_or(ClientError::NoWorkingCopy(start))
}

/// Makes a folder, and those above it, that only the user can enter; one that is there is fine.
pub(crate) fn make_private(folder: &Path) -> Result<(), ClientError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(ClientError::io(format!("making the folder '{}'", folder.display())))
}

/// Makes a folder directly in one of opship's own, as [`make_private`]. That one must be there: a working copy that was removed
/// meanwhile is not to come back.
pub(crate) fn make_inside(own: &Path, name: &str) -> Result<PathBuf, ClientError> {
    let folder = own.join(name);
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(ClientError::io(format!("making the folder '{}'", folder.display()))(error))
        }
        _ => Ok(folder),
    }
}

/// Puts a file with these bytes, durable and mode 0600, in the place of whatever was there.
pub(crate) fn replace_file(file: &Path, bytes: &[u8]) -> Result<(), ClientError> {
    let write = || {
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        new.write_all(bytes)?;
        new.as_file().sync_all()?;
        new.persist(file).map_err(|error| error.error)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().map_err(ClientError::io(format!("writing '{}'", file.display())))
}

/// The folder of the user that all working copies share: compiled modules.
#[derive(Debug, Clone)]
pub struct UserCache(PathBuf);

impl UserCache {
    /// A cache at `root`.
    pub fn new(root: PathBuf) -> UserCache {
        UserCache(root)
    }

    /// `$XDG_CACHE_HOME/opship`, or `~/.cache/opship`; the caller reads the environment. `None` without both.
    pub fn of_user(xdg_cache_home: Option<OsString>, home: Option<OsString>) -> Option<UserCache> {
        let xdg = xdg_cache_home.map(PathBuf::from).filter(|path| path.is_absolute());
        let base = xdg.or_else(|| home.filter(|h| !h.is_empty()).map(|home| PathBuf::from(home).join(".cache")))?;
        Some(UserCache(base.join("opship")))
    }

    /// Where the engine keeps compiled modules.
    pub fn compiled(&self) -> PathBuf {
        self.0.join("compiled")
    }
}

/// Makes the empty files of a new working copy.
pub(crate) fn make_folders(root: &Path) -> Result<(), ClientError> {
    let opship = root.join(OPSHIP);
    for folder in [opship.clone(), opship.join("kept"), opship.join("staging")] {
        make_private(&folder)?;
    }
    for name in ["lock", "sync.lock", "identity"] {
        let file = opship.join(name);
        let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
        made.map_err(ClientError::io(format!("making '{}'", file.display())))?;
    }
    Ok(())
}
