//! What stat shows and times that are set.

use super::dirs::file_type;
use crate::descriptors::{Handle, Output, flags};
use crate::inode::{Accessed, InodeId, Node, Realm};
use crate::{Errno, Trap, World, limits, memory as guest};

impl World {
    /// `fd_filestat_get` of preview 1.
    pub fn fd_filestat_get(&mut self, memory: &mut [u8], fd: u32, out: u32) -> Result<(), Trap> {
        guest::range(memory, out, 64)?;
        let descriptor = self.descriptors.get(fd)?;
        match (&descriptor.handle, descriptor.inode()) {
            (Handle::File(_) | Handle::Directory(_), Some(id)) => self.put_stat(memory, id, out),
            _ => put(memory, out, Stat { file_type: descriptor.file_type(), links: 1, ..Stat::default() }),
        }
    }

    /// `path_filestat_get` of preview 1.
    pub fn path_filestat_get(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        out: u32,
    ) -> Result<(), Trap> {
        guest::range(memory, out, 64)?;
        let path = guest::path(memory, path, path_len)?;
        let id = self.resolve_at(fd, &path, lookup & flags::SYMLINK_FOLLOW != 0)?.existing()?;
        self.put_stat(memory, id, out)
    }

    fn put_stat(&mut self, memory: &mut [u8], id: InodeId, out: u32) -> Result<(), Trap> {
        let number = self.tree.number(id);
        let inode = self.tree.inode(id);
        // Of a file that the run wrote, nothing that stat shows is the source's any more, but for a time kept from it.
        let is_own = inode.file().is_some_and(|file| file.produced.is_some());
        let is_own = is_own && !matches!(inode.accessed, Accessed::Source(_));
        // Preview 1 has no times before 1970.
        let shown = |time: i64| u64::try_from(time).unwrap_or(0);
        let (accessed, modified) = match (&inode.node, inode.accessed) {
            (Node::Directory(_), _) => (self.clock.start(), self.clock.start()),
            (_, Accessed::Modified) => (shown(inode.mtime), shown(inode.mtime)),
            (_, Accessed::Own(time) | Accessed::Source(time)) => (shown(time), shown(inode.mtime)),
        };
        let links = if inode.kind() == opship_record::node::Kind::Directory { 1 } else { u64::from(inode.names) };
        let stat = Stat { number, file_type: file_type(inode.kind()), links, size: inode.length(), accessed, modified };
        if !is_own {
            self.tree.observe_metadata(id);
        }
        put(memory, out, stat)
    }

    /// `fd_filestat_set_times` of preview 1. Access times last as long as the run.
    pub fn fd_filestat_set_times(
        &mut self,
        _memory: &mut [u8],
        fd: u32,
        atime: u64,
        mtime: u64,
        which: u32,
    ) -> Result<(), Trap> {
        let times = self.wanted_times(atime, mtime, which)?;
        let descriptor = self.descriptors.get(fd)?;
        match (&descriptor.handle, descriptor.inode()) {
            (Handle::Output(Output::Stdout | Output::Stderr) | Handle::Input { .. }, _) | (_, None) => {
                Err(Errno::Badf.into())
            }
            (_, Some(id)) => self.set_times(id, times),
        }
    }

    /// `path_filestat_set_times` of preview 1. Access times last as long as the run.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_filestat_set_times(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        atime: u64,
        mtime: u64,
        which: u32,
    ) -> Result<(), Trap> {
        let path = guest::path(memory, path, path_len)?;
        let times = self.wanted_times(atime, mtime, which)?;
        let id = self.resolve_at(fd, &path, lookup & flags::SYMLINK_FOLLOW != 0)?.existing()?;
        self.set_times(id, times)
    }

    /// The times that a call asks for.
    fn wanted_times(&self, atime: u64, mtime: u64, which: u32) -> Result<Times, Errno> {
        let both = |a, b| which & a != 0 && which & b != 0;
        if both(flags::SET_ATIME, flags::SET_ATIME_NOW) || both(flags::SET_MTIME, flags::SET_MTIME_NOW) || which > 15 {
            return Err(Errno::Inval);
        }
        let wanted = |time: u64, given: u32, now: u32| {
            let given = (which & given != 0).then(|| i64::try_from(time).unwrap_or(i64::MAX));
            given.or_else(|| (which & now != 0).then(|| self.clock.file_time()))
        };
        Ok(Times {
            accessed: wanted(atime, flags::SET_ATIME, flags::SET_ATIME_NOW),
            modified: wanted(mtime, flags::SET_MTIME, flags::SET_MTIME_NOW),
        })
    }

    /// Sets times; those of a directory are taken and forgotten.
    fn set_times(&mut self, id: InodeId, times: Times) -> Result<(), Trap> {
        let inode = self.tree.inode_mut(id);
        if matches!(inode.realm, Realm::Mount(_)) {
            return Err(Errno::Rofs.into());
        }
        let is_own =
            inode.mtime_set || inode.origin.is_none() || inode.file().is_some_and(|file| file.produced.is_some());
        if matches!(inode.node, Node::Directory(_)) {
            return Ok(());
        }
        match times.accessed {
            Some(time) => inode.accessed = Accessed::Own(time),
            None if times.modified.is_some() && inode.accessed == Accessed::Modified => {
                inode.accessed = if is_own { Accessed::Own(inode.mtime) } else { Accessed::Source(inode.mtime) };
            }
            None => {}
        }
        if let Some(time) = times.modified {
            inode.mtime = time;
            inode.mtime_set = true;
        }
        Ok(())
    }
}

/// Times to set, in nanoseconds since 1970.
struct Times {
    accessed: Option<i64>,
    modified: Option<i64>,
}

#[derive(Default)]
struct Stat {
    number: u64,
    file_type: u8,
    links: u64,
    size: u64,
    accessed: u64,
    modified: u64,
}

fn put(memory: &mut [u8], out: u32, stat: Stat) -> Result<(), Trap> {
    let mut bytes = [0; 64];
    let words = [(0, limits::DEVICE), (8, stat.number), (24, stat.links), (32, stat.size)];
    let times = [(40, stat.accessed), (48, stat.modified), (56, stat.modified)];
    for (at, word) in words.into_iter().chain(times) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[16] = stat.file_type;
    Ok(guest::write(memory, out, &bytes)?)
}
