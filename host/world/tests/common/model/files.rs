//! Descriptors: reading, writing, seeking, listing.

use super::*;

const NOTHING: Given = Ok(Vec::new());

impl Model {
    fn get(&mut self, fd: u32) -> Outcome1<&mut Descriptor> {
        self.descriptors.get_mut(&fd).ok_or(Errno::Badf)
    }

    /// The file's inode, for calls that only a file knows.
    fn file(&mut self, fd: u32) -> Outcome1<Id> {
        match self.get(fd)?.open {
            Open::File { id, .. } => Ok(id),
            Open::Directory { .. } => Err(Errno::Badf),
            Open::Stdin | Open::Stream(_) => Err(Errno::Spipe),
        }
    }

    fn bytes(&self, id: Id) -> &[u8] {
        match &self.inodes[id].body {
            Body::File(bytes) => bytes,
            _ => panic!("no file"),
        }
    }

    fn is_readable(&mut self, fd: u32) -> Outcome1<()> {
        match self.get(fd)?.open {
            Open::Stdin | Open::File { read: true, .. } => Ok(()),
            _ => Err(Errno::Badf),
        }
    }

    fn is_writable(&mut self, fd: u32) -> Outcome1<()> {
        match self.get(fd)?.open {
            Open::Stream(_) | Open::File { write: true, .. } => Ok(()),
            _ => Err(Errno::Badf),
        }
    }

    fn read_from(&self, id: Id, position: u64, count: u32) -> Vec<u8> {
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        self.bytes(id).get(start..).unwrap_or_default().iter().take(count as usize).copied().collect()
    }

    pub(super) fn read(&mut self, fd: u32, count: u32) -> Given {
        self.is_readable(fd)?;
        let Open::File { id, position, .. } = self.get(fd)?.open else { return NOTHING };
        let read = self.read_from(id, position, count);
        self.move_to(fd, position + read.len() as u64);
        Ok(read)
    }

    pub(super) fn pread(&mut self, fd: u32, count: u32, offset: u64) -> Given {
        self.is_readable(fd)?;
        let id = self.file(fd)?;
        Ok(self.read_from(id, offset, count))
    }

    pub(super) fn write(&mut self, fd: u32, data: &[u8]) -> Given {
        self.is_writable(fd)?;
        let Descriptor { open, flags } = self.get(fd)?.clone();
        match open {
            Open::Stream(index) => self.streams[index].extend(data),
            Open::File { id, position, .. } if !data.is_empty() => {
                let at = if flags & 1 != 0 { self.bytes(id).len() as u64 } else { position };
                self.write_to(id, at, data)?;
                self.move_to(fd, at + data.len() as u64);
            }
            _ => {}
        }
        Ok((data.len() as u32).to_le_bytes().to_vec())
    }

    pub(super) fn pwrite(&mut self, fd: u32, data: &[u8], offset: u64) -> Given {
        self.is_writable(fd)?;
        let id = self.file(fd)?;
        if !data.is_empty() {
            let at = if self.get(fd)?.flags & 1 != 0 { self.bytes(id).len() as u64 } else { offset };
            self.write_to(id, at, data)?;
        }
        Ok((data.len() as u32).to_le_bytes().to_vec())
    }

    fn write_to(&mut self, id: Id, at: u64, data: &[u8]) -> Outcome1<()> {
        if at.checked_add(data.len() as u64).is_none_or(|end| end > FBIG) {
            return Err(Errno::Fbig);
        }
        let (start, now) = (at as usize, self.now);
        if let Inode { body: Body::File(bytes), mtime, .. } = &mut self.inodes[id] {
            bytes.resize(bytes.len().max(start + data.len()), 0);
            bytes[start..start + data.len()].copy_from_slice(data);
            *mtime = now;
        }
        Ok(())
    }

    fn move_to(&mut self, fd: u32, to: u64) {
        if let Some(Descriptor { open: Open::File { position, .. }, .. }) = self.descriptors.get_mut(&fd) {
            *position = to;
        }
    }

    pub(super) fn seek(&mut self, fd: u32, offset: i64, whence: u32) -> Given {
        let id = self.file(fd)?;
        let Open::File { position, .. } = self.get(fd)?.open else { return Err(Errno::Spipe) };
        let base = match whence {
            0 => 0,
            1 => position,
            2 => self.bytes(id).len() as u64,
            _ => return Err(Errno::Inval),
        };
        let to = i128::from(base) + i128::from(offset);
        if to < 0 || to > i128::from(i64::MAX) {
            return Err(Errno::Inval);
        }
        self.move_to(fd, to as u64);
        self.tell(fd)
    }

    pub(super) fn tell(&mut self, fd: u32) -> Given {
        self.file(fd)?;
        match self.get(fd)?.open {
            Open::File { position, .. } => Ok(position.to_le_bytes().to_vec()),
            _ => Err(Errno::Spipe),
        }
    }

    pub(super) fn set_size(&mut self, fd: u32, size: u64) -> Given {
        let Open::File { id, write, .. } = self.get(fd)?.open else { return Err(Errno::Badf) };
        if !write {
            return Err(Errno::Inval);
        }
        if size > FBIG {
            return Err(Errno::Fbig);
        }
        let now = self.now;
        if let Inode { body: Body::File(bytes), mtime, .. } = &mut self.inodes[id]
            && bytes.len() as u64 != size
        {
            bytes.resize(size as usize, 0);
            *mtime = now;
        }
        NOTHING
    }

