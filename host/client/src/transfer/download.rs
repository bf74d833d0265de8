//! A download: the bytes of a compressed document are kept as they come, `.opship/downloads/<hash>`, and the next one goes
//! on behind them. Nothing is made of them before all are there, and what is made is verified.

use crate::net::Api;
use crate::source::hash_file;
use crate::{ClientError, layout};
use opship_record::{Hash, Hasher};
use opship_residual::{ResidualError, apply, packed};
use opship_world::FileContent;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::{NamedTempFile, TempPath};

/// Tries in a row that bring nothing before the download is left to the next sync.
const TRIES: u32 = 4;
/// Pause before the first of them; each next is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a download that does not go on is kept.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// A content that is here and that the wanted one may be like.
pub(crate) type Base = (Hash, Arc<dyn FileContent>);

/// Downloads a content of `length` bytes into `sink`. `false`: the server gives no document of it, or what came out was not
/// the content; the sink may hold other bytes then.
///
/// # Errors
/// [`ClientError`]: what came is kept, and a later download goes on behind it.
pub(crate) async fn download(
    api: &mut Api,
    own: &Path,
    (hash, length): (&Hash, u64),
    base: Option<Base>,
    sink: &mut File,
) -> Result<bool, ClientError> {
    let folder = layout::make_inside(own, "downloads")?;
    sweep(&folder);
    let part = Part::of(&folder, hash, base.as_ref().map(|(base, _)| base));
    let base_hash = base.as_ref().map(|(base, _)| *base);
    let mut tries = 0;
    loop {
        let before = part.length();
        match part.receive(api, hash, base_hash.as_ref()).await {
            Ok(true) => break,
            Ok(false) if before > 0 => part.remove(),
            Ok(false) => return Ok(false),
            Err(error) if matches!(error, ClientError::Connection { .. } | ClientError::Unreachable { .. }) => {
                tries = if part.length() > before { 1 } else { tries + 1 };
                if tries > TRIES {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE * 2u32.pow(tries - 1)).await;
            }
            Err(error) => return Err(error),
        }
    }
    let mut out = sink.try_clone().map_err(ClientError::io("writing a download"))?;
    let (file, wanted) = (part.bytes.clone(), *hash);
    let made = tokio::task::spawn_blocking(move || unpack(&file, &wanted, length, base, &mut out)).await;
    let made = made.map_err(|error| ClientError::Protocol { detail: error.to_string() })??;
    part.remove();
    Ok(made)
}

/// A content that an earlier process downloaded whole and did not get to apply. What a crash made of it is none.
pub(crate) fn finished(own: &Path, hash: &Hash) -> Option<TempPath> {
    let path = finished_path(own, hash);
    let found = File::open(&path).and_then(|file| hash_file(&file)).ok()?;
    let file = TempPath::try_from_path(path).ok()?;
    // Dropped, it is removed.
    (found.1 == *hash).then_some(file)
}

/// Keeps a verified content where [`finished`] finds it.
///
/// # Errors
/// [`ClientError::Io`].
pub(crate) fn keep_finished(own: &Path, hash: &Hash, file: NamedTempFile) -> Result<TempPath, ClientError> {
    let path = finished_path(own, hash);
    let failed = || ClientError::io(format!("writing '{}'", path.display()));
    layout::make_inside(own, "downloads")?;
    file.persist(&path).map_err(|error| failed()(error.error))?;
    TempPath::try_from_path(path.clone()).map_err(failed())
}

fn finished_path(own: &Path, hash: &Hash) -> PathBuf {
    own.join("downloads").join(format!("{hash}-finished"))
}

/// Removes what nobody went on with for a week.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let touched = entry.metadata().and_then(|metadata| metadata.modified());
        if touched.is_ok_and(|touched| touched.elapsed().is_ok_and(|rested| rested > KEPT_FOR)) {
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The content that a small document makes of a base; `None` if it makes another one, or none.
pub(crate) fn unpack_small(document: &[u8], hash: &Hash, length: u64, base: &Base) -> Option<Vec<u8>> {
    let mut made = Vec::new();
    apply::apply(document, length, &Here(Some(base)), &mut made).ok()?;
    (Hash::of(&made) == *hash).then_some(made)
}

/// What came of a document so far.
struct Part {
    bytes: PathBuf,
    tag: PathBuf,
}

impl Part {
    fn of(folder: &Path, hash: &Hash, base: Option<&Hash>) -> Part {
        let base = base.map_or("whole".to_owned(), Hash::short);
        Part { bytes: folder.join(format!("{hash}-{base}")), tag: folder.join(format!("{hash}-{base}.tag")) }
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.bytes).map_or(0, |metadata| metadata.len())
    }

    fn remove(&self) {
        // What stays is overwritten or goes on; it is never taken for more than it is.
        let _ = fs::remove_file(&self.bytes);
        let _ = fs::remove_file(&self.tag);
    }

    /// Receives to the end. `false`: the server does not give the bytes that would follow.
    async fn receive(&self, api: &mut Api, hash: &Hash, base: Option<&Hash>) -> Result<bool, ClientError> {
        let failed = || ClientError::io(format!("writing '{}'", self.bytes.display()));
        let tag = fs::read_to_string(&self.tag).ok();
        let from = if tag.is_some() { self.length() } else { 0 };
        let tag = tag.filter(|_| from > 0);
        let Some(mut incoming) = api.document(hash, base, from, tag.as_deref()).await? else { return Ok(false) };
        let mut options = OpenOptions::new();
        options.create(true).write(true).mode(0o600);
        let options = if from == 0 { options.truncate(true) } else { options.append(true) };
        let mut file = options.open(&self.bytes).map_err(failed())?;
        if from == 0 {
            fs::write(&self.tag, &incoming.tag).map_err(failed())?;
        }
        while let Some(piece) = incoming.body.piece().await? {
            file.write_all(&piece).map_err(failed())?;
        }
        Ok(true)
    }
}

/// Makes the content of a whole document; `false` if another content comes out, or none.
fn unpack(document: &Path, hash: &Hash, length: u64, base: Option<Base>, sink: &mut File) -> Result<bool, ClientError> {
    let failed = || ClientError::io("reading a download");
    let document = packed::decoder(File::open(document).map_err(failed())?).map_err(failed())?;
    let mut verified = Verified { sink, hasher: Hasher::new() };
    match apply::apply(document, length, &Here(base.as_ref()), &mut verified) {
        Ok(_) => Ok(verified.hasher.finish() == *hash),
        Err(ResidualError::Io(error)) if is_full(&error) => Err(ClientError::io("writing a download")(error)),
        Err(error) => {
            tracing::debug!(%error, "a download is of no use");
            Ok(false)
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// What is here to copy from.
struct Here<'a>(Option<&'a Base>);

impl<'a> apply::Sources for Here<'a> {
    type Base = Copied<'a>;

    fn base(&self, wanted: &Hash) -> io::Result<Option<Copied<'a>>> {
        Ok(self.0.filter(|(hash, _)| hash == wanted).map(|(_, content)| Copied(content)))
    }

    fn chunk(&self, _: &Hash) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

struct Copied<'a>(&'a Arc<dyn FileContent>);

impl apply::Base for Copied<'_> {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer).map_err(io::Error::other)
    }
}

/// Hashes what passes through to the sink.
struct Verified<'a> {
    sink: &'a mut File,
    hasher: Hasher,
}

impl Write for Verified<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
