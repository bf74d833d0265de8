//! Permission bits, which preview 1 lacks.

use crate::descriptors::{Handle, flags};
use crate::inode::{InodeId, Node, ROOT, Realm};
use crate::{Errno, Trap, World, memory as guest};
use opship_record::node::MODE_MASK;

impl World {
    /// `path_mode_get` of `opship_1`: the permission bits of a path, as a 32-bit number.
    pub fn path_mode_get(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        out: u32,
    ) -> Result<(), Trap> {
        guest::range(memory, out, 4)?;
        let path = guest::path(memory, path, path_len)?;
        let id = self.resolve_at(fd, &path, lookup & flags::SYMLINK_FOLLOW != 0)?.existing()?;
        self.put_mode(memory, id, out)
    }

    /// `path_mode_set` of `opship_1`: sets the permission bits of a path.
    pub fn path_mode_set(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        mode: u32,
    ) -> Result<(), Trap> {
        let path = guest::path(memory, path, path_len)?;
        let id = self.resolve_at(fd, &path, lookup & flags::SYMLINK_FOLLOW != 0)?.existing()?;
        self.set_mode(id, mode)
    }

    /// `fd_mode_get` of `opship_1`: the permission bits of an open file or directory.
    pub fn fd_mode_get(&mut self, memory: &mut [u8], fd: u32, out: u32) -> Result<(), Trap> {
        guest::range(memory, out, 4)?;
        let id = self.mode_holder(fd)?;
        self.put_mode(memory, id, out)
    }

    /// `fd_mode_set` of `opship_1`: sets the permission bits of an open file or directory.
    pub fn fd_mode_set(&mut self, _memory: &mut [u8], fd: u32, mode: u32) -> Result<(), Trap> {
        let id = self.mode_holder(fd)?;
        self.set_mode(id, mode)
    }

    fn mode_holder(&self, fd: u32) -> Result<InodeId, Trap> {
        match &self.descriptors.get(fd)?.handle {
            Handle::File(file) => Ok(file.inode),
            Handle::Directory(directory) => Ok(directory.inode),
            Handle::Input { .. } | Handle::Output(_) => Err(Errno::Inval.into()),
        }
    }

    fn put_mode(&mut self, memory: &mut [u8], id: InodeId, out: u32) -> Result<(), Trap> {
        let inode = self.tree.inode(id);
        let (mode, is_own) = (inode.mode, inode.mode_set);
        if !is_own {
            self.tree.observe_metadata(id);
        }
        Ok(guest::write_u32(memory, out, u32::from(mode))?)
    }

    fn set_mode(&mut self, id: InodeId, mode: u32) -> Result<(), Trap> {
        // As chmod(2) does for whoever may not set them, the other bits are left out.
        let mode = mode as u16 & MODE_MASK;
        let inode = self.tree.inode_mut(id);
        match (&inode.node, inode.realm) {
            (_, Realm::Mount(_)) => return Err(Errno::Rofs.into()),
            // A link's bits are always 0777, and the root has no entry that could hold any.
            (Node::Symlink(_), _) => return Err(Errno::Notsup.into()),
            _ if id == ROOT => return Err(Errno::Perm.into()),
            _ => {}
        }
        inode.mode = mode;
        inode.mode_set = true;
        Ok(())
    }
}