    pub(super) fn set_flags(&mut self, fd: u32, flags: u16) -> Given {
        let descriptor = self.get(fd)?;
        match descriptor.open {
            _ if flags & !5 != 0 => Err(Errno::Inval),
            Open::Directory { .. } => Err(Errno::Badf),
            _ => {
                descriptor.flags = descriptor.flags & !5 | flags;
                NOTHING
            }
        }
    }

    /// Type, flags, and whether it can be read and written.
    pub(super) fn fdstat(&mut self, fd: u32) -> Given {
        let Descriptor { open, flags } = self.get(fd)?;
        let (file_type, rights) = match open {
            Open::Stdin => (0, READ),
            Open::Stream(_) => (0, WRITE),
            Open::File { read, write, .. } => (4, (READ * u64::from(*read)) | (WRITE * u64::from(*write))),
            Open::Directory { .. } => (3, 0),
        };
        Ok([&[file_type][..], &flags.to_le_bytes(), &rights.to_le_bytes()].concat())
    }

    pub(super) fn filestat(&mut self, fd: u32) -> Given {
        match self.get(fd)?.open {
            Open::File { id, .. } | Open::Directory { id, .. } => Ok(self.stat(id)),
            Open::Stdin | Open::Stream(_) => Ok(stat_bytes(0, 1, 0, 0, 0)),
        }
    }

    pub(super) fn set_times(&mut self, fd: u32, mtime: u64, which: u32) -> Given {
        let time = self.wanted_time(mtime, which)?;
        match self.get(fd)?.open {
            Open::File { id, .. } | Open::Directory { id, .. } => self.set_time(id, time),
            Open::Stdin | Open::Stream(_) => Err(Errno::Badf),
        }
    }

    pub(super) fn wanted_time(&self, mtime: u64, which: u32) -> Outcome1<Option<i64>> {
        match which {
            _ if which > 15 || which & 3 == 3 || which & 12 == 12 => Err(Errno::Inval),
            _ if which & 4 != 0 => Ok(Some(i64::try_from(mtime).unwrap_or(i64::MAX))),
            _ => Ok((which & 8 != 0).then_some(self.now)),
        }
    }

    pub(super) fn set_time(&mut self, id: Id, time: Option<i64>) -> Given {
        if let Some(time) = time.filter(|_| self.kind(id) != Kind::Directory) {
            self.inodes[id].mtime = time;
        }
        NOTHING
    }

    pub(super) fn allocate(&mut self, fd: u32) -> Given {
        self.file(fd)?;
        Err(Errno::Notsup)
    }

    pub(super) fn advise(&mut self, fd: u32, advice: u32) -> Given {
        self.file(fd)?;
        if advice > 5 { Err(Errno::Inval) } else { NOTHING }
    }

    pub(super) fn sync(&mut self, fd: u32) -> Given {
        match self.get(fd)?.open {
            Open::File { .. } | Open::Directory { .. } => NOTHING,
            Open::Stdin | Open::Stream(_) => Err(Errno::Inval),
        }
    }

    pub(super) fn close(&mut self, fd: u32) -> Given {
        self.descriptors.remove(&fd).ok_or(Errno::Badf)?;
        NOTHING
    }

    pub(super) fn renumber(&mut self, from: u32, to: u32) -> Given {
        self.get(to)?;
        self.get(from)?;
        let moved = self.descriptors.remove(&from).ok_or(Errno::Badf)?;
        self.descriptors.insert(to, moved);
        NOTHING
    }

    /// Entries from `cookie` on, as many bytes of them as fit.
    pub(super) fn readdir(&mut self, fd: u32, room: u32, cookie: u64) -> Given {
        let Open::Directory { id, listing } = &self.get(fd)?.open else { return Err(Errno::Badf) };
        let (id, listed) = (*id, listing.clone().filter(|_| cookie > 0));
        let listed = listed.unwrap_or_else(|| self.list(id));
        let mut bytes = Vec::new();
        for (index, (name, file_type, number)) in listed.iter().enumerate().skip(cookie as usize) {
            bytes.extend((index as u64 + 1).to_le_bytes());
            bytes.extend(number.to_le_bytes());
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend([*file_type, 0, 0, 0]);
            bytes.extend(name.as_bytes());
        }
        bytes.truncate(room as usize);
        self.get(fd)?.open = Open::Directory { id, listing: Some(listed) };
        Ok(bytes)
    }

    fn list(&mut self, id: Id) -> Vec<(String, u8, u64)> {
        let Body::Directory { entries, parent } = self.inodes[id].body.clone() else { return Vec::new() };
        let here = [(".".to_owned(), id), ("..".to_owned(), parent)];
        let all = here.into_iter().chain(entries);
        all.map(|(name, id)| (name, self.file_type(id), self.number(id))).collect()
    }

    /// A clock call, which lets time pass.
    pub(super) fn clock(&mut self) -> Given {
        self.now += 1000;
        Ok(self.now.to_le_bytes().to_vec())
    }
}
