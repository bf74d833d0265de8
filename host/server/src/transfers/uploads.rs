//! What was received of uploads that are not complete: `<data>/uploads/<workspace>-<principal>-<blob>-<document>`, of a
//! parcel `…-parcel-<name>-<name>`, the bytes as they came. A file's length is how far the upload is, so nothing has to be
//! kept beside it.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use opship_record::Hash;
use opship_storage::Scope;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};

/// How long an upload that does not go on is kept.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Uploads that a principal may have under way; the one that has rested longest makes room for another.
const EACH: usize = 64;
/// Bytes after which what was received is made durable.
const SYNC_EVERY: u64 = 4 << 20;
/// Documents that are applied at one time; each takes up to 40 MiB of memory.
const APPLIED_AT_ONCE: usize = 8;
/// Documents that are made at one time, each as long as its receiver takes; each takes up to 20 MiB of memory.
pub(crate) const MADE_AT_ONCE: usize = 64;
/// Hexadecimal digits of a document's name.
const DOCUMENT_DIGITS: RangeInclusive<usize> = 32..=32;
/// Hexadecimal digits of a parcel's name.
const PARCEL_DIGITS: RangeInclusive<usize> = 8..=32;

/// Uploads under way.
pub(crate) struct Uploads {
    folder: PathBuf,
    /// Most bytes of all uploads of one principal.
    limit: u64,
    turns: Mutex<HashMap<String, Arc<Place>>>,
    /// Permits for documents being applied.
    pub(crate) applied: Arc<Semaphore>,
    /// Permits for documents being made.
    pub(crate) made: Arc<Semaphore>,
}

/// One upload's name: whose it is, what it brings, and in which document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    principal: String,
    /// What others of the same principal bring too, so that a new one takes their place. Parcels have nothing in common.
    what: String,
    document: String,
}

impl Name {
    /// The upload of a content by a principal; `document` is 32 hexadecimal digits.
    pub(crate) fn new(scope: &Scope, content: &Hash, document: &str) -> Option<Name> {
        Name::of(scope, &content.to_string(), document, DOCUMENT_DIGITS)
    }

    /// The upload of a parcel by a principal; its name is 8 to 32 hexadecimal digits.
    pub(crate) fn of_parcel(scope: &Scope, parcel: &str) -> Option<Name> {
        Name::of(scope, &format!("parcel-{parcel}"), parcel, PARCEL_DIGITS)
    }

    fn of(scope: &Scope, what: &str, document: &str, digits: RangeInclusive<usize>) -> Option<Name> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let valid = digits.contains(&document.len()) && document.bytes().all(is_digit);
        valid.then(|| Name {
            principal: format!("{}-{}-", scope.workspace_id(), scope.principal()),
            what: what.to_owned(),
            document: document.to_owned(),
        })
    }

    /// The document's name.
    pub(crate) fn document(&self) -> &str {
        &self.document
    }

    fn file(&self) -> String {
        format!("{}{}-{}", self.principal, self.what, self.document)
    }
}

/// Where requests about one upload wait for each other.
#[derive(Default)]
struct Place {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Tells the request that has the turn that another wants it.
    wanted: Notify,
}

/// The turn of one request with an upload.
pub(crate) struct Turn {
    held: Arc<HeldPlace>,
    path: PathBuf,
}

/// Kept by each write until it has ended, even if its request is gone: who has the next turn must see all of the file.
struct HeldPlace {
    place: Arc<Place>,
    _guard: OwnedMutexGuard<()>,
}

/// How receiving ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// With the body.
    Whole(u64),
    /// The sender broke off, or asks anew on another connection.
    Cut(u64),
    /// At the limit.
    TooLong(u64),
}

