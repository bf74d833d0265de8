//! Bundles: a version and what waits to be shipped, in one file, for a disk that is carried instead of a slow link.
//!
//! [`create`] makes one in a working copy. [`Bundle::open`] reads one and checks all of it; then [`Bundle::clone_into`] and
//! [`Bundle::apply`] bring its version to a folder without the server, and [`Bundle::carry`] ships its entries beside the
//! server. Invariant: nothing is changed before the whole bundle has been found in order, and what it says of its version is
//! believed only until the server can be asked.

mod apply;
mod carry;
mod create;
mod format;
mod plan;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use apply::Applied;
pub use carry::{Carried, CarriedEntry};
pub use create::{CreateOptions, Created, create};
pub use format::{Claim, Head};

use crate::ClientError;
use crate::sync::Source;
use format::{BundledEntry, Kind, State};
use opship_record::Hash;
use read::{Contents, Sections};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A bundle that is whole and agrees with itself.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    file: Arc<File>,
    found: Contents,
}

impl Bundle {
    /// Reads a bundle and checks all of it: checksum, encoding, lists against the entries that name them, contents against
    /// their hashes. Blocks for as long as reading the file takes.
    ///
    /// # Errors
    /// [`ClientError::Bundle`] for what is no whole bundle, [`ClientError::Io`].
    pub fn open(path: &Path) -> Result<Bundle, ClientError> {
        let opened = || -> io::Result<Bundle> {
            let file = Arc::new(File::open(path)?);
            let found = read::scan(BufReader::with_capacity(256 << 10, From { file: Arc::clone(&file), at: 0 }))?;
            Ok(Bundle { path: path.to_owned(), file, found })
        };
        let bundle = opened().map_err(|error| refused(path, error))?;
        bundle.source().map_err(|error| refused(path, format::bad(error)))?;
        Ok(bundle)
    }

    /// What it is of.
    pub fn head(&self) -> &Head {
        &self.found.head
    }

    /// The workspace that it is of, by the words of a bundle that may be anybody's.
    fn source(&self) -> Result<Source, ClientError> {
        Source::new(self.head().server.parse()?, &self.head().workspace)
    }

    fn states(&self) -> &[State] {
        &self.found.states
    }

    fn sections(&self, at: u64) -> Sections<impl Read + Send + use<>> {
        Sections::at(BufReader::with_capacity(64 << 10, From { file: Arc::clone(&self.file), at }), at)
    }

    fn entries(&self) -> impl Iterator<Item = Result<BundledEntry, ClientError>> {
        self.found.entries.iter().map(|at| {
            let section = self.sections(*at).expect(Kind::Entry);
            section.and_then(|section| read::decode_entry(&section)).map_err(|error| refused(&self.path, error))
        })
    }

    /// The bytes of a tree node, if they are here.
    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>, ClientError> {
        let Some(at) = self.found.nodes.get(hash) else { return Ok(None) };
        self.sections(*at).expect(Kind::Node).map(Some).map_err(|error| refused(&self.path, error))
    }

    /// The length of a content that is here.
    fn length_of(&self, hash: &Hash) -> Option<u64> {
        self.found.contents.get(hash).map(|(_, length)| *length)
    }

    /// A content that is here, for reading it once from its start. Its bytes were checked; whoever keeps them checks again.
    fn content(&self, hash: &Hash) -> Result<Option<impl Read + Send + use<>>, ClientError> {
        let Some((at, length)) = self.found.contents.get(hash) else { return Ok(None) };
        let content = read::unpacked(Box::new(self.sections(*at)), *length);
        content.map(Some).map_err(ClientError::io("reading a bundle"))
    }
}

/// Reads a file from a place on, whatever others read of it.
struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// An error of reading a bundle, for people.
fn refused(path: &Path, error: io::Error) -> ClientError {
    let detail = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        io::ErrorKind::InvalidData => error.to_string(),
        _ => return ClientError::io(format!("reading the bundle '{}'", path.display()))(error),
    };
    ClientError::Bundle { file: path.to_owned(), detail }
}

/// For fuzzing: reads a bundle from memory and checks all of it.
///
/// # Errors
/// What is wrong with it.
#[doc(hidden)]
pub fn check(bytes: &[u8]) -> io::Result<Head> {
    read::scan(bytes).map(|found| found.head)
}
