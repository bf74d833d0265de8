//! The bytes of a blob, wherever they are: in the database (small ones), in chunks, or, of data directories from before
//! there were chunks, in a file `blobs/ab/<hash>`.

use crate::StorageError;
use crate::packs::Chunked;
use opship_record::{Hash, Hasher};
use opship_world::{FileContent, SourceError, Spill, SpillFile, read_fully_at};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest blob, in bytes, that is packed in the database.
pub const SMALL_BLOB: usize = 32 << 10;

/// Bytes that are hashed at one time.
const PIECE: usize = 256 << 10;

/// Files of blobs from before there were chunks. None is made any more.
pub(crate) struct BlobFiles {
    root: PathBuf,
    /// Those that were found to have their hash since the server started.
    verified: Mutex<HashSet<Hash>>,
}

impl BlobFiles {
    pub(crate) fn new(data: &Path) -> BlobFiles {
        BlobFiles { root: data.join("blobs"), verified: Mutex::default() }
    }

    /// Where the file of a blob is, if it has one.
    pub(crate) fn path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        self.root.join(&name[..2]).join(&name)
    }

    /// All files below the folder.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        folders
            .flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten())
            .map(|file| file.path())
            .collect()
    }

    /// Opens a blob's file. The first time it is read as a whole, since nothing else would show a damaged one.
    pub(crate) fn open(&self, hash: &Hash, length: u64) -> Result<File, StorageError> {
        let file = self.open_unread(hash, length)?;
        let is_verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(hash);
        if !is_verified {
            self.verify(hash, &file)?;
            self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(*hash);
        }
        Ok(file)
    }

    /// Reads a blob's file and compares it with its hash.
    pub(crate) fn check(&self, hash: &Hash, length: u64) -> Result<(), StorageError> {
        self.verify(hash, &self.open_unread(hash, length)?)
    }

    fn open_unread(&self, hash: &Hash, length: u64) -> Result<File, StorageError> {
        let path = self.path(hash);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StorageError::damaged(format!("blob {hash} is missing")));
            }
            file => file.map_err(StorageError::io(format!("opening {}", path.display())))?,
        };
        let found = file.metadata().map_err(StorageError::io(format!("opening {}", path.display())))?.len();
        if found != length {
            return Err(StorageError::damaged(format!("blob {hash} has {found} bytes instead of {length}")));
        }
        Ok(file)
    }

    fn verify(&self, hash: &Hash, file: &File) -> Result<(), StorageError> {
        let path = self.path(hash);
        let found = hash_file(file).map_err(StorageError::io(format!("reading {}", path.display())))?;
        if found == *hash {
            return Ok(());
        }
        Err(StorageError::damaged(format!("blob {hash} has other bytes: {}", path.display())))
    }
}

fn hash_file(file: &File) -> io::Result<Hash> {
    let (mut hasher, mut buffer, mut at) = (Hasher::new(), vec![0; PIECE], 0);
    loop {
        match read_fully_at(file, at, &mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}

/// The bytes of a blob; read them with [`FileContent::read_at`].
#[derive(Debug, Clone)]
pub struct BlobContent {
    hash: Hash,
    length: u64,
    bytes: Repr,
}

#[derive(Debug, Clone)]
enum Repr {
    Memory(Arc<[u8]>),
    Chunks(Arc<Chunked>),
    File(Arc<File>),
}

impl BlobContent {
    /// # Errors
    /// [`StorageError::Damaged`] if the bytes have another hash.
    pub(crate) fn small(hash: Hash, bytes: Vec<u8>) -> Result<BlobContent, StorageError> {
        if Hash::of(&bytes) != hash {
            return Err(StorageError::damaged(format!("blob {hash} has other bytes in the database")));
        }
        Ok(BlobContent { hash, length: bytes.len() as u64, bytes: Repr::Memory(bytes.into()) })
    }

    pub(crate) fn chunked(hash: Hash, length: u64, chunks: Chunked) -> BlobContent {
        BlobContent { hash, length, bytes: Repr::Chunks(Arc::new(chunks)) }
    }

    pub(crate) fn file(hash: Hash, length: u64, file: File) -> BlobContent {
        BlobContent { hash, length, bytes: Repr::File(Arc::new(file)) }
    }

    fn failed(&self, detail: String) -> SourceError {
        SourceError { path: format!("blob {}", self.hash), detail, changed: false }
    }
}

impl FileContent for BlobContent {
    fn length(&self) -> u64 {
        self.length
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        match &self.bytes {
            Repr::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Repr::Chunks(chunks) => chunks.read_at(offset, buffer).map_err(|error| self.failed(error.to_string())),
            Repr::File(file) => read_fully_at(file, offset, buffer)
                .map_err(|error| self.failed(format!("reading it failed ({error}); look at the server's disk"))),
        }
    }
}

/// Where replays put large outputs: a folder of the data directory, cleared at each start.
#[derive(Debug, Clone)]
pub struct Staging {
    folder: PathBuf,
    next: Arc<AtomicU64>,
}

impl Staging {
    pub(crate) fn new(folder: PathBuf) -> Staging {
        Staging { folder, next: Arc::default() }
    }
}

impl Spill for Staging {
    fn create(&self) -> io::Result<SpillFile> {
        let path = self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(SpillFile { file, path: Some(path) })
    }

    /// At once: what a replay floods the disk with must not be what another's commit waits for.
    fn written(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
