//! Open descriptors.

use crate::inode::InodeId;
use crate::{Errno, FileContent, Trap, limits};
use std::sync::Arc;

/// Rights, flags and the like of preview 1, by their numbers in its witx.
pub(crate) mod flags {
    pub(crate) const RIGHT_FD_READ: u64 = 1 << 1;
    pub(crate) const RIGHT_FD_SEEK: u64 = 1 << 2;
    pub(crate) const RIGHT_FD_TELL: u64 = 1 << 5;
    pub(crate) const RIGHT_FD_WRITE: u64 = 1 << 6;
    pub(crate) const RIGHT_FD_ALLOCATE: u64 = 1 << 8;
    pub(crate) const RIGHT_PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    pub(crate) const RIGHT_FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    pub(crate) const ALL_RIGHTS: u64 = (1 << 30) - 1;
    /// Rights that concern paths below a directory, and sockets.
    pub(crate) const DIRECTORY_RIGHTS: u64 = 0x371f_fe00;

    pub(crate) const FD_APPEND: u16 = 1;
    pub(crate) const FD_NONBLOCK: u16 = 4;
    pub(crate) const FD_KNOWN: u16 = 31;

    pub(crate) const O_CREAT: u32 = 1;
    pub(crate) const O_DIRECTORY: u32 = 2;
    pub(crate) const O_EXCL: u32 = 4;
    pub(crate) const O_TRUNC: u32 = 8;
    pub(crate) const O_KNOWN: u32 = 15;

    pub(crate) const SYMLINK_FOLLOW: u32 = 1;

    pub(crate) const SET_ATIME: u32 = 1;
    pub(crate) const SET_ATIME_NOW: u32 = 2;
    pub(crate) const SET_MTIME: u32 = 4;
    pub(crate) const SET_MTIME_NOW: u32 = 8;

    pub(crate) const TYPE_UNKNOWN: u8 = 0;
    pub(crate) const TYPE_DIRECTORY: u8 = 3;
    pub(crate) const TYPE_FILE: u8 = 4;
    pub(crate) const TYPE_SYMLINK: u8 = 7;
}

pub(crate) struct Descriptor {
    pub(crate) handle: Handle,
    /// `fdflags` of preview 1.
    pub(crate) flags: u16,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

pub(crate) enum Handle {
    /// Standard input: read in order, no seeking.
    Input {
        from: Input,
        position: u64,
    },
    /// Standard output or standard error: written in order, no seeking.
    Output(Output),
    File(OpenFile),
    Directory(OpenDirectory),
}

pub(crate) enum Input {
    Empty,
    Content(Arc<dyn FileContent>),
    /// A file that an earlier step wrote.
    File(InodeId),
    /// Standard output of an earlier step.
    Stream(usize),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    Stdout,
    Stderr,
    File { inode: InodeId, position: u64 },
}

pub(crate) struct OpenFile {
    pub(crate) inode: InodeId,
    pub(crate) position: u64,
    pub(crate) ahead: ReadAhead,
}

/// The bytes around the last small read of a source's content, so that byte-wise readers do not ask the source each time.
#[derive(Default)]
pub(crate) struct ReadAhead {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct OpenDirectory {
    pub(crate) inode: InodeId,
    /// The name of a preopened directory.
    pub(crate) preopen: Option<String>,
    /// May `..` go up to the root from here? So it is for the current directory, whose paths mean what they mean to a
    /// shell; every other descriptor is a boundary as preview 1 wants it.
    pub(crate) is_current: bool,
    /// The listing that `fd_readdir` goes through: name, file type, inode number. Cookies count its entries, so that
    /// they stay valid whatever is made or removed meanwhile.
    pub(crate) listing: Option<Vec<(String, u8, u64)>>,
    /// Bytes of the host's memory that the listing takes, about.
    pub(crate) listing_bytes: u64,
}

impl Descriptor {
    pub(crate) fn inode(&self) -> Option<InodeId> {
        match &self.handle {
            Handle::File(file) => Some(file.inode),
            Handle::Directory(directory) => Some(directory.inode),
            Handle::Output(Output::File { inode, .. }) | Handle::Input { from: Input::File(inode), .. } => Some(*inode),
            Handle::Input { .. } | Handle::Output(_) => None,
        }
    }

