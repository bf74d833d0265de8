//! `tar -x`.

use crate::member::{self, Kind, Member};
use crate::names::{self, shown};
use crate::options::{Existing, Job};
use crate::place::{Lacking, NoPlace, Places};
use crate::read::{self, Visitor};
use crate::select::Selection;
use crate::session::Session;
use opship_guest::files::{self, Time};
use opship_ops_common::{os_str, reason};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written by one call of the world.
const BUFFER: usize = 128 << 10;

/// What is taken from modes without `--preserve-permissions`.
const UMASK: u32 = 0o022;

pub(crate) fn run(job: &Job, session: &mut Session) -> Result<(), String> {
    let mut extractor = Extractor {
        job,
        session,
        selection: Selection::new(job),
        places: Places::default(),
        directories: Vec::new(),
        width: member::WIDTH,
        buffer: vec![0; BUFFER],
    };
    let result = read::all(job, &mut extractor);
    // Also after an error: what was extracted is as it was stored.
    extractor.finish_directories();
    result?;
    extractor.selection.finish(extractor.session);
    Ok(())
}

struct Extractor<'a> {
    job: &'a Job,
    session: &'a mut Session,
    selection: Selection<'a>,
    places: Places,
    /// Directories that get their modes and times when nothing more is put into them.
    directories: Vec<(PathBuf, Vec<u8>, u32, Time)>,
    width: usize,
    buffer: Vec<u8>,
}

/// What is wrong with one member; the others go on.
enum Trouble {
    Told(String),
    /// Ends the run.
    Fatal(String),
}

impl Visitor for Extractor<'_> {
    fn visit(&mut self, member: &Member, content: &mut dyn Read) -> Result<(), String> {
        let Some(base) = self.selection.base(&member.name) else {
            return Ok(());
        };
        let Some(name) = names::without_components(&member.name, self.job.strip) else {
            return Ok(());
        };
        match self.job.verbose {
            0 => {}
            1 => self.session.list_name(name)?,
            _ => self.session.list(&member.line(&mut self.width))?,
        }
        let result =
            if self.job.to_stdout { self.show(member, content) } else { self.extract(base, name, member, content) };
        match result {
            Ok(()) => Ok(()),
            Err(Trouble::Told(what)) => {
                self.session.error(name, &what);
                Ok(())
            }
            Err(Trouble::Fatal(message)) => Err(message),
        }
    }
}

