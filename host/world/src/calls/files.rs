//! Reading, writing and seeking.

use crate::descriptors::{Handle, Input, OpenFile, Output, flags};
use crate::inode::{FileNode, InodeId, Node, Realm};
use crate::tree::check_length;
use crate::{Errno, Trap, World, memory as guest};

/// Reads of fewer bytes than this go through the read-ahead buffer.
const SMALL_READ: usize = 16 << 10;
/// Size of the read-ahead buffer.
const AHEAD: usize = 64 << 10;

impl World {
    /// `fd_read` of preview 1.
    pub fn fd_read(&mut self, memory: &mut [u8], fd: u32, iovs: u32, iovs_len: u32, nread: u32) -> Result<(), Trap> {
        let buffers = guest::buffers(memory, iovs, iovs_len)?;
        self.readable(fd)?;
        self.prepare_read(fd)?;
        let mut total = 0;
        for buffer in buffers {
            let wanted = buffer.len();
            let count = self.read_next(fd, &mut memory[buffer])?;
            total += count;
            if count < wanted {
                break;
            }
        }
        put_count(memory, nread, total)
    }

    /// `fd_pread` of preview 1.
    pub fn fd_pread(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        iovs: u32,
        iovs_len: u32,
        offset: u64,
        nread: u32,
    ) -> Result<(), Trap> {
        let buffers = guest::buffers(memory, iovs, iovs_len)?;
        self.readable(fd)?;
        let id = self.descriptors.file_mut(fd)?.inode;
        self.tree.observe_content(id)?;
        let mut total = 0;
        for buffer in buffers {
            let wanted = buffer.len();
            let Some(at) = offset.checked_add(total as u64) else { break };
            let count = self.read_file(id, at, &mut memory[buffer])?;
            total += count;
            if count < wanted {
                break;
            }
        }
        put_count(memory, nread, total)
    }

    fn readable(&self, fd: u32) -> Result<(), Trap> {
        let descriptor = self.descriptors.get(fd)?;
        if !descriptor.read || matches!(descriptor.handle, Handle::Directory(_)) {
            return Err(Errno::Badf.into());
        }
        Ok(())
    }

    fn prepare_read(&mut self, fd: u32) -> Result<(), Trap> {
        if let Handle::File(OpenFile { inode, .. }) = &self.descriptors.get(fd)?.handle {
            self.tree.observe_content(*inode)?;
        }
        Ok(())
    }

    /// Reads on from the descriptor's position.
    fn read_next(&mut self, fd: u32, buffer: &mut [u8]) -> Result<usize, Trap> {
        let World { descriptors, tree, streams, .. } = self;
        let (position, count) = match &mut descriptors.get_mut(fd)?.handle {
            Handle::File(open) => {
                let Some(file) = tree.inode(open.inode).file() else { return Err(Errno::Badf.into()) };
                let count = read_on(file, open, buffer)?;
                (&mut open.position, count)
            }
            Handle::Input { from, position } => {
                let count = match from {
                    Input::Empty => 0,
                    Input::Content(content) => content.read_at(*position, buffer)?,
                    Input::Stream(step) => match streams.get(*step) {
                        Some((stdout, _)) => stdout.read_at(*position, buffer)?,
                        None => 0,
                    },
                    Input::File(id) => match tree.inode(*id).file().and_then(|file| file.produced.as_ref()) {
                        Some(body) => body.read_at(*position, buffer)?,
                        None => 0,
                    },
                };
                (position, count)
            }
            Handle::Directory(_) | Handle::Output(_) => return Err(Errno::Badf.into()),
        };
        *position += count as u64;
        Ok(count)
    }

