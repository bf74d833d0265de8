//! Large contents in temporary files.

use opship_world::{Spill, SpillFile};
use std::io;

/// Keeps what a run writes in unnamed temporary files.
#[derive(Debug, Clone, Copy)]
pub struct TempSpill;

impl Spill for TempSpill {
    fn create(&self) -> io::Result<SpillFile> {
        Ok(SpillFile { file: tempfile::tempfile()?, path: None })
    }
}
