//! File metadata and calls that `std` has on one of WASI and Unix only.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// What kind of file something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else: device, pipe, socket.
    Other,
}

impl Kind {
    /// From the type bits of `st_mode`, which are the same numbers in wasi-libc and on Linux.
    pub(crate) fn from_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::File,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// A moment since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds above the seconds, under 10^9.
    pub nanos: u32,
}

/// What `stat` tells. Permission bits are not here: preview 1 has none, [`crate::mode`] asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Kind of file.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// When the content last changed.
    pub mtime: Time,
    /// Device and inode number: equal for two names of one file.
    pub id: (u64, u64),
    /// How many names the file has.
    pub links: u64,
}

/// Metadata of what `path` names; a symbolic link is followed.
///
/// # Errors
/// As `stat(2)`.
pub fn stat(path: impl AsRef<Path>) -> io::Result<Meta> {
    imp::stat(path.as_ref(), true)
}

/// Metadata of `path` itself.
///
/// # Errors
/// As `lstat(2)`.
pub fn lstat(path: impl AsRef<Path>) -> io::Result<Meta> {
    imp::stat(path.as_ref(), false)
}

/// Metadata of an open file.
///
/// # Errors
/// As `fstat(2)`.
pub fn fstat(fd: impl AsFd) -> io::Result<Meta> {
    imp::fstat(fd.as_fd())
}

/// Makes the symbolic link `path` with the content `target`.
///
/// # Errors
/// As `symlink(2)`.
pub fn symlink(target: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<()> {
    imp::symlink(target.as_ref(), path.as_ref())
}

/// Gives the file `from` the further name `to`; a symbolic link is not followed.
///
/// # Errors
/// As `link(2)`.
pub fn hard_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    std::fs::hard_link(from, to)
}

/// Sets access and modification time of `path` itself; a symbolic link is not followed.
///
/// # Errors
/// As `utimensat(2)`.
pub fn set_mtime(path: impl AsRef<Path>, mtime: Time) -> io::Result<()> {
    imp::set_mtime(path.as_ref(), mtime)
}

/// Sets access and modification time of an open file.
///
/// # Errors
/// As `futimens(2)`.
pub fn set_fd_mtime(fd: impl AsFd, mtime: Time) -> io::Result<()> {
    imp::set_fd_mtime(fd.as_fd(), mtime)
}

#[cfg(target_os = "wasi")]
use crate::imports as imp;

/// The same on the host's own files.
#[cfg(not(target_os = "wasi"))]
mod imp {
    use super::{Kind, Meta, Time};
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, futimens, utimensat};
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    pub(super) fn stat(path: &Path, follow: bool) -> io::Result<Meta> {
        Ok(meta(&if follow { path.metadata()? } else { path.symlink_metadata()? }))
    }

    pub(super) fn fstat(fd: BorrowedFd<'_>) -> io::Result<Meta> {
        Ok(meta(&File::from(fd.try_clone_to_owned()?).metadata()?))
    }

    fn meta(meta: &Metadata) -> Meta {
        Meta {
            kind: Kind::from_mode(meta.mode()),
            len: meta.size(),
            mtime: Time { seconds: meta.mtime(), nanos: u32::try_from(meta.mtime_nsec()).unwrap_or(0) },
            id: (meta.dev(), meta.ino()),
            links: meta.nlink(),
        }
    }

    pub(super) fn symlink(target: &Path, path: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    pub(super) fn set_mtime(path: &Path, mtime: Time) -> io::Result<()> {
        Ok(utimensat(CWD, path, &timestamps(mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(super) fn set_fd_mtime(fd: BorrowedFd<'_>, mtime: Time) -> io::Result<()> {
        Ok(futimens(fd, &timestamps(mtime))?)
    }

    fn timestamps(time: Time) -> Timestamps {
        let time = Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() };
        Timestamps { last_access: time, last_modification: time }
    }
}

#[cfg(all(test, not(target_os = "wasi")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn times_links_and_kinds_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "abc").unwrap();
        let time = Time { seconds: 1_234_567_890, nanos: 987_654_321 };
        set_mtime(&path, time).unwrap();
        let second = dir.path().join("g");
        hard_link(&path, &second).unwrap();
        let meta = lstat(&path).unwrap();
        assert_eq!((meta.kind, meta.len, meta.mtime, meta.links), (Kind::File, 3, time, 2));
        assert_eq!(lstat(&second).unwrap().id, meta.id);
        assert_eq!(fstat(File::open(&second).unwrap()).unwrap(), meta);

        let link = dir.path().join("l");
        symlink("f", &link).unwrap();
        assert_eq!(lstat(&link).unwrap().kind, Kind::Symlink);
        assert_eq!(stat(&link).unwrap(), meta);
        assert_eq!(stat(dir.path()).unwrap().kind, Kind::Directory);
        set_mtime(&link, Time { seconds: 5, nanos: 0 }).unwrap();
        assert_eq!(stat(&link).unwrap().mtime, time, "the file's own time was set, not the link's");
        assert_eq!(lstat(&link).unwrap().mtime.seconds, 5);
    }
}
