//! Treats one file or standard input: which file is read, where its content goes, what takes the
//! place of what.

use crate::exchange;
use crate::list;
use crate::names;
use crate::options::Mode;
use crate::session::Session;
use crate::stream::{self, Saved, StreamError, Summary, Trailing};
use opship_guest::files::{self, Kind, Meta, Time};
use opship_ops_common::{complain, reason};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Reads standard input and writes standard output.
pub(crate) fn treat_stdin(session: &mut Session) {
    let stdin = io::stdin();
    let meta = files::fstat(&stdin).ok().filter(|m| m.kind == Kind::File);
    let input = stdin.lock();
    let name = Path::new("stdin");
    let result = match session.options.mode {
        Mode::List => return list::treat(session, input, meta.as_ref(), None),
        Mode::Test => test(input, meta.as_ref()),
        Mode::Compress => compress_to_stdout(session, input, None, meta.as_ref()),
        Mode::Decompress => decompress_to_stdout(session, input, meta.as_ref()),
    };
    let Some(summary) = settled(session, name, result) else {
        return;
    };
    match session.options.mode {
        Mode::Compress => session.tell(&percent(session, &summary)),
        Mode::Test => session.tell(" OK"),
        Mode::Decompress | Mode::List => {}
    }
}

/// Treats what one operand names and, where that is wished, all below it.
pub(crate) fn treat(session: &mut Session, operand: &OsStr) {
    if operand == "-" {
        return treat_stdin(session);
    }
    // Not by recursion: a tree may be deeper than the module's stack.
    let mut pending = vec![PathBuf::from(operand)];
    while let Some(path) = pending.pop() {
        let mut children = treat_path(session, &path);
        children.reverse();
        pending.append(&mut children);
    }
}

/// Treats one file; of a directory gives back what is to be treated in its stead.
fn treat_path(session: &mut Session, path: &Path) -> Vec<PathBuf> {
    let Some((path, meta)) = find(session, path) else {
        return Vec::new();
    };
    match meta.kind {
        Kind::File => treat_file(session, &path, &meta),
        Kind::Directory if session.options.recursive => return children(session, &path),
        Kind::Directory => session.warn(&format!("{} is a directory -- ignored", path.display())),
        Kind::Symlink => session.error(&path, "Too many levels of symbolic links"),
        Kind::Other => {
            session.warn(&format!("{} is not a directory or a regular file - ignored", path.display()));
        }
    }
    Vec::new()
}

