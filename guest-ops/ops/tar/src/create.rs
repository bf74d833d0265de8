//! `tar -c`.

use crate::member::{self, Kind, Member};
use crate::names;
use crate::options::{Job, Named};
use crate::pattern;
use crate::session::Session;
use crate::write::Archive;
use opship_guest::Meter;
use opship_guest::files::{self, Meta, Time};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

/// Bytes that are read by one call of the world.
const BUFFER: usize = 128 << 10;

pub(crate) fn run(job: &Job, session: &mut Session) -> Result<(), String> {
    let mut creator = Creator {
        job,
        session,
        archive: Archive::create(job)?,
        linked: HashMap::new(),
        width: member::WIDTH,
        buffer: vec![0; BUFFER],
        meter: Meter::new(None),
    };
    for named in &job.names {
        creator.add_tree(named)?;
    }
    creator.archive.finish()
}

struct Creator<'a> {
    job: &'a Job,
    session: &'a mut Session,
    archive: Archive,
    /// Files that may be come to again, by device and inode: the name they are stored under.
    linked: HashMap<(u64, u64), Vec<u8>>,
    width: usize,
    buffer: Vec<u8>,
    meter: Meter,
}

/// A file that is to be stored: where it is, and by what name it was come to.
struct Source {
    path: PathBuf,
    name: Vec<u8>,
}

