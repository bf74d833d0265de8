//! Bytes of blobs: small ones are packed in the database, larger ones are objects `blobs/ab/<hash>`, durable before the
//! transaction that names them.

use crate::StorageError;
use crate::data_dir::{make_dir, sync_dir};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload, path::Path as ObjectPath};
use opship_record::{Hash, Hasher};
use opship_world::{FileContent, Produced, ProducedBody, SourceError, Spill, SpillFile, read_fully_at};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Longest blob, in bytes, that is packed in the database.
pub const SMALL_BLOB: usize = 32 << 10;

/// Bytes that are passed on at once: the least that S3 and its like accept for a part.
const PART: usize = 5 << 20;

/// What came in from a stream, verified.
pub(crate) enum Received {
    /// Small enough for the database.
    Small(Vec<u8>),
    /// Durable in the blob store; this many bytes.
    Large(u64),
}

/// The store of larger blobs.
pub(crate) struct Blobs {
    store: LocalFileSystem,
    root: PathBuf,
}

impl Blobs {
    /// Opens or makes the folder `blobs` in the data directory.
    pub(crate) fn open(data: &Path) -> Result<Blobs, StorageError> {
        let root = data.join("blobs");
        let failed = || StorageError::io(format!("making {}", root.display()));
        // The last folder is made last, so that it stands for all of them. Durable folders spare every upload from
        // making its own so.
        if !root.join("ff").is_dir() {
            for first in 0..=255u8 {
                make_dir(&root.join(format!("{first:02x}")))?;
            }
            sync_dir(&root).and_then(|()| sync_dir(data)).map_err(failed())?;
        }
        let store = LocalFileSystem::new_with_prefix(data)?.with_fsync(true);
        Ok(Blobs { store, root })
    }

    fn location(hash: &Hash) -> ObjectPath {
        let name = hash.to_string();
        ObjectPath::from_iter(["blobs", &name[..2], &name])
    }

    fn file(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        self.root.join(&name[..2]).join(&name)
    }

