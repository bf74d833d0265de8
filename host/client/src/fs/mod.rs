//! The file system below a working copy's root.
//!
//! Invariant: every path below the root is opened by `openat2` with RESOLVE_BENEATH, without following any link,
//! relative to a descriptor of the root; so a moved folder keeps working while it is open, and nothing leads out.

mod content;
mod copy;
mod signature;

pub(crate) use content::{KeptContent, LiveContent, changed, unreadable};
pub(crate) use copy::{copy_content, copy_hashed, stream_hashed, write_new};
pub(crate) use signature::{Signature, clock_nanos, is_racy, now_nanos};

use crate::staging::STAGING;
use opship_record::node::{Kind, MODE_MASK};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// opship's own folder.
pub(crate) const OPSHIP: &str = ".opship";

/// A working copy's root folder.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    device: u64,
    /// The staging folder that was used last: its name is its own for ever, and nobody else moves it.
    staging: Mutex<Option<(String, Arc<OwnedFd>)>>,
}

/// What `lstat` says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// `None`: a kind that cannot be synced.
    pub kind: Option<Kind>,
    /// Permission bits.
    pub mode: u16,
    /// Identity, size and times.
    pub signature: Signature,
}

impl Found {
    pub(crate) fn of(stat: &Stat) -> Found {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Directory),
            FileType::Symlink => Some(Kind::Symlink),
            _ => None,
        };
        Found { kind, mode: stat.st_mode as u16 & MODE_MASK, signature: Signature::of(stat) }
    }
}