impl Uploads {
    /// Uploads in a folder of the data directory, of at most `limit` bytes for each principal.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn open(data: &Path, limit: u64) -> io::Result<Uploads> {
        let folder = data.join("uploads");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let uploads = Uploads {
            folder,
            limit,
            turns: Mutex::default(),
            applied: Arc::new(Semaphore::new(APPLIED_AT_ONCE)),
            made: Arc::new(Semaphore::new(MADE_AT_ONCE)),
        };
        uploads.sweep(SystemTime::now())?;
        Ok(uploads)
    }

    /// Removes uploads that have rested for a week.
    pub(crate) fn sweep(&self, now: SystemTime) -> io::Result<()> {
        for (path, _, touched) in self.list("")? {
            if now.duration_since(touched).is_ok_and(|rested| rested > KEPT_FOR) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Path, length and time of the last change of the uploads whose names begin so.
    fn list(&self, prefix: &str) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes())
                && let Ok(metadata) = entry.metadata()
            {
                found.push((entry.path(), metadata.len(), metadata.modified()?));
            }
        }
        Ok(found)
    }

    /// Waits for the turn with an upload. Whoever receives for it stops: a sender that asks again has lost the connection.
    pub(crate) async fn turn(&self, name: &Name) -> Turn {
        let file = name.file();
        let place = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, place| Arc::strong_count(place) > 1);
            Arc::clone(turns.entry(file.clone()).or_default())
        };
        let guard = loop {
            place.wanted.notify_waiters();
            // A request that had just not begun to wait for this is told again.
            let again = tokio::time::sleep(Duration::from_millis(50));
            tokio::select! {
                guard = Arc::clone(&place.lock).lock_owned() => break guard,
                () = again => {}
            }
        };
        Turn { held: Arc::new(HeldPlace { place, _guard: guard }), path: self.folder.join(file) }
    }

    /// Begins an upload: others of the same content by the same principal are dropped, and old ones make room.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn begin(&self, name: &Name, turn: &Turn) -> io::Result<()> {
        self.sweep(SystemTime::now())?;
        for (path, ..) in self.list(&format!("{}{}-", name.principal, name.what))? {
            remove(&path)?;
        }
        let mut own = self.list(&name.principal)?;
        own.sort_by_key(|(.., touched)| *touched);
        let mut bytes: u64 = own.iter().map(|(_, length, _)| length).sum();
        let mut count = own.len();
        for (path, length, _) in own {
            if count < EACH && bytes < self.limit {
                break;
            }
            remove(&path)?;
            (count, bytes) = (count - 1, bytes - length);
        }
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&turn.path).map(drop)
    }
}

impl Turn {
    /// How far the upload is; `None` if there is none.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn offset(&self) -> io::Result<Option<u64>> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes received.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Forgets the upload.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn drop_upload(&self) -> io::Result<()> {
        remove(&self.path)
    }

    /// Adds what comes, at most to `limit` bytes in all; what has come is durable when this ends.
    ///
    /// # Errors
    /// The operating system's, of writing.
    pub(crate) async fn append(
        &self,
        limit: u64,
        mut bytes: impl Stream<Item = io::Result<Bytes>> + Unpin,
    ) -> io::Result<Appended> {
        let file = OpenOptions::new().append(true).open(&self.path)?;
        let mut length = file.metadata()?.len();
        let (mut file, mut unsynced) = (Arc::new(file), 0);
        let ended = loop {
            let piece = tokio::select! {
                () = self.held.place.wanted.notified() => break Appended::Cut(length),
                piece = bytes.next() => piece,
            };
            let piece = match piece {
                None => break Appended::Whole(length),
                Some(Err(_)) => break Appended::Cut(length),
                Some(Ok(piece)) => piece,
            };
            if length + piece.len() as u64 > limit {
                break Appended::TooLong(length);
            }
            length += piece.len() as u64;
            unsynced += piece.len() as u64;
            let sync = unsynced >= SYNC_EVERY;
            if sync {
                unsynced = 0;
            }
            file = write(file, Some(piece), sync, &self.held).await?;
        };
        write(file, None, true, &self.held).await?;
        Ok(ended)
    }
}

async fn write(file: Arc<File>, piece: Option<Bytes>, sync: bool, held: &Arc<HeldPlace>) -> io::Result<Arc<File>> {
    let held = Arc::clone(held);
    let writing = move || {
        let _held = held;
        if let Some(piece) = piece {
            (&*file).write_all(&piece)?;
        }
        if sync {
            file.sync_data()?;
        }
        Ok(file)
    };
    tokio::task::spawn_blocking(writing).await.map_err(io::Error::other)?
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