    /// Takes a stream in. `is_stored` says that a larger blob of this hash is durable already: then the bytes are
    /// only verified. What does not have the expected hash is removed.
    pub(crate) async fn receive<S, E>(
        &self,
        expected: Hash,
        limit: u64,
        is_stored: bool,
        mut bytes: S,
    ) -> Result<Received, StorageError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let mut incoming = Incoming { hasher: Hasher::new(), length: 0, buffer: BytesMut::new(), upload: None };
        while let Some(chunk) = bytes.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    incoming.abort().await;
                    return Err(StorageError::Upload(error.to_string()));
                }
            };
            if let Err(error) = incoming.take(self, expected, limit, is_stored, &chunk).await {
                incoming.abort().await;
                return Err(error);
            }
        }
        let found = incoming.hasher.finish();
        if found != expected {
            incoming.abort().await;
            return Err(StorageError::WrongHash { expected, found });
        }
        if incoming.length <= SMALL_BLOB as u64 {
            return Ok(Received::Small(incoming.buffer.into()));
        }
        let length = incoming.length;
        incoming.complete().await?;
        Ok(Received::Large(length))
    }

    /// Makes what a run produced durable: moves its file into place where possible, copies otherwise.
    pub(crate) fn keep_large(&self, produced: &Produced) -> Result<(), StorageError> {
        let target = self.file(&produced.hash);
        if let ProducedBody::Spilled(SpillFile { file, path: Some(path) }) = &produced.body {
            file.sync_all().map_err(StorageError::io(format!("writing {}", path.display())))?;
            match std::fs::hard_link(path, &target) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StorageError::io(format!("making {}", target.display()))(error));
                }
                _ => {
                    let folder = target.parent().unwrap_or(&self.root);
                    return sync_dir(folder).map_err(StorageError::io(format!("writing {}", folder.display())));
                }
            }
        }
        // The copy is verified on its way like any other upload.
        let chunks = futures::stream::unfold(0, |offset| std::future::ready(next_chunk(produced, offset)));
        let received = self.receive(produced.hash, u64::MAX, false, Box::pin(chunks));
        futures::executor::block_on(received).map(|_| ())
    }

    /// A blob of the blob store, for reading.
    pub(crate) fn read(&self, hash: &Hash, length: u64) -> Result<BlobContent, StorageError> {
        let path = self.file(hash);
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
        Ok(BlobContent { hash: *hash, length, bytes: Repr::File(Arc::new(file)) })
    }

    /// Removes what uploads left behind that a crash before `started` interrupted.
    pub(crate) fn remove_leftovers(root: &Path, started: SystemTime) {
        for folder in (0..=255u8).map(|first| root.join(format!("{first:02x}"))) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                // The blob store writes to `<name>#<number>` before it renames.
                let unfinished = entry.file_name().as_encoded_bytes().contains(&b'#');
                let old = || entry.metadata().and_then(|m| m.modified()).is_ok_and(|time| time < started);
                if unfinished && old() {
                    // One that cannot be removed now will be at the next start.
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

fn next_chunk(produced: &Produced, offset: u64) -> Option<(io::Result<Bytes>, u64)> {
    let mut buffer = vec![0; PART];
    match produced.read_at(offset, &mut buffer) {
        Ok(0) => None,
        Ok(count) => {
            buffer.truncate(count);
            Some((Ok(buffer.into()), offset + count as u64))
        }
        Err(error) => Some((Err(error), offset)),
    }
}

/// An upload under way.
struct Incoming {
    hasher: Hasher,
    length: u64,
    buffer: BytesMut,
    /// From the first part on.
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Incoming {
    async fn take(
        &mut self,
        blobs: &Blobs,
        hash: Hash,
        limit: u64,
        is_stored: bool,
        chunk: &[u8],
    ) -> Result<(), StorageError> {
        self.length += chunk.len() as u64;
        if self.length > limit {
            return Err(StorageError::TooLong { limit });
        }
        self.hasher.update(chunk);
        if is_stored && self.length > SMALL_BLOB as u64 {
            self.buffer.clear();
            return Ok(());
        }
        self.buffer.extend_from_slice(chunk);
        if self.length > SMALL_BLOB as u64 && self.upload.is_none() {
            self.upload = Some(blobs.store.put_multipart(&Blobs::location(&hash)).await?);
        }
        while self.buffer.len() >= PART {
            let part = self.buffer.split_to(PART).freeze();
            self.put(part).await?;
        }
        Ok(())
    }

    async fn put(&mut self, part: Bytes) -> Result<(), StorageError> {
        if let Some(upload) = &mut self.upload {
            upload.put_part(PutPayload::from_bytes(part)).await?;
        }
        Ok(())
    }

    /// Writes the rest and makes all of it durable under its name.
    async fn complete(&mut self) -> Result<(), StorageError> {
        if self.upload.is_none() {
            return Ok(());
        }
        let rest = self.buffer.split().freeze();
        let mut done = self.put(rest).await;
        if let (Ok(()), Some(upload)) = (&done, &mut self.upload) {
            done = upload.complete().await.map(|_| ()).map_err(StorageError::from);
        }
        if done.is_err() {
            self.abort().await;
        }
        done
    }

    async fn abort(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            // If this fails, the leftover goes at the next start.
            let _ = upload.abort().await;
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
    File(Arc<File>),
}

impl BlobContent {
    pub(crate) fn small(hash: Hash, bytes: Vec<u8>) -> BlobContent {
        BlobContent { hash, length: bytes.len() as u64, bytes: Repr::Memory(bytes.into()) }
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
            Repr::File(file) => read_fully_at(file, offset, buffer).map_err(|error| SourceError {
                path: format!("blob {}", self.hash),
                detail: format!("reading it failed ({error}); look at the server's disk"),
                changed: false,
            }),
        }
    }
}

/// Where replays put large outputs: a folder of the data directory, cleared at each start. On the same file system as
/// the blobs, so that an output is moved and not copied.
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
