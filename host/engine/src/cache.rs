//! Compiled modules on disk, and the only unsafe code of this crate.
//!
//! An entry is named `HASH-ENGINE`, after the module and everything that decides what it is compiled to. It holds a keyed
//! BLAKE3 code of its name and the compiled form, then the compiled form. The key lives beside the entries in a folder that
//! only its owner can enter: the code guards against entries that were damaged, swapped or copied from another machine.

use crate::EngineError;
use opship_record::Hash;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::Hash as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use wasmtime::Module;

const KEY_BYTES: usize = 32;
const CODE_BYTES: usize = blake3::OUT_LEN;
/// Most bytes of all entries; the oldest go first.
const KEPT_BYTES: u64 = 8 << 30;

/// A folder of compiled modules.
pub(crate) struct DiskCache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
    engine: String,
}

impl DiskCache {
    /// Opens the cache for what `engine` compiles, and makes the folder and its key if they are missing.
    pub(crate) fn open(folder: &Path, engine: &wasmtime::Engine) -> Result<DiskCache, EngineError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| EngineError::Cache { path, detail: error.to_string() }
        };
        make_private(folder).map_err(failed(folder))?;
        let key_path = folder.join("key");
        let key = key(&key_path).map_err(failed(&key_path))?;
        let mut compatibility = CompatibilityHasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut compatibility);
        let engine = compatibility.0.finalize().to_hex().to_string();
        Ok(DiskCache { folder: folder.to_owned(), key, engine })
    }

    /// The module `hash`, if there is an entry for it that this cache wrote.
    pub(crate) fn get(&self, hash: &Hash, engine: &wasmtime::Engine) -> Option<Module> {
        let name = self.name(hash);
        let path = self.folder.join(&name);
        let file = read_regular(&path).ok()?;
        let module = self.checked(&name, &file).and_then(|artifact| deserialize_own(engine, artifact).ok());
        if module.is_none() {
            tracing::warn!(entry = name, "a compiled module on disk was damaged; it is compiled again");
            let _ = fs::remove_file(&path);
        }
        module
    }

    /// Is there an entry for the module `hash`? Whether it is sound shows when it is loaded.
    pub(crate) fn holds(&self, hash: &Hash) -> bool {
        self.folder.join(self.name(hash)).exists()
    }

    /// Keeps the compiled form of `hash`. A cache that cannot be written costs time, not the run.
    pub(crate) fn put(&self, hash: &Hash, artifact: &[u8]) {
        if let Err(error) = self.write(&self.name(hash), artifact).and_then(|()| self.prune()) {
            tracing::warn!(%error, "a compiled module could not be kept on disk; it will be compiled again");
        }
    }

    fn name(&self, hash: &Hash) -> String {
        format!("{hash}-{}", self.engine)
    }

    fn code(&self, name: &str, artifact: &[u8]) -> blake3::Hash {
        // The name has a fixed length, so that no other pair of name and artifact gives the same bytes.
        blake3::Hasher::new_keyed(&self.key).update(name.as_bytes()).update(artifact).finalize()
    }

    /// The artifact in an entry's bytes, if its code is right (compared in constant time).
    fn checked<'a>(&self, name: &str, file: &'a [u8]) -> Option<&'a [u8]> {
        let (code, artifact) = file.split_first_chunk::<CODE_BYTES>()?;
        (self.code(name, artifact) == *code).then_some(artifact)
    }

    fn write(&self, name: &str, artifact: &[u8]) -> io::Result<()> {
        let temporary = self.folder.join(format!(".{:016x}", random::<8>().map(u64::from_le_bytes)?));
        let write = || {
            let mut file = create_private(&temporary)?;
            file.write_all(self.code(name, artifact).as_bytes())?;
            file.write_all(artifact)?;
            fs::rename(&temporary, self.folder.join(name))
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Removes the oldest entries while all together are too large.
    fn prune(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if entry.file_name() != "key" && metadata.is_file() {
                entries.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|entry| entry.1).sum();
        for (_, length, path) in entries {
            if total <= KEPT_BYTES {
                break;
            }
            fs::remove_file(path)?;
            total -= length;
        }
        Ok(())
    }
}

/// Turns a compiled form into a module.
///
/// `artifact` comes from [`wasmtime::Engine::precompile_module`]: in this process, in the compiling process, or out of an entry
/// whose code was checked on these very bytes.
#[allow(unsafe_code)]
pub(crate) fn deserialize_own(engine: &wasmtime::Engine, artifact: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: deserialising is unsafe because an artifact is native code, which is run without further checks. Every caller
    // passes bytes that our own compiler made (see above). They are borrowed memory, not a file that could change under us,
    // and wasmtime refuses those of another version or other settings.
    unsafe { Module::deserialize(engine, artifact) }
}

/// Makes a folder that only we can enter; refuses one that is another's or a link.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is no folder of this user's own"));
    }
    if metadata.mode() & 0o777 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The key; made when it is missing, and anew when it is damaged: then all entries are compiled again.
fn key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    loop {
        match read_regular(path) {
            Ok(bytes) => {
                if let Ok(key) = <[u8; KEY_BYTES]>::try_from(bytes) {
                    return Ok(key);
                }
                fs::remove_file(path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Written aside and linked into place, so that of two processes that start at once both use the same whole key.
        let temporary = path.with_file_name(format!(".{:016x}", random::<8>().map(u64::from_le_bytes)?));
        create_private(&temporary)?.write_all(&random::<KEY_BYTES>()?)?;
        let linked = fs::hard_link(&temporary, path);
        fs::remove_file(&temporary)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// All bytes of a regular file; links are not followed.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let length = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Feeds what decides an engine's output to BLAKE3 in place of a 64-bit hash.
struct CompatibilityHasher(blake3::Hasher);

impl std::hash::Hasher for CompatibilityHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0.finalize().as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}
