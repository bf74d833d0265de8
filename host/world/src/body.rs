//! Bytes that a run makes: in memory while they are few, on disk beyond, hashed while they are written there in order.

use crate::pieces::Pieces;
use crate::store::Store;
use crate::{Fault, FileContent, Produced, ProducedBody, SPILL_PIECE, SpillFile, Trap, read_fully_at};
use opship_record::{Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;

/// A longer body is kept on disk.
const IN_MEMORY: u64 = 1 << 20;
/// Appends to a body on disk are gathered up to this size.
const TAIL: usize = 256 << 10;
/// A gap up to this size is hashed as zeros; behind a longer one the hash is made at the end.
const HASHED_GAP: u64 = 64 << 10;

/// A finished body.
pub(crate) struct Made {
    pub(crate) produced: Produced,
    /// If it is on disk: what of it was ever written.
    pub(crate) written: Pieces,
}

/// A growing, writable content.
pub(crate) struct Body {
    bytes: Bytes,
    length: u64,
}

enum Bytes {
    Memory(Vec<u8>),
    Spilled(Box<Spilled>),
}

struct Spilled {
    spill: SpillFile,
    /// The last bytes, not yet in the file.
    tail: Vec<u8>,
    /// Has seen all bytes, as long as they were written in order.
    hasher: Option<Hasher>,
    /// What of the file was ever written, or is in the tail.
    written: Pieces,
    /// Bytes written since the last piece was told of.
    piece: usize,
}

impl Body {
    pub(crate) fn new() -> Body {
        Body { bytes: Bytes::Memory(Vec::new()), length: 0 }
    }

    /// A copy of the first `length` bytes of a content.
    pub(crate) fn copy_of(content: &dyn FileContent, length: u64, store: &mut Store) -> Result<Body, Trap> {
        let mut body = Body::new();
        let mut buffer = vec![0; TAIL.min(usize::try_from(length).unwrap_or(TAIL))];
        while body.length < length {
            let wanted = buffer.len().min(usize::try_from(length - body.length).unwrap_or(usize::MAX));
            match content.read_at(body.length, &mut buffer[..wanted])? {
                0 => break,
                count => {
                    body.write_at(store, body.length, &buffer[..count])?;
                    store.worked(count as u64)?;
                }
            }
        }
        Ok(body)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of memory that it takes.
    fn held(&self) -> u64 {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::Spilled(spilled) => (size_of::<Spilled>() + spilled.tail.len() + spilled.written.held()) as u64,
        }
    }

    /// Takes back all that it was charged; it is dropped.
    pub(crate) fn release(&self, store: &mut Store) {
        store.refund(self.length);
        store.let_go(self.held());
        if matches!(self.bytes, Bytes::Spilled(_)) {
            store.dropped_spill();
        }
    }

    /// Nobody has it open: what is gathered goes to disk. If that fails, it is tried again at the end.
    pub(crate) fn settle(&mut self, store: &mut Store) {
        let (held, length) = (self.held(), self.length);
        if let Bytes::Spilled(spilled) = &mut self.bytes
            && spilled.flush(length).is_ok()
        {
            spilled.tail = Vec::new();
        }
        store.let_go(held - self.held());
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
        let held = self.held();
        self.put(offset, data).map_err(Fault::Spill)?;
        self.length = self.length.max(end);
        if let Bytes::Spilled(spilled) = &mut self.bytes {
            spilled.count(store, data.len())?;
        }
        self.recount(store, held)
    }

    fn put(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let inside = data.len().min(bytes.len() - start);
                bytes[start..start + inside].copy_from_slice(&data[..inside]);
                bytes.extend_from_slice(&data[inside..]);
                Ok(())
            }
            Bytes::Spilled(spilled) => spilled.put(self.length, offset, data),
        }
    }

    /// Counts its memory anew, of which it held `before`.
    fn recount(&self, store: &mut Store, before: u64) -> Result<(), Fault> {
        store.let_go(before);
        store.hold(self.held());
        store.check_held()
    }

    /// Makes it `length` bytes long, with zeros where it grows.
    pub(crate) fn set_length(&mut self, store: &mut Store, length: u64) -> Result<(), Fault> {
        if length >= self.length {
            return self.extend(store, length);
        }
        if length == 0 {
            self.release(store);
            *self = Body::new();
            return Ok(());
        }
        store.refund(self.length - length);
        let held = self.held();
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX)),
            Bytes::Spilled(spilled) => {
                spilled.hasher = None;
                spilled.written.truncate(length);
                spilled.set_length(self.length, length).map_err(Fault::Spill)?;
            }
        }
        self.length = length;
        self.recount(store, held)
    }

    fn extend(&mut self, store: &mut Store, length: u64) -> Result<(), Fault> {
        let gap = length - self.length;
        store.charge(gap)?;
        self.make_room(store, length)?;
        let held = self.held();
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0),
            Bytes::Spilled(spilled) => {
                spilled.hash_gap(gap);
                spilled.set_length(self.length, length).map_err(Fault::Spill)?;
            }
        }
        self.length = length;
        self.recount(store, held)
    }

    /// Moves to disk what is about to be too long for memory.
    fn make_room(&mut self, store: &mut Store, length: u64) -> Result<(), Fault> {
        let Bytes::Memory(bytes) = &self.bytes else { return Ok(()) };
        if length <= IN_MEMORY {
            return Ok(());
        }
        let held = self.held();
        let spill = store.new_spill()?;
        spill.file.write_all_at(bytes, 0).map_err(Fault::Spill)?;
        let (mut hasher, mut written) = (Hasher::new(), Pieces::default());
        hasher.update(bytes);
        written.mark(0, bytes.len());
        let spilled = Spilled { spill, tail: Vec::new(), hasher: Some(hasher), written, piece: 0 };
        self.bytes = Bytes::Spilled(Box::new(spilled));
        self.recount(store, held)
    }

    /// Reads as [`FileContent::read_at`] does.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        let spilled = match &self.bytes {
            Bytes::Memory(bytes) => return Ok(copy_from(bytes, offset, buffer)),
            Bytes::Spilled(spilled) => spilled,
        };
        let on_disk = self.length - spilled.tail.len() as u64;
        let mut filled = 0;
        if offset < on_disk {
            let wanted = buffer.len().min(usize::try_from(on_disk - offset).unwrap_or(usize::MAX));
            filled = read_fully_at(&spilled.spill.file, offset, &mut buffer[..wanted]).map_err(Fault::Spill)?;
            if filled < wanted {
                return Err(Fault::Spill(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(filled + copy_from(&spilled.tail, (offset + filled as u64).saturating_sub(on_disk), &mut buffer[filled..]))
    }

    /// The final bytes and their hash.
    pub(crate) fn finish(self, store: &mut Store) -> Result<Made, Fault> {
        let length = self.length;
        let mut spilled = match self.bytes {
            Bytes::Memory(bytes) => {
                store.worked(length)?;
                let hash = Hash::of(&bytes);
                let produced = Produced { body: ProducedBody::Memory(bytes), length, hash };
                return Ok(Made { produced, written: Pieces::default() });
            }
            Bytes::Spilled(spilled) => spilled,
        };
        spilled.flush(length).map_err(Fault::Spill)?;
        let Spilled { spill, hasher, written, .. } = *spilled;
        let hash = match hasher {
            Some(hasher) => hasher.finish(),
            None => store.hash(&spill.file, length, &written)?,
        };
        Ok(Made { produced: Produced { body: ProducedBody::Spilled(spill), length, hash }, written })
    }
}

impl Spilled {
    /// Counts what was written, and tells of each whole piece.
    fn count(&mut self, store: &Store, bytes: usize) -> Result<(), Fault> {
        self.piece += bytes;
        if self.piece >= SPILL_PIECE {
            self.piece = 0;
            store.written(&self.spill)?;
        }
        Ok(())
    }

    /// Writes into a body of `length` bytes.
    fn put(&mut self, length: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let appends = offset == length;
        self.written.mark(offset, data.len());
        match &mut self.hasher {
            Some(hasher) if appends => hasher.update(data),
            hasher => *hasher = None,
        }
        if appends && self.tail.len() + data.len() <= TAIL {
            self.tail.extend_from_slice(data);
            return Ok(());
        }
        self.flush(length)?;
        self.spill.file.write_all_at(data, offset)
    }

    fn hash_gap(&mut self, gap: u64) {
        match &mut self.hasher {
            Some(hasher) if gap <= HASHED_GAP => hasher.update(&vec![0; usize::try_from(gap).unwrap_or(0)]),
            hasher => *hasher = None,
        }
    }

    fn set_length(&mut self, old: u64, new: u64) -> io::Result<()> {
        self.flush(old)?;
        self.spill.file.set_len(new)
    }

    /// Writes out what is gathered of a body of `length` bytes.
    fn flush(&mut self, length: u64) -> io::Result<()> {
        if !self.tail.is_empty() {
            self.spill.file.write_all_at(&self.tail, length - self.tail.len() as u64)?;
            self.tail.clear();
        }
        Ok(())
    }
}

fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}
