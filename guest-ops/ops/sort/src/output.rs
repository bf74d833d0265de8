//! Writes the sorted lines.

use crate::compare::Line;
use crate::options::Job;
use opship_ops_common::reason;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Bytes that are written by one call of the world.
const BUFFER: usize = 256 << 10;

/// Writes lines to where the job wants them. All input has been read by now, so the output may be one
/// of the input's files.
pub(crate) fn write<'a>(job: &Job, lines: impl Iterator<Item = &'a Line<'a>>) -> Result<(), String> {
    let Some(name) = &job.output else {
        return write_to(io::stdout().lock(), job.rules.terminator, lines).map_err(|e| failed(&e));
    };
    let file = File::create(name).map_err(|e| format!("open failed: {}: {}", name.display(), reason(&e)))?;
    let written = write_to(file, job.rules.terminator, lines);
    written.map_err(|e| format!("write failed: {}: {}", name.display(), reason(&e)))
}

pub(crate) fn failed(error: &io::Error) -> String {
    format!("write failed: 'standard output': {}", reason(error))
}

fn write_to<'a>(out: impl Write, terminator: u8, lines: impl Iterator<Item = &'a Line<'a>>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    for line in lines {
        out.write_all(line.text)?;
        out.write_all(&[terminator])?;
    }
    out.flush()
}
