//! Lets an output take the place of the file that it was made from.

use crate::files::{percent, settled};
use crate::session::Session;
use crate::stream::{StreamError, Summary};
use opship_guest::files::{self, Time};
use opship_ops_common::reason;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that is being made.
pub(crate) struct Output {
    force: bool,
    place: PathBuf,
    made: Option<File>,
}

impl Output {
    /// Makes the file; one that exists is replaced only by force.
    pub(crate) fn create(&mut self, place: PathBuf) -> Result<&File, io::Error> {
        self.place = place;
        if self.force {
            // Removed first, so that neither a link is followed nor another name's content changed.
            match fs::remove_file(&self.place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let file = File::create_new(&self.place)?;
        Ok(self.made.insert(file))
    }
}

/// Reads `path` by `work`, which makes the output and says what modification time it gets; then the
/// output gets the mode of `path`, and `path` is removed unless it is kept. After an error `path`
/// is as it was and there is no output.
pub(crate) fn exchange(
    session: &mut Session,
    path: &Path,
    work: impl FnOnce(&File, &mut Output) -> Result<(Summary, Time), StreamError>,
) {
    let input = match File::open(path) {
        Ok(file) => file,
        Err(error) => return session.error(path, &reason(&error)),
    };
    let mut output = Output { force: session.options.force, place: PathBuf::new(), made: None };
    let result = work(&input, &mut output);
    let Output { place, made, .. } = output;
    let Some(made) = made else {
        return not_made(session, path, &place, result.err());
    };
    let (result, mtime) = match result {
        Ok((summary, mtime)) => (Ok(summary), Some(mtime)),
        Err(StreamError::Write(error)) => {
            session.error(&place, &reason(&error));
            return discard(session, made, &place);
        }
        Err(error) => (Err(error), None),
    };
    let (Some(summary), Some(mtime)) = (settled(session, path, result), mtime) else {
        return discard(session, made, &place);
    };
    if let Err(error) = finish(&input, made, mtime) {
        session.error(&place, &reason(&error));
        return;
    }
    let keep = session.options.keep;
    if !keep && let Err(error) = fs::remove_file(path) {
        return session.error(path, &reason(&error));
    }
    let done = if keep { "created" } else { "replaced with" };
    session.tell(&format!("{}:\t{} -- {done} {}", path.display(), percent(session, &summary), place.display()));
}

/// Mode and time as the input's. The time last: writing changes it.
fn finish(input: &File, made: File, mtime: Time) -> io::Result<()> {
    let mode = opship_guest::fd_mode(input)?;
    opship_guest::set_fd_mode(&made, mode & 0o777)?;
    files::set_fd_mtime(&made, mtime)
}

fn not_made(session: &mut Session, path: &Path, place: &Path, error: Option<StreamError>) {
    match error {
        Some(StreamError::Write(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
            session.warn(&format!("{} already exists;\tnot overwritten", place.display()));
        }
        Some(StreamError::Write(error)) => session.error(place, &reason(&error)),
        Some(error) => session.error(path, &error.to_string()),
        None => {}
    }
}

/// Takes back what was made of an input that turned out bad.
fn discard(session: &mut Session, made: File, place: &Path) {
    drop(made);
    if let Err(error) = fs::remove_file(place) {
        session.error(place, &reason(&error));
    }
}
