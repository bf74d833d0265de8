//! Making, removing and renaming.

use crate::inode::{DirectoryNode, InodeId, Node};
use crate::resolve::Place;
use crate::{Errno, Trap, World, memory as guest};
use opship_record::node::Kind;

impl World {
    /// `path_create_directory` of preview 1.
    pub fn path_create_directory(&mut self, memory: &mut [u8], fd: u32, path: u32, path_len: u32) -> Result<(), Trap> {
        let place = self.resolve_entry(fd, &guest::path(memory, path, path_len)?)?;
        if place.found.is_some() {
            return Err(Errno::Exist.into());
        }
        let now = self.clock.file_time();
        let node = Node::Directory(DirectoryNode::default());
        self.tree.create(place.directory, place.named(Errno::Exist)?, node, now)?;
        Ok(())
    }

    /// `path_remove_directory` of preview 1.
    pub fn path_remove_directory(&mut self, memory: &mut [u8], fd: u32, path: u32, path_len: u32) -> Result<(), Trap> {
        let path = guest::path(memory, path, path_len)?;
        let place = self.resolve_entry(fd, &path)?;
        let id = place.existing()?;
        if self.tree.inode(id).directory().is_none() {
            return Err(Errno::Notdir.into());
        }
        let is_above = path.trim_end_matches('/').ends_with("..");
        let name = place.named(if is_above { Errno::Notempty } else { Errno::Inval })?;
        self.tree.check_movable(place.directory, name, id)?;
        self.tree.check_empty(id)?;
        self.tree.take(place.directory, name);
        Ok(())
    }

    /// `path_unlink_file` of preview 1.
    pub fn path_unlink_file(&mut self, memory: &mut [u8], fd: u32, path: u32, path_len: u32) -> Result<(), Trap> {
        let place = self.resolve_entry(fd, &guest::path(memory, path, path_len)?)?;
        let id = place.existing()?;
        if self.tree.inode(id).directory().is_some() {
            return Err(Errno::Isdir.into());
        }
        if place.slash {
            return Err(Errno::Notdir.into());
        }
        let name = place.named(Errno::Isdir)?;
        self.tree.check_movable(place.directory, name, id)?;
        self.tree.take(place.directory, name);
        Ok(())
    }

    /// `path_rename` of preview 1.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_rename(
        &mut self,
        memory: &mut [u8],
        old_fd: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Trap> {
        let (old, new) = (guest::path(memory, old, old_len)?, guest::path(memory, new, new_len)?);
        self.descriptors.directory(new_fd)?;
        let from = self.resolve_entry(old_fd, &old)?;
        let to = self.resolve_entry(new_fd, &new)?;
        let (from_name, to_name) = (from.named(Errno::Busy)?, to.named(Errno::Busy)?);
        let id = from.existing()?;
        self.check_rename(&from, id, &to)?;
        if to.found == Some(id) {
            return Ok(());
        }
        if let Some(replaced) = to.found {
            self.check_replaced(id, replaced)?;
            self.tree.check_movable(to.directory, to_name, replaced)?;
        }
        self.observe_moved(id)?;
        if to.found.is_some() {
            self.tree.take(to.directory, to_name);
        }
        self.tree.put(to.directory, to_name, id);
        self.tree.take(from.directory, from_name);
        Ok(())
    }

    fn check_rename(&self, from: &Place, id: InodeId, to: &Place) -> Result<(), Trap> {
        let (from_name, to_name) = (from.named(Errno::Busy)?, to.named(Errno::Busy)?);
        self.tree.check_movable(from.directory, from_name, id)?;
        if self.tree.inode(from.directory).realm != self.tree.inode(to.directory).realm {
            return Err(Errno::Xdev.into());
        }
        let is_directory = self.tree.inode(id).kind() == Kind::Directory;
        if (from.slash || to.slash) && !is_directory {
            return Err(Errno::Notdir.into());
        }
        if is_directory && self.tree.ancestors(to.directory).contains(&id) {
            return Err(Errno::Inval.into());
        }
        if to.found.is_some_and(|found| self.tree.ancestors(from.directory).contains(&found)) {
            return Err(Errno::Notempty.into());
        }
        self.tree.check_new_name(to.directory, to_name)
    }

    fn check_replaced(&mut self, id: InodeId, replaced: InodeId) -> Result<(), Trap> {
        let kinds = (self.tree.inode(id).kind(), self.tree.inode(replaced).kind());
        match kinds {
            (Kind::Directory, Kind::Directory) => self.tree.check_empty(replaced),
            (Kind::Directory, _) => Err(Errno::Notdir.into()),
            (_, Kind::Directory) => Err(Errno::Isdir.into()),
            _ => Ok(()),
        }
    }

    /// A file or link that goes elsewhere takes content, mode and time with it: the run depends on them. Of a file that it
    /// wrote it takes the source's mode still, unless it set one.
    pub(crate) fn observe_moved(&mut self, id: InodeId) -> Result<(), Trap> {
        let inode = self.tree.inode(id);
        match &inode.node {
            Node::Directory(_) => return Ok(()),
            Node::Symlink(_) => self.tree.observe_target(id),
            Node::File(file) if file.produced.is_some() && inode.mode_set => return Ok(()),
            Node::File(file) if file.produced.is_some() => {}
            Node::File(_) => self.tree.observe_content(id)?,
        }
        self.tree.observe_metadata(id);
        Ok(())
    }
}
