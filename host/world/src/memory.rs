//! The guest's memory: every pointer is checked, and nothing is written but what a call says.

use crate::{Errno, limits};
use std::ops::Range;

/// A range of the guest's memory, checked against its size.
pub(crate) fn range(memory: &[u8], pointer: u32, length: u32) -> Result<Range<usize>, Errno> {
    let start = pointer as usize;
    let end = start.checked_add(length as usize).filter(|end| *end <= memory.len()).ok_or(Errno::Fault)?;
    Ok(start..end)
}

pub(crate) fn bytes(memory: &[u8], pointer: u32, length: u32) -> Result<&[u8], Errno> {
    memory.get(range(memory, pointer, length)?).ok_or(Errno::Fault)
}

pub(crate) fn write(memory: &mut [u8], pointer: u32, bytes: &[u8]) -> Result<(), Errno> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::Fault)?;
    let range = range(memory, pointer, length)?;
    memory[range].copy_from_slice(bytes);
    Ok(())
}

pub(crate) fn write_u32(memory: &mut [u8], pointer: u32, value: u32) -> Result<(), Errno> {
    write(memory, pointer, &value.to_le_bytes())
}

pub(crate) fn write_u64(memory: &mut [u8], pointer: u32, value: u64) -> Result<(), Errno> {
    write(memory, pointer, &value.to_le_bytes())
}

fn array<const N: usize>(memory: &[u8], pointer: u32) -> Result<[u8; N], Errno> {
    let start = pointer as usize;
    let end = start.checked_add(N).ok_or(Errno::Fault)?;
    memory.get(start..end).and_then(|bytes| bytes.try_into().ok()).ok_or(Errno::Fault)
}

pub(crate) fn read_u32(memory: &[u8], pointer: u32) -> Result<u32, Errno> {
    array(memory, pointer).map(u32::from_le_bytes)
}

pub(crate) fn read_u64(memory: &[u8], pointer: u32) -> Result<u64, Errno> {
    array(memory, pointer).map(u64::from_le_bytes)
}

/// An address `offset` bytes behind `pointer`.
pub(crate) fn at(pointer: u32, offset: u32) -> Result<u32, Errno> {
    pointer.checked_add(offset).ok_or(Errno::Fault)
}

/// The buffers of a scattered read or write: checked, none of them empty, and no more bytes than one call may move.
pub(crate) fn buffers(memory: &[u8], iovs: u32, count: u32) -> Result<Vec<Range<usize>>, Errno> {
    if count > limits::IOVECS {
        return Err(Errno::Inval);
    }
    let mut room = limits::TRANSFER;
    let mut found = Vec::with_capacity(count as usize);
    for index in 0..count {
        let entry = at(iovs, index * 8)?;
        let (pointer, length) = (read_u32(memory, entry)?, read_u32(memory, at(entry, 4)?)?);
        let mut range = range(memory, pointer, length)?;
        let taken = length.min(room);
        room -= taken;
        range.end = range.start + taken as usize;
        if !range.is_empty() {
            found.push(range);
        }
    }
    Ok(found)
}

/// A path argument.
pub(crate) fn path(memory: &[u8], pointer: u32, length: u32) -> Result<String, Errno> {
    if length > limits::PATH {
        return Err(Errno::Nametoolong);
    }
    let bytes = bytes(memory, pointer, length)?;
    if bytes.contains(&0) {
        return Err(Errno::Inval);
    }
    Ok(std::str::from_utf8(bytes).map_err(|_| Errno::Ilseq)?.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pointers_outside_are_refused_and_never_wrap() {
        let memory = vec![0; 16];
        assert_eq!(range(&memory, 16, 0).unwrap(), 16..16);
        for (pointer, length) in [(17, 0), (16, 1), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            assert_eq!(range(&memory, pointer, length), Err(Errno::Fault));
        }
        assert_eq!(read_u64(&memory, 9), Err(Errno::Fault));
        assert_eq!(at(u32::MAX, 1), Err(Errno::Fault));
    }

    #[test]
    fn buffers_are_checked_counted_and_cut() {
        let mut memory = vec![0; 64];
        write_u32(&mut memory, 0, 32).unwrap();
        write_u32(&mut memory, 4, 8).unwrap();
        write_u32(&mut memory, 8, 40).unwrap();
        write_u32(&mut memory, 12, 0).unwrap();
        assert_eq!(buffers(&memory, 0, 2).unwrap(), vec![32..40]);
        assert_eq!(buffers(&memory, 0, limits::IOVECS + 1), Err(Errno::Inval));
        write_u32(&mut memory, 12, 25).unwrap();
        assert_eq!(buffers(&memory, 0, 2), Err(Errno::Fault));
    }

    #[test]
    fn paths_are_text_without_nul() {
        let memory = b"a\0b\xff".to_vec();
        assert_eq!(path(&memory, 0, 1).unwrap(), "a");
        assert_eq!(path(&memory, 0, 3), Err(Errno::Inval));
        assert_eq!(path(&memory, 2, 2), Err(Errno::Ilseq));
        assert_eq!(path(&memory, 0, limits::PATH + 1), Err(Errno::Nametoolong));
    }
}
