//! What `memory.grow` and `table.grow` answer.

use crate::profile::{PAGE_BYTES, TABLE_ELEMENTS};
use crate::run::End;
use wasmtime::{Error, ResourceLimiter};

/// Memory is asked for in pieces of this many bytes.
const PIECE: u64 = 1 << 20;

/// Is asked whether a run may take so many bytes more of memory, the module's and the world's. `false` ends the run with
/// [`crate::RunError::Crowded`]. What was granted is the run's until this is dropped.
pub type Room = Box<dyn FnMut(u64) -> bool + Send>;

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
}

impl Limiter {
    pub(crate) fn new(record_pages: u32, operator_bytes: u64, room: Option<Room>) -> Limiter {
        let record_bytes = u64::from(record_pages) * PAGE_BYTES;
        Limiter { record_bytes, operator_bytes, memory_bytes: 0, table_elements: 0, world_bytes: 0, room, granted: 0 }
    }

    /// The next step begins with nothing; what was granted stays.
    pub(crate) fn next_step(&mut self) {
        (self.memory_bytes, self.table_elements) = (0, 0);
    }

    /// The world takes so many bytes now.
    pub(crate) fn world_takes(&mut self, bytes: u64) -> Result<(), End> {
        self.world_bytes = bytes;
        self.take()
    }

    fn take(&mut self) -> Result<(), End> {
        let needed = self.memory_bytes.saturating_add(self.world_bytes).div_ceil(PIECE) * PIECE;
        if needed <= self.granted {
            return Ok(());
        }
        if self.room.as_mut().is_some_and(|room| !room(needed - self.granted)) {
            return Err(End::Crowded);
        }
        self.granted = needed;
        Ok(())
    }

    /// Pages of memory that the module has; it gives none back.
    pub(crate) fn memory_pages(&self) -> u64 {
        self.memory_bytes / PAGE_BYTES
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool, Error> {
        if desired as u64 > self.record_bytes || maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.memory_bytes = self.memory_bytes.saturating_add(desired.saturating_sub(current) as u64);
        if self.memory_bytes > self.operator_bytes {
            return Err(End::Limit { what: "bytes of memory", limit: self.operator_bytes }.into());
        }
        self.take()?;
        Ok(true)
    }

    /// What was granted above failed on this machine: the module must not see that as -1.
    fn memory_grow_failed(&mut self, error: Error) -> Result<(), Error> {
        Err(End::Memory(error.to_string()).into())
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