impl Creator<'_> {
    /// Stores what is named and, if it is a directory, all below it.
    fn add_tree(&mut self, named: &Named) -> Result<(), String> {
        let path = named.base.join(opship_ops_common::os_str(&named.name));
        let name = names::trimmed(&named.name).to_vec();
        // Not by recursion: a tree may be deeper than the module's stack.
        let mut pending = vec![Source { path, name }];
        while let Some(source) = pending.pop() {
            let mut children = self.add(&source)?;
            children.reverse();
            pending.append(&mut children);
        }
        Ok(())
    }

    /// Stores one file; what is in it, if it is a directory.
    fn add(&mut self, source: &Source) -> Result<Vec<Source>, String> {
        if self.job.exclude.iter().any(|p| pattern::excludes(p, &source.name)) {
            return Ok(Vec::new());
        }
        let meta = if self.job.dereference { files::stat(&source.path) } else { files::lstat(&source.path) };
        let meta = match meta {
            Ok(meta) => meta,
            Err(error) => {
                self.session.failed(&source.name, "Cannot stat", &error);
                return Ok(Vec::new());
            }
        };
        if Some(meta.id) == self.archive.id {
            self.session.note(&source.name, "file is the archive; not dumped");
            return Ok(Vec::new());
        }
        if meta.kind == files::Kind::Directory {
            return self.add_directory(source, &meta);
        }
        if !self.add_link(source, &meta)? {
            match meta.kind {
                files::Kind::Symlink => self.add_symlink(source, &meta)?,
                files::Kind::File => self.add_file(source)?,
                _ => self.session.error(&source.name, "not a file, directory or link; not dumped"),
            }
        }
        Ok(Vec::new())
    }

    fn add_directory(&mut self, source: &Source, meta: &Meta) -> Result<Vec<Source>, String> {
        let children = match self.children(source) {
            Ok(children) => children,
            Err(error) => {
                self.session.failed(&source.name, "Cannot open", &error);
                return Ok(Vec::new());
            }
        };
        let Some(mode) = self.mode(source) else {
            return Ok(Vec::new());
        };
        let mut member = self.member(source, meta, Kind::Directory, mode);
        if !member.name.ends_with(b"/") {
            member.name.push(b'/');
        }
        self.header(&member)?;
        Ok(children)
    }

    /// In the order of the names' bytes, so that the same tree makes the same archive.
    fn children(&self, source: &Source) -> std::io::Result<Vec<Source>> {
        if !self.job.recursion {
            return Ok(Vec::new());
        }
        let mut children = Vec::new();
        for entry in fs::read_dir(&source.path)? {
            let path = entry?.path();
            let file_name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let glue: &[u8] = if source.name.ends_with(b"/") { b"" } else { b"/" };
            let name = [&source.name[..], glue, file_name].concat();
            children.push(Source { path, name });
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }

    /// Stores a further name of a file that is in the archive already; whether it is one.
    fn add_link(&mut self, source: &Source, meta: &Meta) -> Result<bool, String> {
        let Some(first) = self.linked.get(&meta.id).cloned() else {
            return Ok(false);
        };
        let Some(mode) = self.mode_of(source, meta) else {
            return Ok(true);
        };
        let mut member = self.member(source, meta, Kind::HardLink, mode);
        let (prefix, link) = if self.job.absolute_names { (&b""[..], &first[..]) } else { names::stored(&first) };
        if !prefix.is_empty() {
            self.session.stripped(prefix, "hard link targets");
        }
        member.link = Some(link.to_vec());
        self.header(&member)?;
        Ok(true)
    }

    /// Keeps a file's name if it may be come to again: by another of its names, or named twice.
    fn remember(&mut self, source: &Source, meta: &Meta) {
        if meta.links > 1 || self.job.names.len() > 1 || self.job.dereference {
            self.linked.insert(meta.id, source.name.clone());
        }
    }

    fn add_symlink(&mut self, source: &Source, meta: &Meta) -> Result<(), String> {
        let target = match fs::read_link(&source.path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(error) => {
                self.session.failed(&source.name, "Cannot readlink", &error);
                return Ok(());
            }
        };
        let mut member = self.member(source, meta, Kind::Symlink, 0o777);
        member.link = Some(target);
        self.remember(source, meta);
        self.header(&member)
    }

    fn add_file(&mut self, source: &Source) -> Result<(), String> {
        // From here on by descriptor: what is stored is one and the same file.
        let opened = File::open(&source.path).and_then(|file| {
            let meta = files::fstat(&file)?;
            let mode = opship_guest::fd_mode(&file)?;
            Ok((file, meta, mode))
        });
        let (mut file, meta, mode) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.session.failed(&source.name, "Cannot open", &error);
                return Ok(());
            }
        };
        let mut member = self.member(source, &meta, Kind::File, mode);
        member.size = meta.len;
        self.remember(source, &meta);
        self.header(&member)?;
        self.copy(source, &mut file, meta.len)?;
        self.archive.pad(meta.len)?;
        let after = files::fstat(&file);
        if after.is_ok_and(|after| (after.len, after.mtime) != (meta.len, meta.mtime)) {
            self.session.differs(&source.name, "file changed as we read it");
        }
        Ok(())
    }

    /// Stores exactly `length` bytes, whatever became of the file: its header has said so.
    fn copy(&mut self, source: &Source, file: &mut File, length: u64) -> Result<(), String> {
        let mut left = length;
        while left > 0 {
            let want = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = match file.read(&mut self.buffer[..want]) {
                Ok(0) => {
                    self.session.differs(&source.name, &format!("File shrank by {left} bytes; padding with zeros"));
                    break;
                }
                Ok(n) => n,
                Err(error) => {
                    let what = format!("Read error at byte {}; padding with zeros", length - left);
                    self.session.failed(&source.name, &what, &error);
                    break;
                }
            };
            self.archive.content(&self.buffer[..n])?;
            self.meter.add(n as u64);
            left -= n as u64;
        }
        self.buffer.fill(0);
        while left > 0 {
            let n = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.archive.content(&self.buffer[..n])?;
            left -= n as u64;
        }
        Ok(())
    }

    fn mode_of(&mut self, source: &Source, meta: &Meta) -> Option<u32> {
        if meta.kind == files::Kind::Symlink { Some(0o777) } else { self.mode(source) }
    }

    /// The permission bits; tells if they cannot be had.
    fn mode(&mut self, source: &Source) -> Option<u32> {
        match opship_guest::mode(&source.path) {
            Ok(mode) => Some(mode),
            Err(error) => {
                self.session.failed(&source.name, "Cannot stat", &error);
                None
            }
        }
    }

    fn member(&mut self, source: &Source, meta: &Meta, kind: Kind, mode: u32) -> Member {
        let mut name = &source.name[..];
        if !self.job.absolute_names {
            let (prefix, stored) = names::stored(name);
            if !prefix.is_empty() {
                self.session.stripped(prefix, "member names");
            }
            name = stored;
        }
        let fixed = self.job.mtime.map(|seconds| Time { seconds, nanos: 0 });
        Member {
            name: name.to_vec(),
            link: None,
            kind,
            mode,
            mtime: fixed.unwrap_or(meta.mtime),
            size: 0,
            owner: "0/0".to_owned(),
        }
    }

    fn header(&mut self, member: &Member) -> Result<(), String> {
        match self.job.verbose {
            0 => {}
            1 => self.session.list_name(&member.name)?,
            _ => self.session.list(&member.line(&mut self.width))?,
        }
        self.archive.header(member)
    }
}
