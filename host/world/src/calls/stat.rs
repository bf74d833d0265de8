//! What stat shows and times that are set.

use super::dirs::file_type;
use crate::descriptors::{Handle, Output, flags};
use crate::inode::{InodeId, Node, Realm};
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
        // Of a file that the run wrote, nothing that stat shows is the source's any more.
        let is_own = inode.file().is_some_and(|file| file.produced.is_some());
        let time = match inode.node {
            Node::Directory(_) => self.clock.start(),
            // Preview 1 has no times before 1970.
            _ => u64::try_from(inode.mtime).unwrap_or(0),
        };
        let links = if inode.kind() == opship_record::node::Kind::Directory { 1 } else { u64::from(inode.names) };
        let stat = Stat { number, file_type: file_type(inode.kind()), links, size: inode.length(), time };
        if !is_own {
            self.tree.observe_metadata(id);
        }
        put(memory, out, stat)
    }

    /// `fd_filestat_set_times` of preview 1. Access times are not kept.
    pub fn fd_filestat_set_times(
        &mut self,
        _memory: &mut [u8],
        fd: u32,
        _atime: u64,
        mtime: u64,
        which: u32,
    ) -> Result<(), Trap> {
        let time = self.wanted_time(mtime, which)?;
        let descriptor = self.descriptors.get(fd)?;
        match (&descriptor.handle, descriptor.inode()) {
            (Handle::Output(Output::Stdout | Output::Stderr) | Handle::Input { .. }, _) | (_, None) => {
                Err(Errno::Badf.into())
            }
            (_, Some(id)) => self.set_time(id, time),
        }
    }

    /// `path_filestat_set_times` of preview 1. Access times are not kept.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_filestat_set_times(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        _atime: u64,
        mtime: u64,
        which: u32,
    ) -> Result<(), Trap> {
        let path = guest::path(memory, path, path_len)?;
        let time = self.wanted_time(mtime, which)?;
        let id = self.resolve_at(fd, &path, lookup & flags::SYMLINK_FOLLOW != 0)?.existing()?;
        self.set_time(id, time)
    }

    /// The modification time that a call asks for, if it asks for one.
    fn wanted_time(&self, mtime: u64, which: u32) -> Result<Option<i64>, Errno> {
        let both = |a, b| which & a != 0 && which & b != 0;
        if both(flags::SET_ATIME, flags::SET_ATIME_NOW) || both(flags::SET_MTIME, flags::SET_MTIME_NOW) || which > 15 {
            return Err(Errno::Inval);
        }
        if which & flags::SET_MTIME != 0 {
            return Ok(Some(i64::try_from(mtime).unwrap_or(i64::MAX)));
        }
        Ok((which & flags::SET_MTIME_NOW != 0).then(|| self.clock.file_time()))
    }

    /// Sets a modification time; that of a directory is taken and forgotten.
    fn set_time(&mut self, id: InodeId, time: Option<i64>) -> Result<(), Trap> {
        let inode = self.tree.inode_mut(id);
        if matches!(inode.realm, Realm::Mount(_)) {
            return Err(Errno::Rofs.into());
        }
        if let (Some(time), Node::File(_) | Node::Symlink(_)) = (time, &inode.node) {
            inode.mtime = time;
            inode.mtime_set = true;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Stat {
    number: u64,
    file_type: u8,
    links: u64,
    size: u64,
    time: u64,
}

fn put(memory: &mut [u8], out: u32, stat: Stat) -> Result<(), Trap> {
    let mut bytes = [0; 64];
    let words = [(0, limits::DEVICE), (8, stat.number), (24, stat.links), (32, stat.size)];
    let times = [40, 48, 56].map(|at| (at, stat.time));
    for (at, word) in words.into_iter().chain(times) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[16] = stat.file_type;
    Ok(guest::write(memory, out, &bytes)?)
}
