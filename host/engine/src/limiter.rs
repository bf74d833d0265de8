//! What `memory.grow` and `table.grow` answer.

use crate::profile::{PAGE_BYTES, TABLE_ELEMENTS};
use crate::run::End;
use wasmtime::{Error, ResourceLimiter};

/// Memory is asked for in pieces of this many bytes.
const PIECE: u64 = 1 << 20;

/// Is asked whether a run may take so many bytes more of memory, the module's and the world's. `false` ends the run with
/// [`crate::RunError::Crowded`]. What was granted is the run's until this is dropped.
pub type Room = Box<dyn FnMut(u64) -> bool + Send>;

/// Memory that could not be had ends the run; [`Limiter::refused`] says why. The reason is kept there since wasmtime drops
/// this error where the heap of exceptions wants to grow, and says only that the heap is full.
#[derive(Debug, thiserror::Error)]
#[error("memory was refused")]
pub(crate) struct Refused;

/// Decides by the record and the profile alone what a module is refused. What the operator or the host cannot give ends the
/// run instead, so that no module sees it.
pub(crate) struct Limiter {
    /// The record's limit, in bytes.
    record_bytes: u64,
    /// The operator's limit, in bytes.
    operator_bytes: u64,
    memory_bytes: u64,
    table_elements: usize,
    /// What the world takes, as it was last told.
    world_bytes: u64,
    room: Option<Room>,
    granted: u64,
    /// Why the memory that was asked for last could not be had, if that ends the run.
    refused: Option<End>,
}

impl Limiter {
    pub(crate) fn new(record_pages: u32, operator_bytes: u64, room: Option<Room>) -> Limiter {
        let record_bytes = u64::from(record_pages) * PAGE_BYTES;
        Limiter {
            record_bytes,
            operator_bytes,
            memory_bytes: 0,
            table_elements: 0,
            world_bytes: 0,
            room,
            granted: 0,
            refused: None,
        }
    }

    /// The next step begins with nothing; what was granted stays.
    pub(crate) fn next_step(&mut self) {
        (self.memory_bytes, self.table_elements) = (0, 0);
    }

    /// The world takes so many bytes now.
    pub(crate) fn world_takes(&mut self, bytes: u64) -> Result<(), End> {
        self.world_bytes = bytes;
        self.take(self.memory_bytes)
    }

    /// Asks for the room that the world needs and so many bytes of memory.
    fn take(&mut self, memory_bytes: u64) -> Result<(), End> {
        let needed = memory_bytes.saturating_add(self.world_bytes).div_ceil(PIECE).saturating_mul(PIECE);
        if needed <= self.granted {
            return Ok(());
        }
        if self.room.as_mut().is_some_and(|room| !room(needed - self.granted)) {
            return Err(End::Crowded);
        }
        self.granted = needed;
        Ok(())
    }

    /// Grants more memory; what was not granted is not counted.
    fn grow(&mut self, bytes: u64) -> Result<(), End> {
        let memory_bytes = self.memory_bytes.saturating_add(bytes);
        if memory_bytes > self.operator_bytes {
            return Err(End::Limit { what: "bytes of memory", limit: self.operator_bytes });
        }
        self.take(memory_bytes)?;
        self.memory_bytes = memory_bytes;
        Ok(())
    }

    fn refuse(&mut self, end: End) -> Error {
        self.refused = Some(end);
        Refused.into()
    }

    /// Why the memory that was asked for last could not be had, if that is not the record's doing.
    pub(crate) fn refused(&mut self) -> Option<End> {
        self.refused.take()
    }

    /// Pages of memory that the module has; it gives none back.
    pub(crate) fn memory_pages(&self) -> u64 {
        self.memory_bytes / PAGE_BYTES
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool, Error> {
        self.refused = None;
        if desired as u64 > self.record_bytes || maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        match self.grow(desired.saturating_sub(current) as u64) {
            Ok(()) => Ok(true),
            Err(end) => Err(self.refuse(end)),
        }
    }

    /// What was granted above failed on this machine: the module must not see that as -1.
    fn memory_grow_failed(&mut self, error: Error) -> Result<(), Error> {
        Err(self.refuse(End::Memory(error.to_string())))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool, Error> {
        let all = self.table_elements.saturating_add(desired.saturating_sub(current));
        if all > TABLE_ELEMENTS || maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.table_elements = all;
        Ok(true)
    }
}
