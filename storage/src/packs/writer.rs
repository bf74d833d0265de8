//! Writing to packs. A writer has its packs for itself; what it wrote counts once it is [`PackWriter::keep`]t, and is cut
//! off otherwise.

use super::{MAGIC, PACK_BYTES, Packs};
use crate::StorageError;
use crate::data_dir::{make_dir, sync_dir};
use crate::sqlite::chunks::Place;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

/// Takes chunks in, into one pack after another.
pub(crate) struct PackWriter {
    packs: Arc<Packs>,
    open: Vec<Open>,
}

/// A pack that is being written.
struct Open {
    pack: i64,
    file: File,
    /// What the database knows of; 0 of a new pack.
    known: u64,
    length: u64,
    is_synced: bool,
}

impl PackWriter {
    pub(crate) fn new(packs: &Arc<Packs>) -> PackWriter {
        PackWriter { packs: packs.clone(), open: Vec::new() }
    }

    /// Writes a chunk's stored form.
    pub(crate) fn append(&mut self, stored: &[u8]) -> Result<Place, StorageError> {
        if self.open.last().is_none_or(|open| open.length >= PACK_BYTES) {
            self.sync_last()?;
            let open = self.packs.take()?;
            self.open.push(open);
        }
        let Some(open) = self.open.last_mut() else { return Err(StorageError::Closed) };
        let written = open.file.write_all_at(stored, open.length);
        written.map_err(StorageError::io(format!("writing {}", self.packs.path(open.pack).display())))?;
        let place = Place { pack: open.pack, offset: open.length, stored: stored.len() as u64 };
        open.length += place.stored;
        open.is_synced = false;
        Ok(place)
    }

    fn sync_last(&mut self) -> Result<(), StorageError> {
        let Some(open) = self.open.last_mut().filter(|open| !open.is_synced) else { return Ok(()) };
        let path = self.packs.path(open.pack);
        open.file.sync_data().map_err(StorageError::io(format!("writing {}", path.display())))?;
        if open.known == 0 {
            // The folder, `packs` and the data directory: another may have made them and not come to sync them.
            for folder in path.ancestors().skip(1).take(3) {
                sync_dir(folder).map_err(StorageError::io(format!("writing {}", folder.display())))?;
            }
        }
        open.is_synced = true;
        Ok(())
    }

    /// Makes all that was written durable; gives number and length of each pack, to be written to the database.
    pub(crate) fn sync(&mut self) -> Result<Vec<(i64, u64)>, StorageError> {
        self.sync_last()?;
        Ok(self.open.iter().map(|open| (open.pack, open.length)).collect())
    }

    /// The database knows it now.
    pub(crate) fn keep(mut self) {
        self.open.iter_mut().for_each(|open| open.known = open.length);
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        for open in self.open.drain(..) {
            self.packs.give_back(open);
        }
    }
}

impl Packs {
    /// A pack with room, or a new one.
    fn take(&self) -> Result<Open, StorageError> {
        let free = {
            let mut state = self.state();
            let free = state.free.pop();
            state.writing.extend(free.map(|(pack, _)| pack));
            free
        };
        let opened = match free {
            Some((pack, known)) => self.reopen(pack, known).inspect_err(|_| {
                let mut state = self.state();
                state.writing.remove(&pack);
                state.free.push((pack, known));
            }),
            None => self.create(),
        };
        opened.map_err(StorageError::io(format!("opening a pack in {}", self.root.display())))
    }

    fn reopen(&self, pack: i64, known: u64) -> io::Result<Open> {
        let file = OpenOptions::new().write(true).open(self.path(pack))?;
        if file.metadata()?.len() < known {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("pack {pack} is cut short")));
        }
        // What a killed writer left.
        file.set_len(known)?;
        Ok(Open { pack, file, known, length: known, is_synced: false })
    }

    fn create(&self) -> io::Result<Open> {
        let pack = self.new_number();
        let path = self.path(pack);
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.is_dir() {
            make_dir(folder).map_err(io::Error::other)?;
        }
        self.state().writing.insert(pack);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = made.and_then(|file| file.write_all_at(MAGIC, 0).map(|()| file));
        let file = written.inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
            self.state().writing.remove(&pack);
        })?;
        Ok(Open { pack, file, known: 0, length: MAGIC.len() as u64, is_synced: false })
    }

    /// Takes back a pack that was written to. If cutting it fails, that is done before it is written again.
    fn give_back(&self, open: Open) {
        if open.known == 0 {
            let _ = std::fs::remove_file(self.path(open.pack));
        } else if open.length > open.known {
            let _ = open.file.set_len(open.known);
        }
        let mut state = self.state();
        state.writing.remove(&open.pack);
        if (1..PACK_BYTES).contains(&open.known) {
            state.free.push((open.pack, open.known));
        }
    }
}
