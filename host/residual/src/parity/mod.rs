//! Parity: symbols that repair a content which differs here and there from the recorded one, at places that nobody knows.
//!
//! It is for a replay that nobody could predict: the side that has the recorded content sends its parity, and the side
//! that replayed takes the difference of the two parities for the parity of the difference of the contents, which it
//! finds and undoes. Substitutions only: contents of different lengths have nothing to do with each other here.
//!
//! The code is systematic Reed-Solomon over GF(2^16), interleaved over [`Code::columns`] columns, as Lee, Leung and
//! Satyanarayanan had it on replayed files ("Operation-based Update Propagation in a Mobile File System", USENIX 1999).
//! The encoder is reed-solomon-simd's, which follows Lin, Chung and Han ("Novel Polynomial Basis and Its Application to
//! Reed-Solomon Erasure Codes", FOCS 2014); it is made for losses at known places. The decoder is ours: see [`Parity::difference`].
//! docs/wire-format.md, "Parity", has the code as such.

mod difference;
mod encode;
mod field;
mod locator;
mod places;

pub use difference::Difference;
pub use encode::Encoder;

use crate::ResidualError;
use std::io::{self, Read};

/// Symbols a column that `auto` takes: any 16 differences of up to 8 bytes are repaired.
pub const AUTO_SYMBOLS: u16 = 32;
/// Most symbols a column.
pub const MAX_SYMBOLS: u16 = 128;
/// Most bytes of parity; it bounds the memory of both sides, and with 32 symbols the content to some 16 GiB.
pub const MAX_PARITY: usize = 8 << 20;

/// Fewest columns. Eight bytes at any place lie in at most five symbols, which are next to each other: so they fall into
/// different columns.
const MIN_COLUMNS: u64 = 9;
/// Bytes of content a column, at most: with [`MAX_SYMBOLS`] symbols a column still fits the 65,536 points of the field.
const COLUMN: u64 = 127 << 10;
/// Bytes passed on at one time.
const PIECE: usize = 128 << 10;

/// Which code: how many symbols a column, of a content of which length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    symbols: u16,
    length: u64,
}

impl Code {
    /// The code with `symbols` parity symbols a column (even, 2 to [`MAX_SYMBOLS`]) of a content of `length` bytes.
    ///
    /// # Errors
    /// [`ResidualError::Symbols`]; [`ResidualError::ParityTooLarge`] if there would be more than [`MAX_PARITY`] bytes of it.
    pub fn new(symbols: u16, length: u64) -> Result<Code, ResidualError> {
        if !(2..=MAX_SYMBOLS).contains(&symbols) || !symbols.is_multiple_of(2) {
            return Err(ResidualError::Symbols(symbols));
        }
        let code = Code { symbols, length };
        match code.columns64() * code.row(1) as u64 {
            bytes if bytes > MAX_PARITY as u64 => Err(ResidualError::ParityTooLarge { bytes }),
            _ => Ok(code),
        }
    }

    /// Parity symbols a column. Half as many symbols of a column may differ.
    pub fn symbols(&self) -> u16 {
        self.symbols
    }

    /// Bytes of the content.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Columns: one for 127 KiB of content, at least nine.
    pub fn columns(&self) -> usize {
        // `new` has bounded it.
        usize::try_from(self.columns64()).unwrap_or(usize::MAX)
    }

    /// Bytes that the parity takes.
    pub fn bytes(&self) -> usize {
        self.row(self.columns())
    }

    fn columns64(&self) -> u64 {
        self.length.div_ceil(COLUMN).max(MIN_COLUMNS)
    }

    /// Bytes of the parity of so many columns.
    fn row(&self, columns: usize) -> usize {
        usize::from(self.symbols) * 2 * columns
    }

    /// The first point of the data, and as many as the encoder takes at one time.
    fn span(&self) -> usize {
        usize::from(self.symbols).next_power_of_two()
    }

    /// Bytes of one symbol of each column: they lie next to each other in the content.
    fn stripe(&self) -> usize {
        2 * self.columns()
    }
}

/// The parity of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parity {
    code: Code,
    /// For each of the code's symbols one of each column, in two bytes, the lower first.
    bytes: Vec<u8>,
}

impl Parity {
    /// The parity of a content that is read to its end.
    ///
    /// # Errors
    /// [`ResidualError::OtherLength`] if it has another length than the code says; what reading answers.
    pub fn of(mut content: impl Read, code: Code) -> Result<Parity, ResidualError> {
        let mut encoder = Encoder::new(code);
        let mut buffer = vec![0; PIECE];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return encoder.finish(),
                Ok(count) => encoder.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The parity that came as these bytes.
    ///
    /// # Errors
    /// [`ResidualError::Malformed`] if there are not [`Code::bytes`] of them.
    pub fn from_bytes(code: Code, bytes: Vec<u8>) -> Result<Parity, ResidualError> {
        if bytes.len() != code.bytes() {
            return Err(ResidualError::Malformed("a parity has not as many symbols as its code"));
        }
        Ok(Parity { code, bytes })
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The bytes that travel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is to be changed in a content with the parity `replayed` to get the content with this one.
    ///
    /// Right if at most half as many symbols of each column differ as the code has. If more do, that is told nearly
    /// always; the rest is for the hash of the result to find.
    ///
    /// # Errors
    /// [`ResidualError::OtherLength`], [`ResidualError::Unrepairable`].
    pub fn difference(&self, replayed: &Parity) -> Result<Difference, ResidualError> {
        difference::between(self, replayed)
    }

    /// The symbol `number` of a column.
    fn symbol(&self, number: usize, column: usize) -> u16 {
        let at = number * self.code.stripe() + 2 * column;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }
}
