//! Packs that hold little that is needed are written again, and go.

use super::collect::CollectReport;
use super::{OnProgress, Progress};
use crate::packs::{MAGIC, PackWriter};
use crate::sqlite::chunks::{self, Place};
use crate::sqlite::{Result, upkeep};
use crate::store::Inner;
use crate::{StorageError, failpoint};
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
        match if used > 0 { move_chunks(inner, pack) } else { Ok(()) } {
            Err(StorageError::Damaged(what)) => {
                tracing::error!(what, pack, "a damaged pack is left as it is; run 'opship admin fsck'");
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

fn remove(inner: &Arc<Inner>, pack: i64) -> Result<()> {
    if inner.database.write(move |connection| upkeep::remove_pack(connection, pack))? {
        failpoint::hit("gc-pack");
        let path = inner.packs.path(pack);
        std::fs::remove_file(&path).map_err(StorageError::io(format!("removing {}", path.display())))?;
        inner.packs.close(pack);
    }
    Ok(())
}
