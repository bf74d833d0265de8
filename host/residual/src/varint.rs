//! Unsigned integers in groups of seven bits, the lowest first (LEB128), in their shortest form.

use crate::ResidualError;
use std::io::{self, Read, Write};

/// Most bytes that one takes.
const LONGEST: u32 = 10;

/// Writes a number.
pub(crate) fn write(out: &mut impl Write, mut number: u64) -> io::Result<()> {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return out.write_all(&[low]);
        }
        out.write_all(&[low | 0x80])?;
    }
}

/// Reads a number; `None` at the end of the bytes.
pub(crate) fn read_or_end(from: &mut impl Read) -> Result<Option<u64>, ResidualError> {
    let mut number = 0u64;
    for group in 0..LONGEST {
        let mut byte = [0];
        if read_one(from, &mut byte)? == 0 {
            return if group == 0 { Ok(None) } else { Err(ResidualError::Malformed("it ends within a number")) };
        }
        let bits = u64::from(byte[0] & 0x7f);
        let shifted = bits << (7 * group);
        if shifted >> (7 * group) != bits {
            return Err(ResidualError::Malformed("a number is too large"));
        }
        number |= shifted;
        if byte[0] & 0x80 == 0 {
            if byte[0] == 0 && group > 0 {
                return Err(ResidualError::Malformed("a number is not in its shortest form"));
            }
            return Ok(Some(number));
        }
    }
    Err(ResidualError::Malformed("a number is too long"))
}

/// Reads a number that must be there.
pub(crate) fn read(from: &mut impl Read) -> Result<u64, ResidualError> {
    read_or_end(from)?.ok_or(ResidualError::Malformed("it ends early"))
}

fn read_one(from: &mut impl Read, byte: &mut [u8; 1]) -> io::Result<usize> {
    loop {
        match from.read(byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A signed number as an unsigned one, near zero small.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The reverse of [`zigzag`].
pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_come_back_and_have_one_form() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write(&mut bytes, number).unwrap();
            assert_eq!(read(&mut bytes.as_slice()).unwrap(), number);
        }
        for refused in
            [&[0x80][..], &[0x80, 0], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(read(&mut &refused[..]).is_err(), "{refused:?}");
        }
        for number in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
    }
}
