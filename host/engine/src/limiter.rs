//! What `memory.grow` and `table.grow` answer.

use crate::profile::{PAGE_BYTES, TABLE_ELEMENTS};
use crate::run::End;
use wasmtime::{Error, ResourceLimiter};

/// Decides by the record and the profile alone what a module is refused. What the operator or the host cannot give ends the
/// run instead, so that no module sees it.
pub(crate) struct Limiter {
    /// The record's limit, in bytes.
    record_bytes: u64,
    /// The operator's limit, in bytes.
    operator_bytes: u64,
    memory_bytes: u64,
    table_elements: usize,
}

impl Limiter {
    pub(crate) fn new(record_pages: u32, operator_bytes: u64) -> Limiter {
        let record_bytes = u64::from(record_pages) * PAGE_BYTES;
        Limiter { record_bytes, operator_bytes, memory_bytes: 0, table_elements: 0 }
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