    pub(crate) fn file_type(&self) -> u8 {
        match self.handle {
            Handle::Input { .. } | Handle::Output(_) => flags::TYPE_UNKNOWN,
            Handle::File(_) => flags::TYPE_FILE,
            Handle::Directory(_) => flags::TYPE_DIRECTORY,
        }
    }

    /// Base and inheriting rights, as the reference shows them: all that make sense for the kind, less reading or
    /// writing where it was not asked for.
    pub(crate) fn rights(&self) -> (u64, u64) {
        let file = flags::ALL_RIGHTS & !flags::DIRECTORY_RIGHTS;
        match self.handle {
            Handle::Directory(_) => {
                let not_here = flags::RIGHT_FD_SEEK
                    | flags::RIGHT_FD_TELL
                    | flags::RIGHT_FD_ALLOCATE
                    | flags::RIGHT_FD_WRITE
                    | flags::RIGHT_FD_READ
                    | flags::RIGHT_FD_FILESTAT_SET_SIZE
                    | flags::RIGHT_PATH_FILESTAT_SET_SIZE;
                (flags::ALL_RIGHTS & !not_here, flags::ALL_RIGHTS)
            }
            Handle::File(_) => (self.masked(file), 0),
            Handle::Input { .. } | Handle::Output(_) => {
                (self.masked(file) & !(flags::RIGHT_FD_SEEK | flags::RIGHT_FD_TELL), 0)
            }
        }
    }

    fn masked(&self, rights: u64) -> u64 {
        let read = if self.read { 0 } else { flags::RIGHT_FD_READ };
        let write = if self.write {
            0
        } else {
            flags::RIGHT_FD_WRITE | flags::RIGHT_FD_ALLOCATE | flags::RIGHT_FD_FILESTAT_SET_SIZE
        };
        rights & !read & !write
    }
}

/// The table; a new descriptor gets the lowest free number.
#[derive(Default)]
pub(crate) struct Descriptors(Vec<Option<Descriptor>>);

impl Descriptors {
    pub(crate) fn get(&self, fd: u32) -> Result<&Descriptor, Trap> {
        self.0.get(fd as usize).and_then(Option::as_ref).ok_or(Errno::Badf.into())
    }

    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor, Trap> {
        self.0.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::Badf.into())
    }

    pub(crate) fn directory(&self, fd: u32) -> Result<&OpenDirectory, Trap> {
        match &self.get(fd)?.handle {
            Handle::Directory(directory) => Ok(directory),
            Handle::File(_) => Err(Errno::Notdir.into()),
            Handle::Input { .. } | Handle::Output(_) => Err(Errno::Badf.into()),
        }
    }

    /// A file's inode, for calls that make sense for files only.
    pub(crate) fn file_mut(&mut self, fd: u32) -> Result<&mut OpenFile, Trap> {
        match &mut self.get_mut(fd)?.handle {
            Handle::File(file) => Ok(file),
            Handle::Directory(_) => Err(Errno::Badf.into()),
            Handle::Input { .. } | Handle::Output(_) => Err(Errno::Spipe.into()),
        }
    }

    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> Result<u32, Trap> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free >= limits::DESCRIPTORS {
            return Err(Errno::Mfile.into());
        }
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(descriptor);
        u32::try_from(free).map_err(|_| Errno::Mfile.into())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.iter().flatten().count() >= limits::DESCRIPTORS
    }

    pub(crate) fn remove(&mut self, fd: u32) -> Result<Descriptor, Trap> {
        self.0.get_mut(fd as usize).and_then(Option::take).ok_or(Errno::Badf.into())
    }

    /// Moves a descriptor to another open number and gives what was open there.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Descriptor>, Trap> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.0.get_mut(to as usize).and_then(|slot| slot.replace(moved)))
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Descriptor> {
        std::mem::take(&mut self.0).into_iter().flatten()
    }
}
