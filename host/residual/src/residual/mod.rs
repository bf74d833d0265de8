//! The residual of an operation: what the replayed outputs lack to be the recorded ones.
//!
//! It speaks of contents alone. Which files there are, and what else of them is recorded, the entry's list of changes says.
//! docs/wire-format.md, "Residuals", has the format.

mod wire;

use crate::apply::{Base, OneBase, Sources, apply};
use crate::document::Reader;
use crate::parity::{Code, Parity};
use crate::{ResidualError, exact, packed};
use opship_record::Hash;
use std::io::{self, Read, Write};

/// Most bytes of an encoded residual. What needs more is shipped by value.
pub const MAX_RESIDUAL: usize = 16 << 20;
/// Most outputs that one residual repairs.
pub const MAX_ITEMS: usize = 1 << 16;

/// What repairs the outputs of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residual {
    items: Vec<Item>,
}

/// What repairs one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which change of the entry's list of changes is meant, counted from 0. It writes a file, whose length and hash are
    /// in the list.
    pub index: u32,
    /// What to do to the replayed content.
    pub repair: Repair,
}

/// How the recorded content is made of the replayed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// By their difference.
    Delta(Delta),
    /// By the recorded content's parity, where the difference is not known.
    Parity(Parity),
}

/// The exact difference to a content, as a compressed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    packed: Vec<u8>,
}

impl Residual {
    /// A residual of items in ascending order of their indices.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`] if there are none, more than [`MAX_ITEMS`], or they are not in order.
    pub fn new(items: Vec<Item>) -> Result<Residual, ResidualError> {
        if items.is_empty() || items.len() > MAX_ITEMS {
            return Err(ResidualError::Malformed("a residual repairs at least one output and at most 65,536"));
        }
        if !items.is_sorted_by(|a, b| a.index < b.index) {
            return Err(ResidualError::Malformed("a residual's outputs are not in order"));
        }
        Ok(Residual { items })
    }

    /// What it repairs.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The canonical bytes. More than [`MAX_RESIDUAL`] of them are refused by whoever reads them.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Reads a residual from outside.
    ///
    /// # Errors
    /// [`ResidualError::Record`] as for a record, [`ResidualError::Malformed`], and what [`Code::new`] answers.
    pub fn decode(bytes: &[u8]) -> Result<Residual, ResidualError> {
        wire::decode(bytes)
    }
}

impl Repair {
    /// The difference of `content` to a replayed content.
    ///
    /// # Errors
    /// What compressing answers, for want of memory.
    pub fn delta(content: &[u8], replayed: (&Hash, &[u8])) -> io::Result<Repair> {
        Delta::make(content, replayed).map(Repair::Delta)
    }

    /// The parity of a content.
    ///
    /// # Errors
    /// As [`Parity::of`].
    pub fn parity(content: impl Read, code: Code) -> Result<Repair, ResidualError> {
        Parity::of(content, code).map(Repair::Parity)
    }

    /// Makes the recorded content of the replayed one, at most `limit` bytes of it, and gives its length. Its hash is for the
    /// caller to compare: a repair counts only if it is the recorded one.
    ///
    /// # Errors
    /// [`ResidualError`]; what was written until then is to be dropped.
    pub fn apply(
        &self,
        replayed: (&Hash, &impl Base),
        limit: u64,
        sink: &mut impl Write,
    ) -> Result<u64, ResidualError> {
        let (hash, replayed) = replayed;
        let replayed = Borrowed(replayed);
        let parity = match self {
            Repair::Delta(delta) => return delta.apply(limit, &OneBase(*hash, replayed), sink),
            Repair::Parity(parity) => parity,
        };
        let (length, recorded) = (replayed.length(), parity.code().length());
        if recorded > limit {
            return Err(ResidualError::TooLong { length: recorded, limit });
        }
        if length != recorded {
            return Err(ResidualError::OtherLength { length, recorded });
        }
        let replayed_parity = Parity::of(Reading { base: replayed, offset: 0 }, parity.code())?;
        parity.difference(&replayed_parity)?.apply(Reading { base: replayed, offset: 0 }, sink)
    }
}

impl Delta {
    /// The difference of `content` to `base`, both held in memory; [`exact::make`] tells how much more is needed. For
    /// contents that are too large for that there is [`crate::delta::make`].
    ///
    /// # Errors
    /// What compressing answers, for want of memory.
    pub fn make(content: &[u8], base: (&Hash, &[u8])) -> io::Result<Delta> {
        let encoder = packed::Encoder::new(Vec::new(), content.len() as u64)?;
        let packed = exact::make(content, base, encoder)?.finish()?;
        Ok(Delta { packed })
    }

    /// A compressed document that came or was made otherwise.
    pub fn from_bytes(packed: Vec<u8>) -> Delta {
        Delta { packed }
    }

    /// The bytes that travel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.packed
    }

    /// The contents that it applies to: one, as [`Delta::make`] makes it.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`]; [`ResidualError::Io`] if it is not what the compression makes.
    pub fn bases(&self) -> Result<Vec<Hash>, ResidualError> {
        Ok(Reader::new(packed::decoder(self.packed.as_slice())?)?.bases().to_vec())
    }

    /// Makes the content, at most `limit` bytes of it, of contents that `sources` has by their hashes; as [`apply()`].
    ///
    /// # Errors
    /// As [`apply()`].
    pub fn apply(&self, limit: u64, sources: &impl Sources, sink: &mut impl Write) -> Result<u64, ResidualError> {
        apply(packed::decoder(self.packed.as_slice())?, limit, sources, sink)
    }
}

/// A base that somebody else owns.
struct Borrowed<'a, B>(&'a B);

impl<B> Clone for Borrowed<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Borrowed<'_, B> {}

impl<B: Base> Base for Borrowed<'_, B> {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
}

/// Reads a base from its beginning to its end.
struct Reading<'a, B> {
    base: Borrowed<'a, B>,
    offset: u64,
}

impl<B: Base> Read for Reading<'_, B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.base.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}