/// One name of a directory, as bytes.
pub(crate) type RawName = Vec<u8>;

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let device = rustix::fs::fstat(&directory)?.st_dev;
        Ok(Root { directory, device, staging: Mutex::default() })
    }

    /// The device that the root is on; a folder on another one is not synced, since nothing can be exchanged there.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Opens a path below the root, relative and without links in it. An empty path is the root.
    pub(crate) fn open_at(&self, path: &str, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::from_raw_mode(mode), resolve) {
                // The kernel could not rule out a race of a rename with `..`; there is no `..`, so trying again ends.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// `lstat`; `None` if nothing is there, or something above it is no directory.
    pub(crate) fn stat(&self, path: &str) -> io::Result<Option<Found>> {
        let stat = || match is_in_staging(path) {
            true => self.parent(path).and_then(|(parent, name)| stat_in(&parent, name)),
            false => Ok(Found::of(&rustix::fs::fstat(&self.open_at(path, OFlags::PATH, 0)?)?)),
        };
        match stat() {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file for reading. Never waits for a FIFO.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<File> {
        let fd = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, 0)?;
        Ok(File::from(fd))
    }

    /// Opens a directory for reading.
    pub(crate) fn open_directory(&self, path: &str) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, 0)
    }

    /// Opens the directory that holds `path`; the second is the last component.
    pub(crate) fn parent<'p>(&self, path: &'p str) -> io::Result<(Arc<OwnedFd>, &'p str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let open = || self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY, 0).map(Arc::new);
        if !is_in_staging(path) {
            return Ok((open()?, name));
        }
        let mut last = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, directory)) = last.as_ref().filter(|(known, _)| known == parent) {
            return Ok((directory.clone(), name));
        }
        let directory = open()?;
        *last = Some((parent.to_owned(), directory.clone()));
        Ok((directory, name))
    }

    /// All names in a directory, unsorted, with the kinds that the directory itself tells.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(RawName, FileType)>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.open_directory(path)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((name.to_vec(), entry.file_type()));
            }
        }
        Ok(names)
    }

    /// As [`Root::list`], the names alone, with the directory itself for [`stat_in`].
    pub(crate) fn names(&self, path: &str) -> io::Result<(OwnedFd, Vec<CString>)> {
        let directory = self.open_directory(path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        Ok((directory, names))
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, path: &str) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::readlinkat(&parent, name, Vec::new())?.into_bytes())
    }

    /// Renames; refuses to replace anything.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_with(from, to, RenameFlags::NOREPLACE)
    }

    /// Swaps two existing paths in one step.
    pub(crate) fn exchange(&self, a: &str, b: &str) -> io::Result<()> {
        self.rename_with(a, b, RenameFlags::EXCHANGE)
    }

    fn rename_with(&self, from: &str, to: &str, flags: RenameFlags) -> io::Result<()> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        Ok(rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, flags)?)
    }

    /// Removes a file or link; nothing there is fine.
    pub(crate) fn unlink(&self, path: &str) -> io::Result<()> {
        self.remove(path, AtFlags::empty())
    }

    /// Removes an empty directory; nothing there is fine.
    pub(crate) fn remove_directory(&self, path: &str) -> io::Result<()> {
        self.remove(path, AtFlags::REMOVEDIR)
    }

    fn remove(&self, path: &str, flags: AtFlags) -> io::Result<()> {
        let result = self.parent(path).and_then(|(parent, name)| Ok(rustix::fs::unlinkat(&parent, name, flags)?));
        match result {
            Err(error) if is_absent(&error) => Ok(()),
            other => other,
        }
    }

    /// Removes a path and all below it; nothing there is fine. For opship's own folder only.
    pub(crate) fn remove_all(&self, path: &str) -> io::Result<()> {
        match self.stat(path)? {
            None => Ok(()),
            Some(found) if found.kind == Some(Kind::Directory) => {
                for (name, _) in self.list(path)? {
                    let name = std::str::from_utf8(&name).map_err(|_| io::ErrorKind::InvalidData)?;
                    self.remove_all(&format!("{path}/{name}"))?;
                }
                self.remove_directory(path)
            }
            Some(_) => self.unlink(path),
        }
    }

    /// Makes a directory with these permission bits; one that is there is fine.
    pub(crate) fn make_directory(&self, path: &str, mode: u16) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(u32::from(mode))) {
            Err(Errno::EXIST) if self.stat(path)?.is_some_and(|f| f.kind == Some(Kind::Directory)) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Makes a symbolic link.
    pub(crate) fn make_link(&self, path: &str, target: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), &parent, name)?)
    }

    /// Sets permission bits of a file or directory. A link has none.
    pub(crate) fn set_mode(&self, path: &str, mode: u16) -> io::Result<()> {
        let fd = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK, 0)?;
        Ok(rustix::fs::fchmod(&fd, Mode::from_raw_mode(u32::from(mode)))?)
    }

    /// As [`Root::set_mtime`], of an open file.
    pub(crate) fn set_mtime_of(file: &File, mtime: i64) -> io::Result<()> {
        Ok(rustix::fs::futimens(file, &signature::times(mtime))?)
    }

    /// Sets the modification time, in nanoseconds since 1970, without following a link.
    pub(crate) fn set_mtime(&self, path: &str, mtime: i64) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::utimensat(&parent, name, &signature::times(mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// May files be made and removed in the directory that holds `path`?
    pub(crate) fn check_parent_writable(&self, path: &str) -> io::Result<()> {
        let (parent, _) = self.parent(path)?;
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        Ok(rustix::fs::accessat(&parent, ".", access, AtFlags::EACCESS)?)
    }

    /// Makes a directory's names durable.
    pub(crate) fn sync_directory(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.open_directory(path)?)?)
    }

    /// Makes all that was written on the root's file system durable.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.open_directory("")?)?)
    }
}

/// Is it directly in a staging folder? Not what lies deeper: that is folders on their way, which are moved out again.
fn is_in_staging(path: &str) -> bool {
    path.strip_prefix(STAGING).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest.split('/').count() == 2)
}

/// `lstat` of one name in an open directory.
pub(crate) fn stat_in(directory: &OwnedFd, name: impl rustix::path::Arg) -> io::Result<Found> {
    Ok(Found::of(&rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Nothing is there, or something above it is no directory.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    // ELOOP: a link stands above it; links are not followed, so nothing is below one.
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
