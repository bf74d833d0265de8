//! Bytes that a run makes: in memory while they are few, on disk beyond, hashed while they are written in order.

use crate::{Fault, FileContent, Produced, ProducedBody, Spill, SpillFile, Trap, read_fully_at};
use opship_record::{Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A longer body is kept on disk.
const IN_MEMORY: u64 = 1 << 20;
/// Appends to a body on disk are gathered up to this size.
const TAIL: usize = 256 << 10;
/// A gap up to this size is hashed as zeros; behind a longer one the hash is made at the end.
const HASHED_GAP: u64 = 64 << 10;

/// Where bodies are kept, and how many bytes they have together.
pub(crate) struct Store {
    spill: Arc<dyn Spill>,
    used: u64,
    limit: u64,
}

impl Store {
    pub(crate) fn new(spill: Arc<dyn Spill>, limit: u64) -> Store {
        Store { spill, used: 0, limit }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Fault> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit {
            return Err(Fault::Limit { what: "bytes of output", limit: self.limit });
        }
        Ok(())
    }

    /// Takes back what a body that is dropped was charged.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// A second, independent copy.
    pub(crate) fn duplicate(&mut self, produced: &Produced) -> Result<Produced, Fault> {
        self.charge(produced.length)?;
        let body = match &produced.body {
            ProducedBody::Memory(bytes) => ProducedBody::Memory(bytes.clone()),
            ProducedBody::Spilled(_) => {
                let copy = self.spill.create().map_err(Fault::Spill)?;
                let mut sink = &copy.file;
                produced.copy_to(&mut sink).map_err(Fault::Spill)?;
                ProducedBody::Spilled(copy)
            }
        };
        Ok(Produced { body, length: produced.length, hash: produced.hash })
    }
}

/// A growing, writable content.
pub(crate) struct Body {
    bytes: Bytes,
    length: u64,
    /// Has seen all bytes, as long as they were written in order.
    hasher: Option<Hasher>,
}

enum Bytes {
    Memory(Vec<u8>),
    /// `tail` are the last bytes, not yet in the file.
    Spilled {
        spill: SpillFile,
        tail: Vec<u8>,
    },
}

impl Body {
    pub(crate) fn new() -> Body {
        Body { bytes: Bytes::Memory(Vec::new()), length: 0, hasher: Some(Hasher::new()) }
    }

    /// A copy of the first `length` bytes of a content.
    pub(crate) fn copy_of(content: &dyn FileContent, length: u64, store: &mut Store) -> Result<Body, Trap> {
        let mut body = Body::new();
        let mut buffer = vec![0; TAIL.min(usize::try_from(length).unwrap_or(TAIL))];
        while body.length < length {
            let wanted = buffer.len().min(usize::try_from(length - body.length).unwrap_or(usize::MAX));
            match content.read_at(body.length, &mut buffer[..wanted])? {
                0 => break,
                count => body.write_at(store, body.length, &buffer[..count])?,
            }
        }
        Ok(body)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Writes at any place; a gap before it reads as zeros.
    pub(crate) fn write_at(&mut self, store: &mut Store, offset: u64, data: &[u8]) -> Result<(), Fault> {
        if data.is_empty() {
            return Ok(());
        }
        if offset > self.length {
            self.extend(store, offset)?;
        }
        let end = offset + data.len() as u64;
        store.charge(end.saturating_sub(self.length))?;
        self.make_room(store, end)?;
        let appends = offset == self.length;
        match &mut self.hasher {
            Some(hasher) if appends => hasher.update(data),
            hasher => *hasher = None,
        }
        self.put(offset, data, appends).map_err(Fault::Spill)?;
        self.length = self.length.max(end);
        Ok(())
    }

    fn put(&mut self, offset: u64, data: &[u8], appends: bool) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let inside = data.len().min(bytes.len() - start);
                bytes[start..start + inside].copy_from_slice(&data[..inside]);
                bytes.extend_from_slice(&data[inside..]);
                Ok(())
            }
            Bytes::Spilled { tail, .. } if appends && tail.len() + data.len() <= TAIL => {
                tail.extend_from_slice(data);
                Ok(())
            }
            Bytes::Spilled { spill, tail } => {
                flush(spill, tail, self.length)?;
                spill.file.write_all_at(data, offset)
            }
        }
    }

    /// Makes it `length` bytes long, with zeros where it grows.
    pub(crate) fn set_length(&mut self, store: &mut Store, length: u64) -> Result<(), Fault> {
        if length >= self.length {
            return self.extend(store, length);
        }
        store.release(self.length - length);
        if length == 0 {
            *self = Body::new();
            return Ok(());
        }
        self.hasher = None;
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX)),
            Bytes::Spilled { spill, tail } => {
                flush(spill, tail, self.length).and_then(|()| spill.file.set_len(length)).map_err(Fault::Spill)?;
            }
        }
        self.length = length;
        Ok(())
    }

    fn extend(&mut self, store: &mut Store, length: u64) -> Result<(), Fault> {
        let gap = length - self.length;
        store.charge(gap)?;
        self.make_room(store, length)?;
        match &mut self.hasher {
            Some(hasher) if gap <= HASHED_GAP => hasher.update(&vec![0; usize::try_from(gap).unwrap_or(0)]),
            hasher => *hasher = None,
        }
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0),
            Bytes::Spilled { spill, tail } => {
                flush(spill, tail, self.length).and_then(|()| spill.file.set_len(length)).map_err(Fault::Spill)?;
            }
        }
        self.length = length;
        Ok(())
    }

    /// Moves to disk what is about to be too long for memory.
    fn make_room(&mut self, store: &Store, length: u64) -> Result<(), Fault> {
        if length <= IN_MEMORY {
            return Ok(());
        }
        if let Bytes::Memory(bytes) = &self.bytes {
            let spill = store.spill.create().map_err(Fault::Spill)?;
            spill.file.write_all_at(bytes, 0).map_err(Fault::Spill)?;
            self.bytes = Bytes::Spilled { spill, tail: Vec::new() };
        }
        Ok(())
    }

    /// Reads as [`FileContent::read_at`] does.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        let Bytes::Spilled { spill, tail } = &self.bytes else {
            let Bytes::Memory(bytes) = &self.bytes else { return Ok(0) };
            return Ok(copy_from(bytes, offset, buffer));
        };
        let on_disk = self.length - tail.len() as u64;
        let mut filled = 0;
        if offset < on_disk {
            let wanted = buffer.len().min(usize::try_from(on_disk - offset).unwrap_or(usize::MAX));
            filled = read_fully_at(&spill.file, offset, &mut buffer[..wanted]).map_err(Fault::Spill)?;
            if filled < wanted {
                return Err(Fault::Spill(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(filled + copy_from(tail, (offset + filled as u64).saturating_sub(on_disk), &mut buffer[filled..]))
    }

    /// The final bytes and their hash.
    pub(crate) fn finish(self) -> Result<Produced, Fault> {
        let hash = self.hasher.as_ref().map(Hasher::finish);
        let body = match self.bytes {
            Bytes::Memory(bytes) => ProducedBody::Memory(bytes),
            Bytes::Spilled { spill, mut tail } => {
                flush(&spill, &mut tail, self.length).map_err(Fault::Spill)?;
                ProducedBody::Spilled(spill)
            }
        };
        let mut produced = Produced { body, length: self.length, hash: hash.unwrap_or(Hash::of_empty()) };
        if hash.is_none() {
            produced.hash = hash_of(&produced).map_err(Fault::Spill)?;
        }
        Ok(produced)
    }
}

fn flush(spill: &SpillFile, tail: &mut Vec<u8>, length: u64) -> io::Result<()> {
    if !tail.is_empty() {
        spill.file.write_all_at(tail, length - tail.len() as u64)?;
        tail.clear();
    }
    Ok(())
}

fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

fn hash_of(produced: &Produced) -> io::Result<Hash> {
    struct Sink(Hasher);
    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(Hasher::new());
    produced.copy_to(&mut sink)?;
    Ok(sink.0.finish())
}
