//! Permission bits, by path and by descriptor.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// The bits that a mode may hold: permissions, set-user-id, set-group-id, sticky.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// The permission bits of what `path` names; a symbolic link is followed.
///
/// # Errors
/// What the world answers: the path does not exist, leaves the tree, is too long.
pub fn mode(path: impl AsRef<Path>) -> io::Result<u32> {
    imp::path_mode_get(path.as_ref(), true)
}

/// The permission bits of `path` itself, also where it is a symbolic link.
///
/// # Errors
/// As for [`mode`].
pub fn symlink_mode(path: impl AsRef<Path>) -> io::Result<u32> {
    imp::path_mode_get(path.as_ref(), false)
}

/// Sets the permission bits of what `path` names; a symbolic link is followed. Other bits than
/// `0o7777` are ignored.
///
/// # Errors
/// As for [`mode`]; also when the path may not be changed (a read-only mount).
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    imp::path_mode_set(path.as_ref(), true, mode & MODE_BITS)
}

/// The permission bits of an open file or directory.
///
/// # Errors
/// The descriptor has no file behind it.
pub fn fd_mode(fd: impl AsFd) -> io::Result<u32> {
    imp::fd_mode_get(fd.as_fd())
}

/// Sets the permission bits of an open file or directory. Other bits than `0o7777` are ignored.
///
/// # Errors
/// The descriptor has no file behind it, or it may not be changed.
pub fn set_fd_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    imp::fd_mode_set(fd.as_fd(), mode & MODE_BITS)
}

#[cfg(target_os = "wasi")]
use crate::imports as imp;

/// The same on the host's own files.
#[cfg(not(target_os = "wasi"))]
mod imp {
    use super::MODE_BITS;
    use std::fs::{self, File, Permissions};
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    pub(super) fn path_mode_get(path: &Path, follow: bool) -> io::Result<u32> {
        let meta = if follow { fs::metadata(path)? } else { fs::symlink_metadata(path)? };
        Ok(meta.permissions().mode() & MODE_BITS)
    }

    pub(super) fn path_mode_set(path: &Path, _follow: bool, mode: u32) -> io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    pub(super) fn fd_mode_get(fd: BorrowedFd<'_>) -> io::Result<u32> {
        let file = File::from(fd.try_clone_to_owned()?);
        Ok(file.metadata()?.permissions().mode() & MODE_BITS)
    }

    pub(super) fn fd_mode_set(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        let file = File::from(fd.try_clone_to_owned()?);
        file.set_permissions(Permissions::from_mode(mode))
    }
}

#[cfg(all(test, not(target_os = "wasi")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_mode_set_by_path_is_read_back_by_path_and_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = File::create(&path).unwrap();
        set_mode(&path, 0o4751).unwrap();
        assert_eq!(mode(&path).unwrap(), 0o4751);
        assert_eq!(fd_mode(&file).unwrap(), 0o4751);
        set_fd_mode(&file, 0o100640).unwrap();
        assert_eq!(mode(&path).unwrap(), 0o640);
    }

    #[test]
    fn a_link_is_followed_unless_asked_for_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        File::create(&path).unwrap();
        set_mode(&path, 0o600).unwrap();
        let link = dir.path().join("l");
        symlink("f", &link).unwrap();
        assert_eq!(mode(&link).unwrap(), 0o600);
        assert_eq!(symlink_mode(&link).unwrap(), 0o777);
    }

    #[test]
    fn what_does_not_exist_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        assert_eq!(mode(&gone).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(set_mode(&gone, 0o600).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