/// The file that is meant: to be decompressed it may be named without its suffix.
fn find(session: &mut Session, path: &Path) -> Option<(PathBuf, Meta)> {
    let options = &session.options;
    let follow = options.force || options.leaves_files();
    let candidates = match options.mode {
        Mode::Compress => vec![path.to_owned()],
        _ => names::candidates(path, &options.suffix),
    };
    // Told of is the name with the chosen suffix, as the one that was expected.
    let told = candidates.get(1).unwrap_or(&candidates[0]).clone();
    for candidate in candidates {
        let meta = if follow { files::stat(&candidate) } else { files::lstat(&candidate) };
        match meta {
            Ok(meta) => return Some((candidate, meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                session.error(&candidate, &reason(&error));
                return None;
            }
        }
    }
    session.error(&told, &reason(&io::ErrorKind::NotFound.into()));
    None
}

/// What is in a directory, in the order of the names' bytes.
fn children(session: &mut Session, path: &Path) -> Vec<PathBuf> {
    let listed: io::Result<Vec<_>> = fs::read_dir(path).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    match listed {
        Ok(mut children) => {
            children.sort();
            children
        }
        Err(error) => {
            session.error(path, &reason(&error));
            Vec::new()
        }
    }
}

fn treat_file(session: &mut Session, path: &Path, meta: &Meta) {
    if session.options.leaves_files() {
        return treat_in_passing(session, path, meta);
    }
    match refusal(session, path, meta) {
        Ok(None) if session.options.mode == Mode::Compress => compress_in_place(session, path, meta),
        Ok(None) => decompress_in_place(session, path, meta),
        Ok(Some(why)) => session.warn(&format!("{} {why}", path.display())),
        Err(error) => session.error(path, &reason(&error)),
    }
}

/// Why another file had better not take the place of this one.
fn refusal(session: &Session, path: &Path, meta: &Meta) -> io::Result<Option<String>> {
    let force = session.options.force;
    if meta.links > 1 && !force {
        let others = meta.links - 1;
        let plural = if others == 1 { "" } else { "s" };
        return Ok(Some(format!("has {others} other link{plural} -- file ignored")));
    }
    let mode = opship_guest::mode(path)?;
    let why = match mode {
        _ if mode & 0o4000 != 0 => "is set-user-ID on execution - ignored",
        _ if mode & 0o2000 != 0 => "is set-group-ID on execution - ignored",
        _ if mode & 0o1000 != 0 && !force => "has the sticky bit set - file ignored",
        _ => return Ok(None),
    };
    Ok(Some(why.to_owned()))
}

/// Reads a file that stays as it is.
fn treat_in_passing(session: &mut Session, path: &Path, meta: &Meta) {
    let looks_through = session.options.recursive && !session.options.to_stdout;
    if looks_through && names::cut(path, &session.options.suffix).is_none() {
        return unknown_suffix(session, path);
    }
    let input = match File::open(path) {
        Ok(file) => file,
        Err(error) => return session.error(path, &reason(&error)),
    };
    let result = match session.options.mode {
        Mode::List => return list::treat(session, input, Some(meta), Some(path)),
        Mode::Test => test(input, Some(meta)),
        Mode::Compress => compress_to_stdout(session, input, Some(path), Some(meta)),
        Mode::Decompress => decompress_to_stdout(session, input, Some(meta)),
    };
    let Some(summary) = settled(session, path, result) else {
        return;
    };
    let outcome = match session.options.mode {
        Mode::Test => " OK".to_owned(),
        _ => format!("{} -- replaced with stdout", percent(session, &summary)),
    };
    session.tell(&format!("{}:\t{outcome}", path.display()));
}

fn test(input: impl io::Read, meta: Option<&Meta>) -> Result<Summary, StreamError> {
    stream::decompress(input, |_| Ok(io::sink()), false, meta.map(|m| m.len))
}

fn compress_to_stdout(
    session: &Session,
    input: impl io::Read,
    path: Option<&Path>,
    meta: Option<&Meta>,
) -> Result<Summary, StreamError> {
    let saved = to_be_saved(session, path, meta);
    stream::compress(input, io::stdout().lock(), &saved, session.options.level, meta.map(|m| m.len))
}

fn decompress_to_stdout(session: &Session, input: impl io::Read, meta: Option<&Meta>) -> Result<Summary, StreamError> {
    stream::decompress(input, |_| Ok(io::stdout().lock()), session.options.force, meta.map(|m| m.len))
}

/// Name and time for a header.
fn to_be_saved(session: &Session, path: Option<&Path>, meta: Option<&Meta>) -> Saved {
    if session.options.name == Some(false) {
        return Saved::default();
    }
    Saved {
        name: path.and_then(Path::file_name).map(|n| n.as_encoded_bytes().to_vec()),
        // What a header cannot hold (after 2106) is not known to it.
        mtime: meta.map_or(0, |m| u32::try_from(m.mtime.seconds).unwrap_or(0)),
    }
}

fn unknown_suffix(session: &mut Session, path: &Path) {
    // Among the files of a directory there are some as a matter of course.
    if session.options.verbose || !session.options.recursive {
        session.warn(&format!("{}: unknown suffix -- ignored", path.display()));
    }
}

/// Whether `path` is named like a compressed file already, which only force overrules; says so.
fn has_suffix(session: &Session, path: &Path) -> bool {
    if session.options.force {
        return false;
    }
    let Some(cut) = names::cut(path, &session.options.suffix) else {
        return false;
    };
    // No warning by the exit code, as with GNU gzip: the file is in the state that is wanted.
    if session.options.verbose || !(session.options.recursive || session.options.quiet) {
        let suffix = String::from_utf8_lossy(cut.suffix);
        complain(&format!("gzip: {} already has {suffix} suffix -- unchanged", path.display()));
    }
    true
}

fn compress_in_place(session: &mut Session, path: &Path, meta: &Meta) {
    if has_suffix(session, path) {
        return;
    }
    let place = names::with_suffix(path, &session.options.suffix);
    let saved = to_be_saved(session, Some(path), Some(meta));
    let level = session.options.level;
    exchange::exchange(session, path, |input, output| {
        let file = output.create(place)?;
        let summary = stream::compress(input, file, &saved, level, Some(meta.len))?;
        Ok((summary, meta.mtime))
    });
}

fn decompress_in_place(session: &mut Session, path: &Path, meta: &Meta) {
    let Some(cut) = names::cut(path, &session.options.suffix) else {
        return unknown_suffix(session, path);
    };
    let place = cut.decompressed();
    let restore = session.options.name == Some(true);
    exchange::exchange(session, path, |input, output| {
        let open = |saved: &Saved| {
            let name = saved.name.as_deref().filter(|_| restore).and_then(names::saved_name);
            output.create(name.map_or(place, |n| path.with_file_name(n)))
        };
        let summary = stream::decompress(input, open, false, Some(meta.len))?;
        let mtime = match summary.saved.mtime {
            seconds if restore && seconds != 0 => Time { seconds: seconds.into(), nanos: 0 },
            _ => meta.mtime,
        };
        Ok((summary, mtime))
    });
}

/// The summary of a run that went well; otherwise the error is told. What trails the data is told too.
pub(crate) fn settled(session: &mut Session, path: &Path, result: Result<Summary, StreamError>) -> Option<Summary> {
    let summary = match result {
        Ok(summary) => summary,
        Err(StreamError::Write(error)) if session.options.leaves_files() => {
            session.error(Path::new("stdout"), &reason(&error));
            return None;
        }
        Err(error) => {
            session.error(path, &error.to_string());
            return None;
        }
    };
    match summary.trailing {
        Trailing::Nothing => {}
        // Padding of a tape's block is no news unless all is to be said.
        Trailing::Zeros if !session.options.verbose => {}
        Trailing::Zeros => {
            session.warn(&format!("{}: decompression OK, trailing zero bytes ignored", path.display()));
        }
        Trailing::Garbage => {
            session.warn(&format!("{}: decompression OK, trailing garbage ignored", path.display()));
        }
    }
    Some(summary)
}

/// How much shorter the compressed bytes are than what they stand for.
pub(crate) fn percent(session: &Session, summary: &Summary) -> String {
    let (compressed, plain) = match session.options.mode {
        Mode::Compress => (summary.written, summary.read),
        _ => (summary.read, summary.written),
    };
    list::ratio(compressed.saturating_sub(summary.overhead), plain)
}
