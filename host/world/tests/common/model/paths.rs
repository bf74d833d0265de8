//! Paths: where they lead, and the calls that take them.

use super::*;

/// Where a path leads.
pub(super) struct Place {
    pub(super) directory: Id,
    /// `None` for `.`, `a/..` and the like.
    pub(super) name: Option<String>,
    pub(super) found: Option<Id>,
    pub(super) slash: bool,
}

impl Place {
    fn existing(&self) -> Outcome1<Id> {
        self.found.ok_or(Errno::Noent)
    }

    fn named(&self, otherwise: Errno) -> Outcome1<String> {
        self.name.clone().ok_or(otherwise)
    }
}

impl Model {
    pub(super) fn directory(&self, fd: u32) -> Outcome1<Id> {
        match self.descriptors.get(&fd).ok_or(Errno::Badf)?.open {
            Open::Directory { id, .. } => Ok(id),
            Open::File { .. } => Err(Errno::Notdir),
            Open::Stdin | Open::Stream(_) => Err(Errno::Badf),
        }
    }

    /// Walks a path from an open directory, which is never left.
    fn walk(&self, fd: u32, path: &str, follow: bool) -> Outcome1<Place> {
        let mut stack = vec![self.directory(fd)?];
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        match path {
            "" => return Err(Errno::Noent),
            _ if path.starts_with('/') => return Err(Errno::Perm),
            _ => {}
        }
        while let Some(name) = rest.pop() {
            let at = *stack.last().unwrap();
            match name.as_str() {
                "" | "." => continue,
                ".." if stack.len() == 1 => return Err(Errno::Perm),
                ".." => {
                    stack.pop();
                    continue;
                }
                _ => {}
            }
            let (is_last, slash) = (rest.iter().all(String::is_empty), !rest.is_empty());
            let found = self.child(at, &name);
            let place = Place { directory: at, name: Some(name), found, slash };
            match found.map(|id| &self.inodes[id].body) {
                None if is_last => return Ok(place),
                None => return Err(Errno::Noent),
                Some(Body::Symlink(target)) if !is_last || follow || slash => {
                    links += 1;
                    if links > 40 {
                        return Err(Errno::Loop);
                    }
                    rest.extend(target.rsplit('/').map(str::to_owned));
                }
                Some(Body::Directory { .. }) if is_last => return Ok(place),
                Some(Body::Directory { .. }) => stack.extend(found),
                Some(_) if is_last && !slash => return Ok(place),
                Some(_) => return Err(Errno::Notdir),
            }
        }
        let end = *stack.last().unwrap();
        Ok(Place { directory: end, name: None, found: Some(end), slash: false })
    }

    /// For a name that is to be made, taken away or moved: slashes behind it do not make a link followed.
    fn entry(&self, fd: u32, path: &str) -> Outcome1<Place> {
        let trimmed = path.trim_end_matches('/');
        if trimmed.is_empty() {
            return self.walk(fd, path, false);
        }
        let place = self.walk(fd, trimmed, false)?;
        Ok(Place { slash: trimmed != path, ..place })
    }

    /// Something new; a directory that is gone takes nothing.
    fn create(&mut self, place: &Place, name: String, body: Body) -> Outcome1<Id> {
        if self.inodes[place.directory].names == 0 {
            return Err(Errno::Noent);
        }
        let mode = match body {
            Body::File(_) => 0o644,
            Body::Directory { .. } => 0o755,
            Body::Symlink(_) => 0o777,
        };
        let inode = Inode { body, mode, mtime: self.now, names: 0, number: 0 };
        Ok(self.make(place.directory, name, inode))
    }

    pub(super) fn open(&mut self, fd: u32, path: &str, follow: bool, oflags: u32, rights: u64, flags: u16) -> Given {
        let has = |flag| oflags & flag != 0;
        if has(DIRECTORY) && has(CREAT | EXCL | TRUNC) {
            return Err(Errno::Inval);
        }
        let is_exclusive = has(CREAT) && has(EXCL);
        if has(CREAT) && path.ends_with('/') {
            let place = self.entry(fd, path)?;
            return Err(if place.name.is_none() && is_exclusive { Errno::Exist } else { Errno::Isdir });
        }
        let place = self.walk(fd, path, follow && !is_exclusive)?;
        let (read, write) = (rights & READ != 0, rights & WRITE != 0);
        let open = match place.found.map(|id| (id, self.kind(id))) {
            None if !has(CREAT) => return Err(Errno::Noent),
            None => {
                let id = self.create(&place, place.named(Errno::Isdir)?, Body::File(Vec::new()))?;
                Open::File { id, position: 0, read, write }
            }
            Some(_) if is_exclusive => return Err(Errno::Exist),
            Some((_, Kind::Symlink)) => return Err(Errno::Loop),
            Some((_, Kind::Directory)) if write || has(CREAT) || has(TRUNC) => {
                return Err(Errno::Isdir);
            }
            Some((id, Kind::Directory)) => Open::Directory { id, listing: None },
            Some((_, Kind::File)) if has(DIRECTORY) => return Err(Errno::Notdir),
            Some((id, Kind::File)) => {
                if has(TRUNC) {
                    self.inodes[id].body = Body::File(Vec::new());
                    self.inodes[id].mtime = self.now;
                }
                Open::File { id, position: 0, read, write }
            }
        };
        let free = (0..).find(|fd| !self.descriptors.contains_key(fd)).unwrap();
        self.descriptors.insert(free, Descriptor { open, flags });
        Ok(free.to_le_bytes().to_vec())
    }

