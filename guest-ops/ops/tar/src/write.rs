//! The archive that is being made.

use crate::header::{self, BLOCK};
use crate::member::Member;
use crate::options::{Format, Job};
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use opship_guest::files;
use opship_ops_common::reason;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Bytes that are written by one call of the world.
const BUFFER: usize = 256 << 10;

/// Archives are whole records, as tapes want them: 20 blocks.
const RECORD: u64 = 20 * BLOCK as u64;

/// Unix, in the header of a compressed archive.
const OPERATING_SYSTEM: u8 = 3;

enum Sink {
    Plain(Box<dyn Write>),
    Gzip(Box<GzEncoder<Box<dyn Write>>>),
}

impl Sink {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
        }
    }
}

pub(crate) struct Archive {
    sink: Sink,
    written: u64,
    format: Format,
    /// Device and inode of the archive, so that it is not stored in itself.
    pub(crate) id: Option<(u64, u64)>,
    name: String,
}

impl Archive {
    pub(crate) fn create(job: &Job) -> Result<Self, String> {
        let (out, meta, name): (Box<dyn Write>, _, _) = match &job.archive {
            None => (Box::new(io::stdout().lock()), files::fstat(io::stdout()), "stdout".to_owned()),
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).map_err(|e| format!("{name}: Cannot open: {}", reason(&e)))?;
                let meta = files::fstat(&file);
                (Box::new(file), meta, name)
            }
        };
        let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, out));
        let sink = if job.gzip {
            // Neither name nor time, so that the same members make the same archive.
            let builder = GzBuilder::new().mtime(0).operating_system(OPERATING_SYSTEM);
            Sink::Gzip(Box::new(builder.write(out, Compression::new(6))))
        } else {
            Sink::Plain(out)
        };
        let id = meta.ok().filter(|m| m.kind == files::Kind::File).map(|m| m.id);
        Ok(Self { sink, written: 0, format: job.format, id, name })
    }

    /// What an error of writing is told as.
    fn failed(&self, error: &io::Error) -> String {
        format!("{}: Cannot write: {}", self.name, reason(error))
    }

    pub(crate) fn header(&mut self, member: &Member) -> Result<(), String> {
        let format = self.format;
        header::write(self, member, format).map_err(|e| self.failed(&e))
    }

    pub(crate) fn content(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.write_all(bytes).map_err(|e| self.failed(&e))
    }

    /// Ends a member's content.
    pub(crate) fn pad(&mut self, length: u64) -> Result<(), String> {
        header::pad(self, length).map_err(|e| self.failed(&e))
    }

    /// The end mark, and what is still in buffers.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.content(&[0; 2 * BLOCK])?;
        while !self.written.is_multiple_of(RECORD) {
            self.content(&[0; BLOCK])?;
        }
        let Self { sink, name, .. } = self;
        let finished = match sink {
            Sink::Plain(mut out) => out.flush(),
            Sink::Gzip(out) => out.finish().and_then(|mut out| out.flush()),
        };
        finished.map_err(|e| format!("{name}: Cannot write: {}", reason(&e)))
    }
}

impl Write for Archive {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.sink.writer().write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.writer().flush()
    }
}
