//! The decoder: from the difference of two parities to that of their contents.
//!
//! Let `d` be the differing symbols of a column at the points `x`, and `p` the difference of its parity. Both together
//! are a code word, so the sum of `p[j] j^m` over the parity's points is that of `d x^m` over the data's, for each `m` below
//! `span`: the dual of a Reed-Solomon code on all points of its field is one without multipliers. Where fewer than `span`
//! symbols are sent, both are multiplied by the polynomial that is 0 at the points left out ([`left_out`]). So the parity
//! alone gives the syndromes of the difference, and the rest is as ever: Berlekamp and Massey find the locator, its roots are
//! the points, Forney's formula gives the symbols (Blahut, "Algebraic Codes for Data Transmission", 2003, chapter 7).

use super::field::Field;
use super::locator::locator;
use super::places::places;
use super::{Code, PIECE, Parity};
use crate::ResidualError;
use std::io::{self, Read, Write};

/// What is to be changed in a replayed content to get the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    length: u64,
    /// Offsets in ascending order, and what the two bytes there are XORed with.
    changes: Vec<(u64, [u8; 2])>,
}

impl Difference {
    /// How many pairs of bytes differ.
    pub fn count(&self) -> usize {
        self.changes.len()
    }

    /// Makes the recorded content of the replayed one, and gives its length. The hash of what comes out is for the caller to
    /// compare.
    ///
    /// # Errors
    /// [`ResidualError::OtherLength`]; what reading and writing answer.
    pub fn apply(&self, mut replayed: impl Read, sink: &mut impl Write) -> Result<u64, ResidualError> {
        let mut buffer = vec![0; PIECE];
        let mut changed = self.changes.iter().flat_map(|(at, bytes)| (*at..).zip(*bytes)).peekable();
        let mut offset = 0;
        loop {
            let count = match replayed.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let end = offset + count as u64;
            while let Some((at, change)) = changed.next_if(|(at, _)| *at < end) {
                // All before the offset is behind already.
                if let Some(byte) = usize::try_from(at - offset).ok().and_then(|at| buffer.get_mut(at)) {
                    *byte ^= change;
                }
            }
            sink.write_all(&buffer[..count])?;
            offset = end;
        }
        if offset != self.length {
            return Err(ResidualError::OtherLength { length: offset, recorded: self.length });
        }
        Ok(offset)
    }
}

/// What [`Parity::difference`] says.
pub(super) fn between(recorded: &Parity, replayed: &Parity) -> Result<Difference, ResidualError> {
    let code = recorded.code;
    if replayed.code.length != code.length {
        return Err(ResidualError::OtherLength { length: replayed.code.length, recorded: code.length });
    }
    if replayed.code != code {
        return Err(ResidualError::Malformed("two parities are of different codes"));
    }
    let column = Column { field: Field::new(), code };
    let mut differing = Vec::new();
    let mut locators = Vec::new();
    for number in 0..code.columns() {
        let syndromes = column.syndromes(|symbol| recorded.symbol(symbol, number) ^ replayed.symbol(symbol, number));
        if syndromes.iter().any(|syndrome| *syndrome != 0) {
            locators.push(locator(column.field, &syndromes).ok_or(ResidualError::Unrepairable)?);
            differing.push((number, syndromes));
        }
    }
    let mut changes = Vec::new();
    let points = places(column.field, code, &locators);
    for (((number, syndromes), locator), points) in differing.iter().zip(&locators).zip(&points) {
        changes.extend(column.changes(*number, syndromes, locator, points)?);
    }
    changes.sort_unstable();
    Ok(Difference { length: code.length, changes })
}

/// What all columns share.
struct Column {
    field: Field,
    code: Code,
}

impl Column {
    fn syndromes(&self, parity: impl Fn(usize) -> u16) -> Vec<u16> {
        let mut syndromes = vec![0; usize::from(self.code.symbols)];
        for (symbol, point) in (0..syndromes.len()).zip(0..) {
            let mut term = self.field.mul(parity(symbol), self.left_out(point));
            for syndrome in &mut syndromes {
                if term == 0 {
                    break;
                }
                *syndrome ^= term;
                term = self.field.mul(term, point);
            }
        }
        syndromes
    }

    /// The product of the differences to the points of the span at which no symbol is sent.
    fn left_out(&self, point: u16) -> u16 {
        let span = u16::try_from(self.code.span()).unwrap_or(u16::MAX);
        (self.code.symbols..span).fold(1, |product, other| self.field.mul(product, point ^ other))
    }

    /// The changes in a column, if the locator has as many roots as its degree, all of them within the content.
    fn changes(
        &self,
        number: usize,
        syndromes: &[u16],
        locator: &[u16],
        points: &[u16],
    ) -> Result<Vec<(u64, [u8; 2])>, ResidualError> {
        if points.len() != locator.len() - 1 {
            return Err(ResidualError::Unrepairable);
        }
        let evaluator = evaluator(self.field, syndromes, locator);
        let derivative: Vec<u16> = (1..locator.len()).map(|k| if k % 2 == 1 { locator[k] } else { 0 }).collect();
        let change = |point: &u16| {
            let inverse = self.field.div(1, *point);
            // A root that is there once is none of the derivative.
            let value = self.field.div(self.field.value(&evaluator, inverse), self.field.value(&derivative, inverse));
            let symbol = self.field.div(self.field.mul(value, *point), self.left_out(*point));
            let stripe = u64::from(*point) - self.code.span() as u64;
            let offset = stripe * self.code.stripe() as u64 + 2 * number as u64;
            let bytes = symbol.to_le_bytes();
            let beyond = self.code.length.saturating_sub(offset);
            let within = beyond >= 2 || beyond == 1 && bytes[1] == 0;
            within.then_some((offset, bytes)).ok_or(ResidualError::Unrepairable)
        };
        points.iter().map(change).collect()
    }
}

/// The product of syndromes and locator, as far as it is needed: its degree is below the locator's.
fn evaluator(field: Field, syndromes: &[u16], locator: &[u16]) -> Vec<u16> {
    let coefficient =
        |k: usize| locator.iter().zip(syndromes[..=k].iter().rev()).fold(0, |sum, (a, b)| sum ^ field.mul(*a, *b));
    (0..locator.len() - 1).map(coefficient).collect()
}