    pub(super) fn mkdir(&mut self, fd: u32, path: &str) -> Given {
        let place = self.entry(fd, path)?;
        if place.found.is_some() {
            return Err(Errno::Exist);
        }
        let body = Body::Directory { entries: BTreeMap::new(), parent: 0 };
        self.create(&place, place.named(Errno::Exist)?, body)?;
        Ok(Vec::new())
    }

    pub(super) fn rmdir(&mut self, fd: u32, path: &str) -> Given {
        let place = self.entry(fd, path)?;
        let Body::Directory { entries, .. } = &self.inodes[place.existing()?].body else { return Err(Errno::Notdir) };
        let is_above = path.trim_end_matches('/').ends_with("..");
        let name = place.named(if is_above { Errno::Notempty } else { Errno::Inval })?;
        if !entries.is_empty() {
            return Err(Errno::Notempty);
        }
        self.take(place.directory, &name);
        Ok(Vec::new())
    }

    pub(super) fn unlink(&mut self, fd: u32, path: &str) -> Given {
        let place = self.entry(fd, path)?;
        match self.kind(place.existing()?) {
            Kind::Directory => return Err(Errno::Isdir),
            _ if place.slash => return Err(Errno::Notdir),
            _ => {}
        }
        self.take(place.directory, &place.named(Errno::Isdir)?);
        Ok(Vec::new())
    }

    pub(super) fn rename(&mut self, (old_fd, old): (u32, &str), (new_fd, new): (u32, &str)) -> Given {
        self.directory(new_fd)?;
        let (from, to) = (self.entry(old_fd, old)?, self.entry(new_fd, new)?);
        let (from_name, to_name) = (from.named(Errno::Busy)?, to.named(Errno::Busy)?);
        let id = from.existing()?;
        let is_directory = self.kind(id) == Kind::Directory;
        if (from.slash || to.slash) && !is_directory {
            return Err(Errno::Notdir);
        }
        if is_directory && self.is_in(to.directory, id) {
            return Err(Errno::Inval);
        }
        if to.found.is_some_and(|found| self.is_in(from.directory, found)) {
            return Err(Errno::Notempty);
        }
        if self.inodes[to.directory].names == 0 {
            return Err(Errno::Noent);
        }
        match to.found.map(|found| &self.inodes[found].body) {
            _ if to.found == Some(id) => return Ok(Vec::new()),
            None => {}
            Some(Body::Directory { entries, .. }) if is_directory && entries.is_empty() => {}
            Some(Body::Directory { .. }) => return Err(if is_directory { Errno::Notempty } else { Errno::Isdir }),
            Some(_) if is_directory => return Err(Errno::Notdir),
            Some(_) => {}
        }
        self.take(to.directory, &to_name);
        self.take(from.directory, &from_name);
        self.put(to.directory, to_name, id);
        Ok(Vec::new())
    }

    /// Is this directory another one, or somewhere below it?
    fn is_in(&self, directory: Id, other: Id) -> bool {
        let mut at = directory;
        loop {
            match self.inodes[at].body {
                _ if at == other => return true,
                Body::Directory { parent, .. } if at != 0 => at = parent,
                _ => return false,
            }
        }
    }

    pub(super) fn link(&mut self, (old_fd, old): (u32, &str), (new_fd, new): (u32, &str)) -> Given {
        let id = self.walk(old_fd, old, false)?.existing()?;
        let to = self.entry(new_fd, new)?;
        match self.kind(id) {
            _ if to.found.is_some() => return Err(Errno::Exist),
            _ if to.slash => return Err(Errno::Noent),
            Kind::Directory => return Err(Errno::Perm),
            _ if self.inodes[to.directory].names == 0 => return Err(Errno::Noent),
            _ => {}
        }
        self.put(to.directory, to.named(Errno::Exist)?, id);
        Ok(Vec::new())
    }

    pub(super) fn symlink(&mut self, target: &str, fd: u32, path: &str) -> Given {
        let place = self.entry(fd, path)?;
        if place.found.is_some() {
            return Err(Errno::Exist);
        }
        if place.slash {
            return Err(Errno::Noent);
        }
        self.create(&place, place.named(Errno::Exist)?, Body::Symlink(target.to_owned()))?;
        Ok(Vec::new())
    }

    pub(super) fn readlink(&self, fd: u32, path: &str) -> Given {
        match &self.inodes[self.walk(fd, path, false)?.existing()?].body {
            Body::Symlink(target) => Ok(target.clone().into_bytes()),
            _ => Err(Errno::Inval),
        }
    }

    pub(super) fn path_stat(&mut self, fd: u32, path: &str, follow: bool) -> Given {
        let id = self.walk(fd, path, follow)?.existing()?;
        Ok(self.stat(id))
    }

    pub(super) fn path_set_times(&mut self, fd: u32, path: &str, follow: bool, mtime: u64, which: u32) -> Given {
        let time = self.wanted_time(mtime, which)?;
        let id = self.walk(fd, path, follow)?.existing()?;
        self.set_time(id, time)
    }

    pub(super) fn path_mode(&self, fd: u32, path: &str, follow: bool) -> Given {
        let id = self.walk(fd, path, follow)?.existing()?;
        Ok(u32::from(self.inodes[id].mode).to_le_bytes().to_vec())
    }

    pub(super) fn path_set_mode(&mut self, fd: u32, path: &str, follow: bool, mode: u16) -> Given {
        let id = self.walk(fd, path, follow)?.existing()?;
        match self.kind(id) {
            Kind::Symlink => return Err(Errno::Notsup),
            _ if id == 0 => return Err(Errno::Perm),
            _ => {}
        }
        self.inodes[id].mode = mode & 0o777;
        Ok(Vec::new())
    }
}
