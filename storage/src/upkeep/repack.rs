//! Packs that hold little that is needed are written again, and go.

use super::collect::CollectReport;
use super::{OnProgress, Progress};
use crate::packs::{MAGIC, PackWriter};
use crate::sqlite::chunks::{self, Place};
use crate::sqlite::{Result, upkeep};
use crate::store::Inner;
use crate::{StorageError, failpoint};
use rustix::fs::FallocateFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// A pack is written again when at least one in so many of its bytes is needed no longer.
const WORTH: u64 = 3;

pub(super) fn repack(inner: &Arc<Inner>, report: &mut CollectReport, progress: &mut OnProgress<'_>) -> Result<()> {
    let packs = inner.database.read(upkeep::pack_use)?;
    let total = packs.len() as u64;
    for (done, (pack, length, used)) in (0..).zip(packs) {
        progress(Progress { step: "writing packs again", done, total });
        let dead = length.saturating_sub(used + MAGIC.len() as u64);
        if dead * WORTH < length || !inner.packs.retire(pack) {
            continue;
        }
        let moved = if used > 0 { move_chunks(inner, pack) } else { Ok(()) };
        match moved.map_err(|error| error.classify(inner.data.path())) {
            Err(StorageError::Damaged(what)) => {
                tracing::error!(what, pack, "a damaged pack is left as it is; run 'opship admin fsck'");
                continue;
            }
            // There is no room for what is still needed. Most file systems can free the rest in its place.
            Err(StorageError::DiskFull { .. }) => {
                report.bytes += punch(inner, pack, length)?;
                continue;
            }
            moved => moved?,
        }
        remove(inner, pack)?;
        report.packs += 1;
        report.bytes += length - used.min(length);
    }
    // What killed uploads left: they have no row, and nobody writes to them.
    for (pack, path) in inner.packs.files() {
        let Some(pack) = pack.filter(|pack| !inner.packs.is_written(*pack)) else { continue };
        let is_known = inner.database.read(|connection| chunks::is_pack(connection, pack))?;
        if !is_known && let Ok(metadata) = path.metadata() {
            report.bytes += metadata.len();
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// Writes the chunks of a pack elsewhere. Each is checked on its way: damage is not carried on, it stays where it is found.
fn move_chunks(inner: &Arc<Inner>, pack: i64) -> Result<()> {
    let mut writer = PackWriter::new(&inner.packs);
    let mut moved: Vec<(i64, Place)> = Vec::new();
    for chunk in inner.database.read(|connection| chunks::in_pack(connection, pack))? {
        let missing = || StorageError::damaged(format!("{} is missing", inner.packs.path(pack).display()));
        let stored = inner.packs.stored(&chunk.place)?.ok_or_else(missing)?;
        inner.packs.unpack(&chunk, stored.clone())?;
        moved.push((chunk.id, writer.append(&stored)?));
    }
    let packs = writer.sync()?;
    failpoint::hit("gc-repacked");
    inner.database.write(move |connection| {
        packs.iter().try_for_each(|(number, length)| chunks::set_pack(connection, *number, *length))?;
        moved.iter().try_for_each(|(chunk, place)| chunks::set_place(connection, *chunk, place))
    })?;
    writer.keep();
    failpoint::hit("gc-moved");
    Ok(())
}

/// Frees what lies between the chunks of a pack that nobody writes to, and leaves them where they are. Gives the bytes.
fn punch(inner: &Arc<Inner>, pack: i64, length: u64) -> Result<u64> {
    let path = inner.packs.path(pack);
    let failed = || StorageError::io(format!("freeing parts of {}", path.display()));
    let file = OpenOptions::new().write(true).open(&path).map_err(failed())?;
    let taken = || file.metadata().map(|metadata| metadata.blocks() * 512).map_err(failed());
    let before = taken()?;
    let mut end = MAGIC.len() as u64;
    let chunks = inner.database.read(|connection| chunks::in_pack(connection, pack))?;
    let places = chunks.iter().map(|chunk| (chunk.place.offset, chunk.place.offset.saturating_add(chunk.place.stored)));
    for (start, after) in places.chain([(length, length)]) {
        if start > end {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(error) = rustix::fs::fallocate(&file, how, end, start - end) {
                tracing::debug!(%error, pack, "the file system frees no part of a file");
                break;
            }
        }
        end = end.max(after);
    }
    Ok(before.saturating_sub(taken()?))
}

fn remove(inner: &Arc<Inner>, pack: i64) -> Result<()> {
    if inner.database.write(move |connection| upkeep::remove_pack(connection, pack))? {
        failpoint::hit("gc-pack");
        let path = inner.packs.path(pack);
        std::fs::remove_file(&path).map_err(StorageError::io(format!("removing {}", path.display())))?;
        inner.packs.close(pack);
    }
    Ok(())
}
