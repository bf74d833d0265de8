//! Taking a content in: cut, look for what is here, compress the rest, write it, and name it all at once.

use super::{PackWriter, list};
use crate::in_use::{Held, InUse};
use crate::sqlite::chunks::{self, NewChunk};
use crate::sqlite::{Result, blobs};
use crate::store::Inner;
use crate::{StorageError, failpoint};
use opship_record::{Hash, Hasher};
use opship_residual::chunks::{Cutter, MOST};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::Arc;
use zstd::bulk::Compressor;

/// zstd's fastest ordinary level: contents come in at the speed of a disk.
const LEVEL: i32 = 1;

/// A content on its way in.
pub(crate) struct Ingest {
    cutter: Cutter,
    hasher: Hasher,
    expected: Hash,
    limit: u64,
    length: u64,
    sink: Sink,
}

/// Where chunks go.
struct Sink {
    inner: Arc<Inner>,
    /// The blob is here as a whole: its bytes are only verified.
    is_stored: bool,
    parts: Vec<Part>,
    new: Vec<NewChunk>,
    seen: HashMap<Hash, usize>,
    writer: PackWriter,
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
    held: Held,
}

/// One chunk of the content.
enum Part {
    /// It is here.
    Known(i64, Hash, u64),
    /// It is in `Sink::new` at this place.
    New(usize),
}

impl Ingest {
    /// A content that is to have the hash `expected` and at most `limit` bytes.
    pub(crate) fn new(inner: &Arc<Inner>, expected: Hash, limit: u64) -> Result<Ingest> {
        let mut held = Held::new(&inner.in_use);
        let is_stored = {
            let mut locked = inner.in_use.lock();
            locked.blob(expected, &mut held);
            inner.database.read(|connection| blobs::is_stored(connection, &expected))?
        };
        let sink = Sink {
            inner: inner.clone(),
            is_stored,
            parts: Vec::new(),
            new: Vec::new(),
            seen: HashMap::new(),
            writer: PackWriter::new(&inner.packs),
            compressor: Compressor::new(LEVEL).map_err(StorageError::io("compressing"))?,
            buffer: Vec::with_capacity(MOST),
            held,
        };
        Ok(Ingest { cutter: Cutter::new(), hasher: Hasher::new(), expected, limit, length: 0, sink })
    }

    /// Is the blob here as a whole, so that its bytes need not be written?
    pub(crate) fn is_stored(&self) -> bool {
        self.sink.is_stored
    }

    /// Nothing to take in, since the blob is here and its bytes are known to be right.
    pub(crate) fn skip(self) -> Taken {
        self.sink.taken(self.expected, self.length, Vec::new())
    }

    /// Takes the next bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        if self.length > self.limit {
            return Err(StorageError::TooLong { limit: self.limit });
        }
        self.hasher.update(bytes);
        if self.sink.is_stored {
            return Ok(());
        }
        let sink = &mut self.sink;
        self.cutter.push(bytes, &mut |chunk| sink.take(chunk))
    }

    /// Verifies the whole and makes it durable, still without a name.
    pub(crate) fn finish(self) -> Result<Taken> {
        let Ingest { cutter, hasher, expected, length, mut sink, .. } = self;
        let found = hasher.finish();
        if found != expected {
            return Err(StorageError::WrongHash { expected, found });
        }
        cutter.finish(&mut |chunk| sink.take(chunk))?;
        let packs = sink.writer.sync()?;
        failpoint::hit("storage-packs");
        Ok(sink.taken(expected, length, packs))
    }
}

impl Sink {
    fn taken(self, hash: Hash, length: u64, packs: Vec<(i64, u64)>) -> Taken {
        let Sink { inner, is_stored, parts, new, writer, held, .. } = self;
        let naming = Naming { hash, length, is_stored, parts, new, packs, in_use: inner.in_use.clone() };
        Taken { naming, keeping: Keeping { writer, _held: held } }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let hash = Hash::of(bytes);
        if let Some(at) = self.seen.get(&hash) {
            self.parts.push(Part::New(*at));
            return Ok(());
        }
        if let Some(chunk) = self.known(&hash)? {
            self.parts.push(Part::Known(chunk, hash, bytes.len() as u64));
            return Ok(());
        }
        self.buffer.clear();
        // Output that does not fit is no help, so there is room for no more than the chunk itself.
        self.buffer.reserve(bytes.len());
        let compressed = self.compressor.compress_to_buffer(bytes, &mut self.buffer).ok();
        let stored = if compressed.is_some_and(|count| count < bytes.len()) { &self.buffer } else { bytes };
        let place = self.writer.append(stored)?;
        self.seen.insert(hash, self.new.len());
        self.parts.push(Part::New(self.new.len()));
        self.new.push(NewChunk { hash, length: bytes.len() as u64, place });
        Ok(())
    }

    /// The number of a chunk that is here, held from now on.
    fn known(&mut self, hash: &Hash) -> Result<Option<i64>> {
        let mut locked = self.inner.in_use.lock();
        let found = self.inner.database.read(|connection| chunks::number(connection, hash))?;
        if let Some(chunk) = found {
            locked.chunk(&self.inner.in_use, chunk, &mut self.held);
        }
        Ok(found)
    }
}

/// A content that is durable and has no name yet.
pub(crate) struct Taken {
    /// What the writer does.
    pub(crate) naming: Naming,
    /// What must live until then.
    pub(crate) keeping: Keeping,
}

/// Packs and chunks of a content that is being named.
pub(crate) struct Keeping {
    writer: PackWriter,
    _held: Held,
}

impl Keeping {
    /// `named`: what [`Naming::name`] said, now durable.
    pub(crate) fn done(self, named: bool) {
        if named {
            self.writer.keep();
        }
    }
}

/// The rows of a content.
pub(crate) struct Naming {
    hash: Hash,
    length: u64,
    is_stored: bool,
    parts: Vec<Part>,
    new: Vec<NewChunk>,
    packs: Vec<(i64, u64)>,
    in_use: Arc<InUse>,
}

impl Naming {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Writes blob, chunks and packs. `false`: it is here already, and what was written is not needed.
    pub(crate) fn name(self, connection: &Connection) -> Result<bool> {
        if self.is_stored || blobs::is_stored(connection, &self.hash)? {
            return Ok(false);
        }
        for (pack, length) in &self.packs {
            chunks::set_pack(connection, *pack, *length)?;
        }
        let mut numbers = Vec::with_capacity(self.new.len());
        for chunk in &self.new {
            let number = chunks::insert(connection, chunk)?;
            self.in_use.touch(number);
            numbers.push(number);
        }
        let chunk = |part: &Part| match part {
            Part::Known(number, hash, length) => (*number, *hash, *length),
            Part::New(at) => (numbers[*at], self.new[*at].hash, self.new[*at].length),
        };
        let all: Vec<(i64, Hash, u64)> = self.parts.iter().map(chunk).collect();
        blobs::insert_chunked(connection, &self.hash, self.length, &list::pack(&self.hash, &all))?;
        Ok(true)
    }
}
