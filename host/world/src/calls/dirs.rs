//! Listings, preopens and the descriptor table.

use crate::descriptors::{Handle, OpenDirectory, flags};
use crate::inode::{InodeId, ROOT};
use crate::{Errno, Trap, World, memory as guest};
use opship_record::node::Kind;

/// Size of a directory entry without its name.
const ENTRY: usize = 24;
/// What an item of a listing takes of the host's memory besides its name, about.
const ITEM: usize = 48;

impl World {
    /// `fd_readdir` of preview 1: `.` and `..`, then the names in byte order. A listing is taken when it is read from its
    /// start (cookie 0).
    pub fn fd_readdir(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        buffer: u32,
        buffer_len: u32,
        cookie: u64,
        used: u32,
    ) -> Result<(), Trap> {
        let range = guest::range(memory, buffer, buffer_len)?;
        guest::range(memory, used, 4)?;
        let (id, is_listed) = match &self.descriptors.get(fd)?.handle {
            Handle::Directory(directory) => (directory.inode, directory.listing.is_some()),
            _ => return Err(Errno::Badf.into()),
        };
        if cookie == 0 || !is_listed {
            let listing = self.listing(id)?;
            let bytes = listing.iter().map(|(name, _, _)| (ITEM + name.len()) as u64).sum();
            if let Handle::Directory(directory) = &mut self.descriptors.get_mut(fd)?.handle {
                directory.listing = Some(listing);
                let before = std::mem::replace(&mut directory.listing_bytes, bytes);
                self.tree.store.let_go(before);
                self.tree.store.hold(bytes);
                self.tree.store.check_held()?;
            }
        }
        let listing = self.descriptors.directory(fd)?.listing.as_deref().unwrap_or_default();
        let start = usize::try_from(cookie).unwrap_or(usize::MAX);
        let filled = put_entries(&mut memory[range], listing, start);
        Ok(guest::write_u32(memory, used, u32::try_from(filled).map_err(|_| Errno::Overflow)?)?)
    }

    fn listing(&mut self, id: InodeId) -> Result<Vec<(String, u8, u64)>, Trap> {
        let parent = if id == ROOT { ROOT } else { self.tree.inode(id).directory().map_or(ROOT, |d| d.parent) };
        let mut listing = vec![
            (".".to_owned(), flags::TYPE_DIRECTORY, self.tree.number(id)),
            ("..".to_owned(), flags::TYPE_DIRECTORY, self.tree.number(parent)),
        ];
        let names = self.tree.list(id)?;
        listing.extend(names.into_iter().map(|(name, kind, number)| (name, file_type(kind), number)));
        Ok(listing)
    }

    /// `fd_prestat_get` of preview 1.
    pub fn fd_prestat_get(&mut self, memory: &mut [u8], fd: u32, out: u32) -> Result<(), Trap> {
        let length = u32::try_from(self.preopen_name(fd)?.len()).map_err(|_| Errno::Overflow)?;
        guest::write_u32(memory, out, 0)?;
        Ok(guest::write_u32(memory, guest::at(out, 4)?, length)?)
    }

    /// `fd_prestat_dir_name` of preview 1.
    pub fn fd_prestat_dir_name(&mut self, memory: &mut [u8], fd: u32, path: u32, path_len: u32) -> Result<(), Trap> {
        let name = self.preopen_name(fd)?;
        if (path_len as usize) < name.len() {
            return Err(Errno::Nametoolong.into());
        }
        Ok(guest::write(memory, path, name.as_bytes())?)
    }

    fn preopen_name(&self, fd: u32) -> Result<&str, Trap> {
        match &self.descriptors.get(fd)?.handle {
            Handle::Directory(OpenDirectory { preopen: Some(name), .. }) => Ok(name),
            _ => Err(Errno::Badf.into()),
        }
    }

    /// `fd_close` of preview 1.
    pub fn fd_close(&mut self, _memory: &mut [u8], fd: u32) -> Result<(), Trap> {
        let descriptor = self.descriptors.remove(fd)?;
        self.closed(&descriptor);
        Ok(())
    }

    /// `fd_renumber` of preview 1: both numbers are open; what was at `to` is closed.
    pub fn fd_renumber(&mut self, _memory: &mut [u8], from: u32, to: u32) -> Result<(), Trap> {
        if let Some(descriptor) = self.descriptors.renumber(from, to)? {
            self.closed(&descriptor);
        }
        Ok(())
    }

    /// `fd_fdstat_get` of preview 1.
    pub fn fd_fdstat_get(&mut self, memory: &mut [u8], fd: u32, out: u32) -> Result<(), Trap> {
        let descriptor = self.descriptors.get(fd)?;
        let (base, inheriting) = descriptor.rights();
        let mut stat = [0; 24];
        stat[0] = descriptor.file_type();
        stat[2..4].copy_from_slice(&descriptor.flags.to_le_bytes());
        stat[8..16].copy_from_slice(&base.to_le_bytes());
        stat[16..24].copy_from_slice(&inheriting.to_le_bytes());
        Ok(guest::write(memory, out, &stat)?)
    }

    /// `fd_fdstat_set_flags` of preview 1: appending and non-blocking can be changed, as in the reference.
    pub fn fd_fdstat_set_flags(&mut self, _memory: &mut [u8], fd: u32, new: u32) -> Result<(), Trap> {
        let settable = flags::FD_APPEND | flags::FD_NONBLOCK;
        let descriptor = self.descriptors.get_mut(fd)?;
        let new = u16::try_from(new).ok().filter(|new| new & !settable == 0).ok_or(Errno::Inval)?;
        match descriptor.handle {
            Handle::Directory(_) => Err(Errno::Badf.into()),
            Handle::File(_) | Handle::Input { .. } | Handle::Output(_) => {
                descriptor.flags = descriptor.flags & !settable | new;
                Ok(())
            }
        }
    }

    /// `fd_fdstat_set_rights` of preview 1, which the reference does not support either.
    pub fn fd_fdstat_set_rights(&mut self, _memory: &mut [u8], fd: u32, _base: u64, _inh: u64) -> Result<(), Trap> {
        self.descriptors.get(fd)?;
        Err(Errno::Notsup.into())
    }
}

/// Writes entries from `start` on, the last one cut where the buffer ends; says how many bytes.
fn put_entries(buffer: &mut [u8], listing: &[(String, u8, u64)], start: usize) -> usize {
    let mut filled = 0;
    for (index, (name, kind, number)) in listing.iter().enumerate().skip(start) {
        let mut entry = Vec::with_capacity(ENTRY + name.len());
        entry.extend_from_slice(&(index as u64 + 1).to_le_bytes());
        entry.extend_from_slice(&number.to_le_bytes());
        entry.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
        entry.extend_from_slice(&[*kind, 0, 0, 0]);
        entry.extend_from_slice(name.as_bytes());
        let count = entry.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&entry[..count]);
        filled += count;
        if count < entry.len() {
            break;
        }
    }
    filled
}

/// The file type of preview 1.
pub(crate) fn file_type(kind: Kind) -> u8 {
    match kind {
        Kind::File => flags::TYPE_FILE,
        Kind::Directory => flags::TYPE_DIRECTORY,
        Kind::Symlink => flags::TYPE_SYMLINK,
    }
}
