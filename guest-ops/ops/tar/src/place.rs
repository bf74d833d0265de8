//! Where members go: always below the target directory, never through a symbolic link.

use opship_guest::files::{self, Kind};
use opship_ops_common::os_str;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directories that are known to be directories.
#[derive(Debug, Default)]
pub(crate) struct Places {
    known: HashSet<PathBuf>,
}

/// What becomes of directories above a member that are lacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    Made,
    /// The member is lacking too.
    AnError,
}

/// Why a member has no place.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// A component above it is a symbolic link.
    Symlink(PathBuf),
    Io(io::Error),
}

impl From<io::Error> for NoPlace {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Places {
    /// The path of a member below `base`.
    pub(crate) fn find(&mut self, base: &Path, components: &[&[u8]], lacking: Lacking) -> Result<PathBuf, NoPlace> {
        let mut path = base.to_owned();
        let Some((last, above)) = components.split_last() else {
            return Ok(if base.as_os_str().is_empty() { PathBuf::from(".") } else { path });
        };
        for component in above {
            path.push(os_str(component));
            self.directory(&path, lacking)?;
        }
        path.push(os_str(last));
        Ok(path)
    }

    fn directory(&mut self, path: &Path, lacking: Lacking) -> Result<(), NoPlace> {
        if self.known.contains(path) {
            return Ok(());
        }
        match files::lstat(path) {
            Ok(meta) => match meta.kind {
                Kind::Directory => {}
                Kind::Symlink => return Err(NoPlace::Symlink(path.to_owned())),
                _ => return Err(NoPlace::Io(io::ErrorKind::NotADirectory.into())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && lacking == Lacking::Made => fs::create_dir(path)?,
            Err(error) => return Err(error.into()),
        }
        self.known.insert(path.to_owned());
        Ok(())
    }

    /// Takes away what is at `path`, so that something else can take its place. A directory goes only
    /// if it is empty.
    pub(crate) fn clear(&mut self, path: &Path) -> io::Result<()> {
        if files::lstat(path)?.kind == Kind::Directory {
            self.known.clear();
            return fs::remove_dir(path);
        }
        fs::remove_file(path)
    }
}
