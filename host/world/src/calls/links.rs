//! Hard and symbolic links.

use crate::descriptors::flags;
use crate::inode::Node;
use crate::{Errno, Trap, World, memory as guest};
use opship_record::limits::MAX_LINK_TARGET;
use opship_record::node::Kind;

impl World {
    /// `path_link` of preview 1. In the end the two names are two files.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_link(
        &mut self,
        memory: &mut [u8],
        old_fd: u32,
        lookup: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Trap> {
        if lookup & flags::SYMLINK_FOLLOW != 0 {
            return Err(Errno::Inval.into());
        }
        let (old, new) = (guest::path(memory, old, old_len)?, guest::path(memory, new, new_len)?);
        let id = self.resolve_at(old_fd, &old, false)?.existing()?;
        let to = self.resolve_entry(new_fd, &new)?;
        if to.found.is_some() {
            return Err(Errno::Exist.into());
        }
        if to.slash {
            return Err(Errno::Noent.into());
        }
        let name = to.named(Errno::Exist)?;
        if self.tree.inode(id).kind() == Kind::Directory {
            return Err(Errno::Perm.into());
        }
        if self.tree.inode(id).realm != self.tree.inode(to.directory).realm {
            return Err(Errno::Xdev.into());
        }
        self.tree.check_new_name(to.directory, name)?;
        self.observe_moved(id)?;
        self.tree.put(to.directory, name, id);
        Ok(())
    }

    /// `path_symlink` of preview 1. Absolute targets are refused, as in the reference.
    pub fn path_symlink(
        &mut self,
        memory: &mut [u8],
        target: u32,
        target_len: u32,
        fd: u32,
        path: u32,
        path_len: u32,
    ) -> Result<(), Trap> {
        let target = link_target(guest::bytes(memory, target, target_len)?)?;
        let place = self.resolve_entry(fd, &guest::path(memory, path, path_len)?)?;
        if place.found.is_some() {
            return Err(Errno::Exist.into());
        }
        if place.slash {
            return Err(Errno::Noent.into());
        }
        let now = self.clock.file_time();
        self.tree.create(place.directory, place.named(Errno::Exist)?, Node::Symlink(target), now)?;
        Ok(())
    }

    /// `path_readlink` of preview 1. A target that does not fit is cut.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_readlink(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        path: u32,
        path_len: u32,
        buffer: u32,
        buffer_len: u32,
        used: u32,
    ) -> Result<(), Trap> {
        let id = self.resolve_at(fd, &guest::path(memory, path, path_len)?, false)?.existing()?;
        let Node::Symlink(target) = &self.tree.inode(id).node else { return Err(Errno::Inval.into()) };
        let range = guest::range(memory, buffer, buffer_len)?;
        let count = target.len().min(range.len());
        memory[range][..count].copy_from_slice(&target[..count]);
        guest::write_u32(memory, used, u32::try_from(count).map_err(|_| Errno::Overflow)?)?;
        self.tree.observe_target(id);
        Ok(())
    }
}

fn link_target(target: &[u8]) -> Result<Vec<u8>, Errno> {
    match target {
        [] => Err(Errno::Noent),
        [b'/', ..] => Err(Errno::Perm),
        _ if target.len() > MAX_LINK_TARGET => Err(Errno::Nametoolong),
        _ if target.contains(&0) => Err(Errno::Inval),
        _ => Ok(target.to_vec()),
    }
}
