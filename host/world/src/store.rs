//! Where bodies are kept, and what a run takes of the host: bytes produced, files on disk, memory, and time.

use crate::body::Made;
use crate::pieces::Pieces;
use crate::{Budget, Fault, Look, Produced, ProducedBody, SPILL_PIECE, Spill, SpillFile};
use opship_record::{Hash, Hasher};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes read and written at a time; a piece is a multiple of it.
const BUFFER: usize = 256 << 10;
/// Whoever runs the world looks in after so many bytes of the world's own work.
const LOOK_EVERY: u64 = 1 << 20;
/// What looking something up in a source counts as, in bytes of work.
const LOOKUP: u64 = 4 << 10;

pub(crate) struct Store {
    spill: Arc<dyn Spill>,
    budget: Budget,
    produced: u64,
    spilled: u64,
    held: u64,
    look: Option<Look>,
    /// Bytes of work since the last look.
    unseen: u64,
}

impl Store {
    pub(crate) fn new(spill: Arc<dyn Spill>, budget: Budget) -> Store {
        Store { spill, budget, produced: 0, spilled: 0, held: 0, look: None, unseen: 0 }
    }

    pub(crate) fn watched_by(&mut self, look: Look) {
        self.look = Some(look);
    }

    /// Asks whether the run may go on.
    pub(crate) fn look(&mut self) -> Result<(), Fault> {
        self.unseen = 0;
        self.look.as_mut().map_or(Ok(()), |look| look()).map_err(Fault::Stopped)
    }

    /// Counts bytes that the world reads, hashes or copies where no guest code runs, and asks now and then.
    pub(crate) fn worked(&mut self, bytes: u64) -> Result<(), Fault> {
        self.unseen = self.unseen.saturating_add(bytes);
        if self.unseen < LOOK_EVERY { Ok(()) } else { self.look() }
    }

    /// Counts that something is looked up, as [`Store::worked`] counts bytes.
    pub(crate) fn looked_up(&mut self) -> Result<(), Fault> {
        self.worked(LOOKUP)
    }

    pub(crate) fn charge(&mut self, bytes: u64) -> Result<(), Fault> {
        self.produced = self.produced.saturating_add(bytes);
        let limit = self.budget.produced_bytes;
        if self.produced > limit {
            return Err(Fault::Limit { what: "bytes of output", limit });
        }
        Ok(())
    }

    /// Takes back what was charged.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.produced = self.produced.saturating_sub(bytes);
    }

    /// Counts memory of the host that the run takes: [`Store::check_held`] says whether it is too much.
    pub(crate) fn hold(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Counts memory that is free again.
    pub(crate) fn let_go(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// Bytes of the host's memory that the run takes, about.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Ends a run that takes too much of the host's memory.
    pub(crate) fn check_held(&self) -> Result<(), Fault> {
        let limit = self.budget.world_bytes;
        if self.held > limit {
            return Err(Fault::Limit { what: "bytes of memory for files, names and listings", limit });
        }
        Ok(())
    }

    pub(crate) fn new_spill(&mut self) -> Result<SpillFile, Fault> {
        self.spilled += 1;
        let limit = self.budget.spilled_files;
        if self.spilled > limit {
            return Err(Fault::Limit { what: "large files at a time", limit });
        }
        self.spill.create().map_err(Fault::Spill)
    }

    /// A file on disk was dropped.
    pub(crate) fn dropped_spill(&mut self) {
        self.spilled = self.spilled.saturating_sub(1);
    }

    /// Another piece of a file on disk was written.
    pub(crate) fn written(&self, spill: &SpillFile) -> Result<(), Fault> {
        self.spill.written(&spill.file).map_err(Fault::Spill)
    }

    /// A second, independent copy.
    pub(crate) fn duplicate(&mut self, made: &Made) -> Result<Produced, Fault> {
        let Produced { body, length, hash } = &made.produced;
        self.charge(*length)?;
        let body = match body {
            ProducedBody::Memory(bytes) => {
                self.hold(*length);
                self.check_held()?;
                self.worked(*length)?;
                ProducedBody::Memory(bytes.clone())
            }
            ProducedBody::Spilled(from) => {
                let copy = self.new_spill()?;
                self.copy(&from.file, &copy.file, *length, &made.written)?;
                ProducedBody::Spilled(copy)
            }
        };
        Ok(Produced { body, length: *length, hash: *hash })
    }

    /// What was never written stays a hole in the copy.
    fn copy(&mut self, from: &File, to: &File, length: u64, written: &Pieces) -> Result<(), Fault> {
        to.set_len(length).map_err(Fault::Spill)?;
        let spill = Arc::clone(&self.spill);
        self.each_part(from, length, written, |offset, _, bytes| {
            let Some(bytes) = bytes else { return Ok(()) };
            to.write_all_at(bytes, offset)?;
            let ends_piece = (offset + bytes.len() as u64).is_multiple_of(SPILL_PIECE as u64);
            if ends_piece { spill.written(to) } else { Ok(()) }
        })
    }

    /// The hash of a file that was not written in order.
    pub(crate) fn hash(&mut self, file: &File, length: u64, written: &Pieces) -> Result<Hash, Fault> {
        let zeros = vec![0; BUFFER];
        let mut hasher = Hasher::new();
        self.each_part(file, length, written, |_, count, bytes| {
            hasher.update(bytes.unwrap_or(&zeros[..count]));
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Passes a file's offsets, lengths and bytes on in parts, without bytes where none were ever written.
    fn each_part(
        &mut self,
        file: &File,
        length: u64,
        written: &Pieces,
        mut pass: impl FnMut(u64, usize, Option<&[u8]>) -> io::Result<()>,
    ) -> Result<(), Fault> {
        let mut buffer = vec![0; BUFFER];
        let mut offset = 0;
        while offset < length {
            let count = usize::try_from(length - offset).unwrap_or(BUFFER).min(BUFFER);
            let is_written = written.has(offset);
            if is_written {
                file.read_exact_at(&mut buffer[..count], offset).map_err(Fault::Spill)?;
            }
            pass(offset, count, is_written.then_some(&buffer[..count])).map_err(Fault::Spill)?;
            offset += count as u64;
            self.worked(count as u64)?;
        }
        Ok(())
    }
}
