//! Keys: which part of a line is compared.

use crate::bytes::{is_blank, skip_blanks};
use crate::order::{Letters, Order};

/// Where a key begins or ends, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    field: usize,
    /// Of the start: the byte's index in the field. Of the end: how many bytes of the field belong to the
    /// key, 0 for all of it.
    byte: usize,
    skip_blanks: bool,
}

/// A part of each line and how it is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    start: Position,
    /// None: to the end of the line.
    end: Option<Position>,
    pub(crate) order: Order,
}

/// A key as given, before it takes over what is said for all keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition {
    start: Position,
    end: Option<Position>,
    letters: Letters,
}

impl Definition {
    /// The whole line.
    pub(crate) fn whole_line(letters: Letters) -> Self {
        Self { start: Position { field: 0, byte: 0, skip_blanks: false }, end: None, letters }
    }

    /// Reads `F[.C][LETTERS][,F[.C][LETTERS]]`.
    ///
    /// # Errors
    /// What is wrong, naming `text`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = |what: &str| format!("{what}: invalid field specification '{text}'");
        let (start, end) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let mut letters = Letters::default();

        let (field, byte, rest) = position(start).map_err(|e| invalid(&e))?;
        let field = field.checked_sub(1).ok_or_else(|| invalid("field number is zero"))?;
        let byte = byte.unwrap_or(1).checked_sub(1).ok_or_else(|| invalid("character offset is zero"))?;
        letters.blanks_start = add_letters(&mut letters, rest).map_err(|e| invalid(&e))?;
        let start = Position { field, byte, skip_blanks: false };

        let Some(end) = end else {
            return Ok(Self { start, end: None, letters });
        };
        let (field, byte, rest) = position(end).map_err(|e| invalid(&e))?;
        let field = field.checked_sub(1).ok_or_else(|| invalid("field number is zero"))?;
        letters.blanks_end = add_letters(&mut letters, rest).map_err(|e| invalid(&e))?;
        let end = Position { field, byte: byte.unwrap_or(0), skip_blanks: false };
        Ok(Self { start, end: Some(end), letters })
    }

    /// The key, with the letters for all keys if it has none of its own.
    ///
    /// # Errors
    /// Letters that exclude each other.
    pub(crate) fn resolve(self, global: Letters) -> Result<Key, String> {
        let letters = if self.letters == Letters::default() { global } else { self.letters };
        let start = Position { skip_blanks: letters.blanks_start, ..self.start };
        let end = self.end.map(|end| Position { skip_blanks: letters.blanks_end, ..end });
        Ok(Key { start, end, order: letters.order()? })
    }
}

/// Field, byte, and the letters that follow.
fn position(text: &str) -> Result<(usize, Option<usize>, &str), String> {
    let (field, rest) = number(text).ok_or("invalid number at field start")?;
    match rest.strip_prefix('.') {
        Some(rest) => {
            let (byte, rest) = number(rest).ok_or("invalid number after '.'")?;
            Ok((field, Some(byte), rest))
        }
        None => Ok((field, None, rest)),
    }
}

/// Digits at the start; a number too large for any line counts as the largest.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(usize::MAX), rest))
}

/// Adds letters; whether `b` was among them, whose meaning depends on where it stands.
fn add_letters(letters: &mut Letters, text: &str) -> Result<bool, String> {
    let mut blanks = false;
    for letter in text.bytes() {
        if letter == b'b' {
            blanks = true;
        } else if !letters.add(letter) {
            return Err("stray character in field spec".to_owned());
        }
    }
    Ok(blanks)
}

impl Key {
    /// The key's part of `line`.
    pub(crate) fn range<'a>(&self, line: &'a [u8], separator: Option<u8>) -> &'a [u8] {
        let start = self.start_in(line, separator);
        let end = self.end.map_or(line.len(), |end| end_in(end, line, separator));
        &line[start..end.max(start)]
    }

    fn start_in(&self, line: &[u8], separator: Option<u8>) -> usize {
        let mut at = 0;
        for _ in 0..self.start.field {
            if at == line.len() {
                break;
            }
            at = after_field(line, at, separator);
            // A separator belongs to no field, blanks to the field that follows.
            if separator.is_some() && at < line.len() {
                at += 1;
            }
        }
        if self.start.skip_blanks {
            at = line.len() - skip_blanks(&line[at..]).len();
        }
        at.saturating_add(self.start.byte).min(line.len())
    }
}

fn end_in(end: Position, line: &[u8], separator: Option<u8>) -> usize {
    let mut at = 0;
    for _ in 0..end.field {
        if at == line.len() {
            break;
        }
        at = after_field(line, at, separator);
        if separator.is_some() && at < line.len() {
            at += 1;
        }
    }
    if end.byte == 0 {
        return after_field(line, at, separator);
    }
    if end.skip_blanks {
        at = line.len() - skip_blanks(&line[at..]).len();
    }
    at.saturating_add(end.byte).min(line.len())
}

/// The index of what follows the field at `at`: its separator, the next blank, or the end.
fn after_field(line: &[u8], at: usize, separator: Option<u8>) -> usize {
    let rest = &line[at..];
    match separator {
        Some(byte) => at + memchr::memchr(byte, rest).unwrap_or(rest.len()),
        None => {
            let word = skip_blanks(rest);
            let length = word.iter().position(|&b| is_blank(b)).unwrap_or(word.len());
            line.len() - word.len() + length
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part<'a>(definition: &str, line: &'a str, separator: Option<u8>) -> &'a str {
        let key = Definition::parse(definition).unwrap().resolve(Letters::default()).unwrap();
        std::str::from_utf8(key.range(line.as_bytes(), separator)).unwrap()
    }

    #[test]
    fn parts_of_a_line() {
        for (definition, expected) in [
            ("1", "  ab cd  ef"),
            ("2", " cd  ef"),
            ("2,2", " cd"),
            ("2b,2", "cd"),
            ("1.4,2.2", "b c"),
            ("2,3.1", " cd "),
            ("2,3.1b", " cd  e"),
            ("3,2", ""),
            ("9", ""),
            ("1,9", "  ab cd  ef"),
            ("1.99,1", ""),
            ("99999999999999999999999", ""),
        ] {
            assert_eq!(part(definition, "  ab cd  ef", None), expected, "{definition}");
        }
        for (definition, expected) in
            [("2", "b::d"), ("2,2", "b"), ("3,3", ""), ("3", ":d"), ("2,3", "b:"), ("4.2", "")]
        {
            assert_eq!(part(definition, "a:b::d", Some(b':')), expected, "{definition}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "0", "1.0", "a", "1x", "1,", "1,0", "1.", ".1", "1,2,3", "-1", "1b,2q"] {
            assert!(Definition::parse(text).is_err(), "{text}");
        }
        let key = |text| Definition::parse(text).unwrap().resolve(Letters::default());
        for text in ["1ng", "1nM", "1hd", "1in", "1,2gh"] {
            assert!(key(text).is_err(), "{text}");
        }
        for text in ["1nf", "1di", "1rn,2b", "1iVf"] {
            assert!(key(text).is_ok(), "{text}");
        }
    }
}
