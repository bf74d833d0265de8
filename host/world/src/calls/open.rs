//! Opening.

use crate::body::Body;
use crate::descriptors::{Handle, OpenDirectory, OpenFile, ReadAhead, flags};
use crate::inode::{FileNode, InodeId, Node, ROOT, Realm};
use crate::resolve::Place;
use crate::{Errno, Trap, World, memory as guest};

/// What `path_open` was asked for.
#[derive(Clone, Copy)]
struct Wish {
    oflags: u32,
    fdflags: u16,
    read: bool,
    write: bool,
    follow: bool,
}

impl Wish {
    fn has(self, oflag: u32) -> bool {
        self.oflags & oflag != 0
    }
}

impl World {
    /// `path_open` of preview 1.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn path_open(
        &mut self,
        memory: &mut [u8],
        fd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        oflags: u32,
        base: u64,
        _inheriting: u64,
        fdflags: u32,
        out: u32,
    ) -> Result<(), Trap> {
        guest::range(memory, out, 4)?;
        let path = guest::path(memory, path, path_len)?;
        let fdflags = u16::try_from(fdflags).ok().filter(|f| f & !flags::FD_KNOWN == 0).ok_or(Errno::Inval)?;
        let wish = Wish {
            oflags,
            fdflags,
            read: base & flags::RIGHT_FD_READ != 0,
            write: base & flags::RIGHT_FD_WRITE != 0,
            follow: lookup & flags::SYMLINK_FOLLOW != 0,
        };
        let creating = flags::O_CREAT | flags::O_EXCL | flags::O_TRUNC;
        if oflags & !flags::O_KNOWN != 0 || wish.has(flags::O_DIRECTORY) && wish.has(creating) {
            return Err(Errno::Inval.into());
        }
        if self.descriptors.is_full() {
            self.descriptors.get(fd)?;
            return Err(Errno::Mfile.into());
        }
        let is_exclusive = wish.has(flags::O_CREAT) && wish.has(flags::O_EXCL);
        if wish.has(flags::O_CREAT) && path.ends_with('/') {
            // A file cannot be made under a directory's name; what leads there must still be right.
            let place = self.resolve_entry(fd, &path)?;
            let is_here = place.name.is_none() && is_exclusive;
            return Err(if is_here { Errno::Exist } else { Errno::Isdir }.into());
        }
        let place = self.resolve_at(fd, &path, wish.follow && !is_exclusive)?;
        let opened = self.open_place(&place, wish)?;
        Ok(guest::write_u32(memory, out, opened)?)
    }

    /// Resolves a path from an open directory.
    pub(crate) fn resolve_at(&mut self, fd: u32, path: &str, follow: bool) -> Result<Place, Trap> {
        let directory = self.descriptors.directory(fd)?;
        let mut stack = vec![directory.inode];
        if directory.is_current {
            stack = self.tree.ancestors(directory.inode);
            stack.reverse();
            if stack.first() != Some(&ROOT) {
                stack = vec![directory.inode];
            }
        }
        self.tree.resolve(stack, path, follow)
    }

    /// Resolves a path whose last name is to be made, removed or renamed: not even a slash makes its link followed.
    pub(crate) fn resolve_entry(&mut self, fd: u32, path: &str) -> Result<Place, Trap> {
        let trimmed = path.trim_end_matches('/');
        if trimmed.is_empty() {
            return self.resolve_at(fd, path, false);
        }
        let place = self.resolve_at(fd, trimmed, false)?;
        Ok(Place { slash: trimmed.len() < path.len(), ..place })
    }

    fn open_place(&mut self, place: &Place, wish: Wish) -> Result<u32, Trap> {
        let Some(id) = place.found else { return self.open_new(place, wish) };
        if wish.has(flags::O_CREAT) && wish.has(flags::O_EXCL) {
            return Err(Errno::Exist.into());
        }
        match self.tree.inode(id).node {
            Node::Symlink(_) => Err(Errno::Loop.into()),
            Node::Directory(_) => self.open_directory(id, wish),
            Node::File(_) if wish.has(flags::O_DIRECTORY) => Err(Errno::Notdir.into()),
            Node::File(_) => self.open_file(id, wish),
        }
    }

    fn open_new(&mut self, place: &Place, wish: Wish) -> Result<u32, Trap> {
        if !wish.has(flags::O_CREAT) {
            return Err(Errno::Noent.into());
        }
        let node = Node::File(FileNode { produced: Some(Box::new(Body::new())), ..FileNode::default() });
        let now = self.clock.file_time();
        let id = self.tree.create(place.directory, place.named(Errno::Isdir)?, node, now)?;
        self.open(file(id), wish.fdflags, wish.read, wish.write)
    }

    fn open_directory(&mut self, inode: InodeId, wish: Wish) -> Result<u32, Trap> {
        if wish.write || wish.has(flags::O_CREAT) || wish.has(flags::O_TRUNC) {
            return Err(Errno::Isdir.into());
        }
        let directory = OpenDirectory { inode, preopen: None, is_current: false, listing: None, listing_bytes: 0 };
        self.open(Handle::Directory(directory), wish.fdflags, true, false)
    }

    fn open_file(&mut self, id: InodeId, wish: Wish) -> Result<u32, Trap> {
        let truncates = wish.has(flags::O_TRUNC);
        if (wish.write || truncates) && matches!(self.tree.inode(id).realm, Realm::Mount(_)) {
            return Err(Errno::Rofs.into());
        }
        if truncates {
            self.truncate(id)?;
        } else if wish.write {
            self.tree.observe_content(id)?;
        }
        self.open(file(id), wish.fdflags, wish.read, wish.write)
    }
}

fn file(inode: InodeId) -> Handle {
    Handle::File(OpenFile { inode, position: 0, ahead: ReadAhead::default() })
}