    fn read_file(&self, id: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize, Trap> {
        match self.tree.inode(id).file() {
            Some(FileNode { produced: Some(body), .. }) => Ok(body.read_at(offset, buffer)?),
            Some(FileNode { content: Some(content), length, .. }) if offset < *length => {
                Ok(content.read_at(offset, buffer)?)
            }
            _ => Ok(0),
        }
    }

    /// `fd_write` of preview 1.
    pub fn fd_write(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        iovs: u32,
        iovs_len: u32,
        nwritten: u32,
    ) -> Result<(), Trap> {
        let buffers = guest::buffers(memory, iovs, iovs_len)?;
        guest::range(memory, nwritten, 4)?;
        self.writable(fd)?;
        let mut total = 0;
        for buffer in buffers {
            self.write_next(fd, &memory[buffer.clone()])?;
            total += buffer.len();
        }
        put_count(memory, nwritten, total)
    }

    /// `fd_pwrite` of preview 1.
    pub fn fd_pwrite(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        iovs: u32,
        iovs_len: u32,
        offset: u64,
        nwritten: u32,
    ) -> Result<(), Trap> {
        let buffers = guest::buffers(memory, iovs, iovs_len)?;
        guest::range(memory, nwritten, 4)?;
        self.writable(fd)?;
        let appends = self.descriptors.get(fd)?.flags & flags::FD_APPEND != 0;
        let id = self.descriptors.file_mut(fd)?.inode;
        let mut total = 0;
        for buffer in buffers {
            let at = if appends { self.tree.inode(id).length() } else { offset.saturating_add(total as u64) };
            self.write_file(id, at, &memory[buffer.clone()])?;
            total += buffer.len();
        }
        put_count(memory, nwritten, total)
    }

    fn writable(&self, fd: u32) -> Result<(), Trap> {
        let descriptor = self.descriptors.get(fd)?;
        if !descriptor.write || matches!(descriptor.handle, Handle::Directory(_)) {
            return Err(Errno::Badf.into());
        }
        Ok(())
    }

    /// Writes on from the descriptor's position, or at the end of a file opened for appending.
    fn write_next(&mut self, fd: u32, data: &[u8]) -> Result<(), Trap> {
        let descriptor = self.descriptors.get(fd)?;
        let appends = descriptor.flags & flags::FD_APPEND != 0;
        let (id, position) = match &descriptor.handle {
            Handle::File(file) => (file.inode, file.position),
            Handle::Output(Output::File { inode, position }) => (*inode, *position),
            Handle::Output(output) => {
                let output = *output;
                return Ok(self.append_stream(output, data)?);
            }
            Handle::Directory(_) | Handle::Input { .. } => return Err(Errno::Badf.into()),
        };
        let at = if appends { self.tree.inode(id).length() } else { position };
        self.write_file(id, at, data)?;
        let end = at + data.len() as u64;
        match &mut self.descriptors.get_mut(fd)?.handle {
            Handle::File(file) => file.position = end,
            Handle::Output(Output::File { position, .. }) => *position = end,
            _ => {}
        }
        Ok(())
    }

    fn write_file(&mut self, id: InodeId, offset: u64, data: &[u8]) -> Result<(), Trap> {
        if data.is_empty() {
            return Ok(());
        }
        check_length(offset.saturating_add(data.len() as u64))?;
        self.tree.own(id, u64::MAX)?;
        let now = self.clock.file_time();
        let tree = &mut self.tree;
        let inode = &mut tree.inodes[id];
        inode.mtime = now;
        if let Node::File(FileNode { produced: Some(body), .. }) = &mut inode.node {
            body.write_at(&mut tree.store, offset, data)?;
        }
        Ok(())
    }

    /// Empties a file, which is a write even if it was empty.
    pub(crate) fn truncate(&mut self, id: InodeId) -> Result<(), Trap> {
        if matches!(self.tree.inode(id).realm, Realm::Mount(_)) {
            return Err(Errno::Rofs.into());
        }
        self.tree.own(id, 0)?;
        self.resize(id, 0)
    }

    fn resize(&mut self, id: InodeId, length: u64) -> Result<(), Trap> {
        let now = self.clock.file_time();
        let tree = &mut self.tree;
        let inode = &mut tree.inodes[id];
        inode.mtime = now;
        if let Node::File(FileNode { produced: Some(body), .. }) = &mut inode.node {
            body.set_length(&mut tree.store, length)?;
        }
        Ok(())
    }

    /// `fd_filestat_set_size` of preview 1.
    pub fn fd_filestat_set_size(&mut self, _memory: &mut [u8], fd: u32, size: u64) -> Result<(), Trap> {
        let descriptor = self.descriptors.get(fd)?;
        let Handle::File(file) = &descriptor.handle else { return Err(Errno::Badf.into()) };
        // Not EBADF, as for writing: so ftruncate does on Linux.
        if !descriptor.write {
            return Err(Errno::Inval.into());
        }
        let id = file.inode;
        check_length(size)?;
        if size != self.tree.inode(id).length() {
            self.tree.own(id, size)?;
            self.resize(id, size)?;
        }
        Ok(())
    }

    /// `fd_allocate` of preview 1, which the reference does not support either.
    pub fn fd_allocate(&mut self, _memory: &mut [u8], fd: u32, _offset: u64, _length: u64) -> Result<(), Trap> {
        self.descriptors.file_mut(fd)?;
        Err(Errno::Notsup.into())
    }

    /// `fd_advise` of preview 1: taken and not followed.
    pub fn fd_advise(&mut self, _memory: &mut [u8], fd: u32, _offset: u64, _len: u64, advice: u32) -> Result<(), Trap> {
        self.descriptors.file_mut(fd)?;
        if advice > 5 { Err(Errno::Inval.into()) } else { Ok(()) }
    }

    /// `fd_seek` of preview 1; `offset` is signed.
    pub fn fd_seek(&mut self, memory: &mut [u8], fd: u32, offset: u64, whence: u32, out: u32) -> Result<(), Trap> {
        let file = self.descriptors.file_mut(fd)?;
        let (id, position) = (file.inode, file.position);
        let base = match whence {
            0 => 0,
            1 => position,
            2 => {
                self.tree.observe_content(id)?;
                self.tree.inode(id).length()
            }
            _ => return Err(Errno::Inval.into()),
        };
        let position = base.checked_add_signed(offset.cast_signed()).filter(|p| i64::try_from(*p).is_ok());
        let position = position.ok_or(Errno::Inval)?;
        guest::write_u64(memory, out, position)?;
        self.descriptors.file_mut(fd)?.position = position;
        Ok(())
    }

    /// `fd_tell` of preview 1.
    pub fn fd_tell(&mut self, memory: &mut [u8], fd: u32, out: u32) -> Result<(), Trap> {
        let position = self.descriptors.file_mut(fd)?.position;
        Ok(guest::write_u64(memory, out, position)?)
    }

    /// `fd_sync` of preview 1: what the run wrote is made durable after it, or not at all.
    pub fn fd_sync(&mut self, _memory: &mut [u8], fd: u32) -> Result<(), Trap> {
        match self.descriptors.get(fd)?.handle {
            Handle::File(_) | Handle::Directory(_) => Ok(()),
            Handle::Input { .. } | Handle::Output(_) => Err(Errno::Inval.into()),
        }
    }

    /// `fd_datasync` of preview 1, as [`World::fd_sync`].
    pub fn fd_datasync(&mut self, memory: &mut [u8], fd: u32) -> Result<(), Trap> {
        self.fd_sync(memory, fd)
    }
}

/// Reads at a file's position: large reads go straight into the guest's memory, small ones of a source through a buffer.
fn read_on(file: &FileNode, open: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, Trap> {
    if let Some(body) = &file.produced {
        return Ok(body.read_at(open.position, buffer)?);
    }
    let Some(content) = file.content.as_ref().filter(|_| open.position < file.length) else { return Ok(0) };
    if buffer.len() >= SMALL_READ {
        return Ok(content.read_at(open.position, buffer)?);
    }
    let (mut filled, mut position) = (0, open.position);
    while filled < buffer.len() {
        let ahead = &mut open.ahead;
        let skip = position.checked_sub(ahead.start).and_then(|skip| usize::try_from(skip).ok());
        let ready = skip.and_then(|skip| ahead.bytes.get(skip..)).unwrap_or_default();
        if ready.is_empty() {
            ahead.bytes.resize(AHEAD, 0);
            let count = content.read_at(position, &mut ahead.bytes)?;
            ahead.bytes.truncate(count);
            ahead.start = position;
            if count == 0 {
                break;
            }
            continue;
        }
        let count = ready.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&ready[..count]);
        filled += count;
        position += count as u64;
    }
    Ok(filled)
}

fn put_count(memory: &mut [u8], pointer: u32, count: usize) -> Result<(), Trap> {
    Ok(guest::write_u32(memory, pointer, u32::try_from(count).map_err(|_| Errno::Overflow)?)?)
}
