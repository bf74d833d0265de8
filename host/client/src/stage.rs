//! Makes what an exchange will put in place ready in the staging folder: bytes, mode, mtime, durable.

use crate::ClientError;
use crate::fs::{Root, copy_content, write_new};
use crate::staging::{STAGING, Staging};
use crate::steps::Staged;
use crate::working_copy::Shared;
use opship_record::effect::{After, Change};
use opship_record::node::DEFAULT_FILE_MODE;
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, Produced, ProducedBody};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use tempfile::TempPath;

/// From this many files or folders on, one call for the whole file system is faster than one each.
pub(crate) const SYNC_ALL_FROM: usize = 24;

/// Where the bytes of a staged file come from.
pub(crate) enum Bytes {
    /// A run made them.
    Produced(Produced),
    /// They are somewhere else, and are checked while they are copied.
    Content(std::sync::Arc<dyn FileContent>),
    /// A file of opship's own that nobody else needs, with verified bytes: it is moved.
    Finished(TempPath),
}

/// Stages the files and links that `changes` make, all with their modes set.
pub(crate) fn stage(
    shared: &Shared,
    staging: &Staging,
    changes: &[Change],
    bytes: &mut dyn FnMut(&TreePath, &Hash) -> Result<Bytes, ClientError>,
) -> Result<BTreeMap<TreePath, Staged>, ClientError> {
    let mut staged = BTreeMap::new();
    let mut files = Vec::new();
    for change in changes {
        let failed = || ClientError::io(format!("staging '{}'", change.path));
        let slot = match &change.after {
            After::File { hash, mode, mtime, .. } => {
                let (file, slot) = write(shared, staging, hash, bytes(&change.path, hash)?).map_err(failed())?;
                let mode = mode.unwrap_or(DEFAULT_FILE_MODE);
                Root::set_mtime_of(&file, *mtime).map_err(failed())?;
                let bits = rustix::fs::Mode::from_raw_mode(u32::from(mode));
                rustix::fs::fchmod(&file, bits).map_err(io::Error::from).map_err(failed())?;
                // Descriptors are few; many files are made durable at once.
                if files.len() < SYNC_ALL_FROM {
                    files.push(file);
                }
                slot
            }
            After::Symlink { target, mtime } => {
                let slot = staging.new_path();
                shared.root.make_link(&slot, target).map_err(failed())?;
                shared.root.set_mtime(&slot, *mtime).map_err(failed())?;
                slot
            }
            _ => continue,
        };
        let found = shared.root.stat(&slot).map_err(failed())?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let inode = found.map_err(failed())?.signature.inode;
        staged.insert(change.path.clone(), Staged { slot, inode });
    }
    sync(shared, staging, &files, staged.len()).map_err(ClientError::io("making staged files durable"))?;
    Ok(staged)
}

fn sync(shared: &Shared, staging: &Staging, files: &[File], count: usize) -> io::Result<()> {
    if count >= SYNC_ALL_FROM {
        return shared.root.sync_all();
    }
    files.iter().try_for_each(File::sync_all)?;
    shared.root.sync_directory(staging.folder())?;
    shared.root.sync_directory(STAGING)
}

fn write(shared: &Shared, staging: &Staging, hash: &Hash, bytes: Bytes) -> io::Result<(File, String)> {
    match bytes {
        Bytes::Produced(Produced { body: ProducedBody::Memory(bytes), .. }) => {
            let (mut file, slot) = staging.new_file()?;
            file.write_all(&bytes)?;
            Ok((file, slot))
        }
        Bytes::Produced(Produced { body: ProducedBody::Spilled(mut spill), .. }) => {
            let file = spill.file.try_clone()?;
            // It lies in the staging folder already; taking the path keeps it there.
            match spill.path.take().and_then(|path| shared.below_root(&path)) {
                Some(slot) => Ok((file, slot)),
                None => Err(io::Error::other("a spilled file is not in the staging folder")),
            }
        }
        Bytes::Finished(file) => {
            let slot = staging.new_path();
            let outside = || io::Error::other("a downloaded file is not in the working copy");
            let from = shared.below_root(&file).ok_or_else(outside)?;
            shared.root.rename(&from, &slot)?;
            Ok((shared.root.open_file(&slot)?, slot))
        }
        Bytes::Content(content) => {
            let slot = staging.new_path();
            let mut file = write_new(&shared.root, &slot)?;
            copy_checked(content.as_ref(), hash, &mut file)?;
            Ok((file, slot))
        }
    }
}

/// Copies a content, which must have this hash, into the empty file `to`.
pub(crate) fn copy_checked(content: &dyn FileContent, hash: &Hash, to: &mut File) -> io::Result<()> {
    if copy_content(content, to)? != *hash {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the bytes changed while they were copied; try again"));
    }
    Ok(())
}