impl Extractor<'_> {
    /// `--to-stdout`.
    fn show(&mut self, member: &Member, content: &mut dyn Read) -> Result<(), Trouble> {
        if member.kind != Kind::File {
            return Ok(());
        }
        let failed = |e: io::Error| Trouble::Fatal(format!("stdout: Cannot write: {}", reason(&e)));
        let mut out = io::stdout().lock();
        copy(&mut self.buffer, member.size, content, &mut out, failed)?;
        out.flush().map_err(failed)
    }

    fn extract(&mut self, base: &Path, name: &[u8], member: &Member, content: &mut dyn Read) -> Result<(), Trouble> {
        let path = self.place(base, name, Lacking::Made, "Cannot open")?;
        match member.kind {
            Kind::File => self.file(&path, member, content),
            Kind::Directory => self.directory(&path, name, member),
            Kind::Symlink => self.symlink(&path, member),
            Kind::HardLink => self.hard_link(base, &path, member),
            // A volume's label is no file.
            Kind::Other(b'V') => Ok(()),
            Kind::Other(kind @ (b'3' | b'4' | b'6')) => {
                Err(Trouble::Told(format!("Cannot make a device or pipe (type '{}')", char::from(kind))))
            }
            Kind::Other(kind) => {
                let kind = kind.escape_ascii();
                self.session.note(name, &format!("Unknown file type '{kind}', extracted as normal file"));
                self.file(&path, member, content)
            }
        }
    }

    fn place(&mut self, base: &Path, name: &[u8], lacking: Lacking, what: &str) -> Result<PathBuf, Trouble> {
        let components = names::components(name).map_err(|_| Trouble::Told("Member name contains '..'".to_owned()))?;
        let slashes = names::leading_slashes(name);
        if slashes > 0 {
            let kind = if lacking == Lacking::Made { "member names" } else { "hard link targets" };
            self.session.stripped(&name[..slashes], kind);
        }
        self.places.find(base, &components, lacking).map_err(|error| {
            Trouble::Told(match error {
                NoPlace::Symlink(link) => {
                    let link = shown(link.as_os_str().as_encoded_bytes());
                    format!("{what}: '{link}' is a symbolic link; remove it or extract elsewhere")
                }
                NoPlace::Io(error) => format!("{what}: {}", reason(&error)),
            })
        })
    }

    fn file(&mut self, path: &Path, member: &Member, content: &mut dyn Read) -> Result<(), Trouble> {
        let Some(mut file) = self.make(path, "Cannot open", || File::create_new(path))? else {
            return Ok(());
        };
        let failed = |e: io::Error| Trouble::Told(format!("Cannot write: {}", reason(&e)));
        copy(&mut self.buffer, member.size, content, &mut file, failed)?;
        let mode = self.mode(member);
        opship_guest::set_fd_mode(&file, mode).map_err(|e| told("Cannot change mode", &e))?;
        if self.job.touch {
            return Ok(());
        }
        files::set_fd_mtime(&file, member.mtime).map_err(|e| told("Cannot utime", &e))
    }

    /// Makes something, after what is in the way was taken away. `None`: that stays, as was wished.
    fn make<T>(&mut self, path: &Path, what: &str, make: impl Fn() -> io::Result<T>) -> Result<Option<T>, Trouble> {
        let error = match make() {
            Ok(made) => return Ok(Some(made)),
            Err(error) => error,
        };
        let in_the_way = matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory);
        match self.job.existing {
            Existing::Skip if in_the_way => return Ok(None),
            Existing::Replace if in_the_way => {}
            _ => return Err(told(what, &error)),
        }
        match self.places.clear(path) {
            Ok(()) => make().map(Some).map_err(|e| told(what, &e)),
            // The directory in the way is not empty.
            Err(_) => Err(told(what, &error)),
        }
    }

    fn directory(&mut self, path: &Path, name: &[u8], member: &Member) -> Result<(), Trouble> {
        let is_directory = || files::lstat(path).is_ok_and(|m| m.kind == files::Kind::Directory);
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(_) if is_directory() => {
                if self.job.existing != Existing::Replace {
                    return Ok(());
                }
            }
            Err(_) => {
                if self.make(path, "Cannot mkdir", || fs::create_dir(path))?.is_none() {
                    return Ok(());
                }
            }
        }
        self.directories.push((path.to_owned(), name.to_vec(), self.mode(member), member.mtime));
        Ok(())
    }

    fn symlink(&mut self, path: &Path, member: &Member) -> Result<(), Trouble> {
        let target = os_str(member.link.as_deref().unwrap_or_default());
        let what = format!("Cannot create symlink to '{}'", shown(target.as_encoded_bytes()));
        if self.make(path, &what, || files::symlink(target, path))?.is_none() || self.job.touch {
            return Ok(());
        }
        files::set_mtime(path, member.mtime).map_err(|e| told("Cannot utime", &e))
    }

    fn hard_link(&mut self, base: &Path, path: &Path, member: &Member) -> Result<(), Trouble> {
        let link = member.link.as_deref().unwrap_or_default();
        let Some(link) = names::without_components(link, self.job.strip) else {
            return Err(Trouble::Told(format!("Cannot hard link to '{}': its name is left out", shown(link))));
        };
        let what = format!("Cannot hard link to '{}'", shown(link));
        let target = self.place(base, link, Lacking::AnError, &what)?;
        let same = |a: io::Result<files::Meta>, b: io::Result<files::Meta>| match (a, b) {
            (Ok(a), Ok(b)) => a.id == b.id,
            _ => false,
        };
        if same(files::lstat(&target), files::lstat(path)) {
            return Ok(());
        }
        self.make(path, &what, || files::hard_link(&target, path)).map(drop)
    }

    fn mode(&self, member: &Member) -> u32 {
        if self.job.all_permissions { member.mode } else { member.mode & 0o777 & !UMASK }
    }

    /// Modes and times of directories, the deepest first: a mode may bar the way to what is below.
    fn finish_directories(&mut self) {
        let mut directories = std::mem::take(&mut self.directories);
        directories.sort_by_key(|(path, ..)| std::cmp::Reverse(path.components().count()));
        for (path, name, mode, mtime) in directories {
            // It may have become something else since, even a link that leads elsewhere.
            if !files::lstat(&path).is_ok_and(|m| m.kind == files::Kind::Directory) {
                continue;
            }
            if let Err(error) = opship_guest::set_mode(&path, mode) {
                self.session.failed(&name, "Cannot change mode", &error);
            }
            if !self.job.touch
                && let Err(error) = files::set_mtime(&path, mtime)
            {
                self.session.failed(&name, "Cannot utime", &error);
            }
        }
    }
}

fn told(what: &str, error: &io::Error) -> Trouble {
    Trouble::Told(format!("{what}: {}", reason(error)))
}

/// Copies exactly `size` bytes. `failed` says what an error of writing is.
fn copy(
    buffer: &mut [u8],
    size: u64,
    content: &mut dyn Read,
    out: &mut impl Write,
    failed: impl Fn(io::Error) -> Trouble,
) -> Result<(), Trouble> {
    let mut left = size;
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = match content.read(&mut buffer[..want]) {
            Ok(0) => return Err(Trouble::Fatal(read::unreadable(&io::ErrorKind::UnexpectedEof.into()))),
            Ok(n) => n,
            Err(error) => return Err(Trouble::Fatal(read::unreadable(&error))),
        };
        out.write_all(&buffer[..n]).map_err(&failed)?;
        left -= n as u64;
    }
    Ok(())
}
