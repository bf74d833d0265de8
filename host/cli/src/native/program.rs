//! Where programs and shims are.

use rustix::fs::Access;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a search looks past, so that a shim never finds itself or another shim.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The user's folder of shims, if the user has a home.
    pub(crate) shims: Option<PathBuf>,
    /// Device and inode of this program.
    own: Option<(u64, u64)>,
}

impl Place {
    /// Of this process's user.
    pub(crate) fn of_user() -> Place {
        let from = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        let data = from("XDG_DATA_HOME").or_else(|| Some(from("HOME")?.join(".local/share")));
        let own = std::fs::metadata("/proc/self/exe").ok().map(|found| (found.dev(), found.ino()));
        Place { shims: data.map(|data| data.join("opship/shims")), own }
    }

    fn is_shims(&self, folder: &Path) -> bool {
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        self.shims
            .as_deref()
            .is_some_and(|shims| shims == folder || identity(shims).is_some_and(|i| identity(folder) == Some(i)))
    }

    fn is_own(&self, file: &Path) -> bool {
        let Ok(found) = std::fs::metadata(file) else { return false };
        self.own == Some((found.dev(), found.ino()))
    }
}

/// A program: an absolute path, or a name, looked up in `PATH` past all shims.
pub(crate) fn find(program: &Path, place: &Place) -> Option<PathBuf> {
    if program.is_absolute() {
        return is_program(program, place).then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let folders = std::env::split_paths(&path).filter(|folder| !place.is_shims(folder));
    // An empty entry is the current folder, as everywhere.
    let files =
        folders.map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }.join(program));
    files.into_iter().find(|file| is_program(file, place))
}

fn is_program(file: &Path, place: &Place) -> bool {
    file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok() && !place.is_own(file)
}

/// May a shim be called so? Not as opship itself, whose links are commands.
pub(crate) fn is_shim_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with(['-', '.']) && !name.starts_with("opship")
}
