//! Scattered reads and writes.

use crate::*;

fn iovs(guest: &mut Guest, buffers: &[(u32, u32)]) -> u32 {
    for (index, (pointer, length)) in buffers.iter().enumerate() {
        guest.put(IOVS + index as u32 * 8, &[pointer.to_le_bytes(), length.to_le_bytes()].concat());
    }
    buffers.len() as u32
}

#[test]
fn counts_and_pointers_at_the_edge() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    let end = guest.memory.len() as u32;
    let table = [
        // Buffers, how many, what comes of it.
        (0, 0, Ok(())),
        (end, 0, Ok(())),
        (u32::MAX, 0, Ok(())),
        (end - 8, 1, Ok(())),
        (end - 7, 1, Err(Errno::Fault)),
        (end, 1, Err(Errno::Fault)),
        (u32::MAX, 1, Err(Errno::Fault)),
        (u32::MAX - 7, 2, Err(Errno::Fault)),
        (end - 8 * limits::IOVECS, limits::IOVECS, Ok(())),
        (end - 8 * limits::IOVECS + 1, limits::IOVECS, Err(Errno::Fault)),
        (0, limits::IOVECS + 1, Err(Errno::Inval)),
        (u32::MAX, u32::MAX, Err(Errno::Inval)),
    ];
    for (at, count, expected) in table {
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.fd_read(memory, fd, at, count, OUT)), expected, "{at} {count}");
        assert_eq!(errno(world.fd_pread(memory, fd, at, count, 0, OUT)), expected, "{at} {count}");
        assert_eq!(errno(world.fd_write(memory, 1, at, count, OUT)), expected, "{at} {count}");
        assert_eq!(errno(world.fd_pwrite(memory, fd, at, count, 0, OUT)), expected, "{at} {count}");
    }
    for (pointer, length, expected) in [
        (end, 0, Ok(b"".to_vec())),
        (end - 1, 1, Ok(b"0".to_vec())),
        (end, 1, Err(Errno::Fault)),
        (end + 1, 0, Err(Errno::Fault)),
        (u32::MAX, 0, Err(Errno::Fault)),
        (u32::MAX, u32::MAX, Err(Errno::Fault)),
        (1, u32::MAX, Err(Errno::Fault)),
    ] {
        let count = iovs(&mut guest, &[(pointer, length)]);
        let Guest { world, memory } = &mut guest;
        let got = errno(world.fd_pread(memory, fd, IOVS, count, 0, OUT));
        let got = got.map(|()| guest.memory[pointer as usize..][..guest.u32_at(OUT) as usize].to_vec());
        assert_eq!(got, expected, "{pointer} {length}");
    }
}

#[test]
fn a_bad_buffer_or_count_pointer_writes_nothing_to_the_file() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    let end = guest.memory.len() as u32;
    let count = iovs(&mut guest, &[(DATA, 4), (end, 1)]);
    let Guest { world, memory } = &mut guest;
    assert_eq!(errno(world.fd_write(memory, fd, IOVS, count, OUT)), Err(Errno::Fault));
    for out in [end - 3, end, u32::MAX] {
        assert_eq!(errno(world.fd_write(memory, fd, IOVS, 1, out)), Err(Errno::Fault));
        assert_eq!(errno(world.fd_pwrite(memory, fd, IOVS, 1, 0, out)), Err(Errno::Fault));
        assert_eq!(errno(world.fd_write(memory, 1, IOVS, 1, out)), Err(Errno::Fault));
    }
    let outcome = guest.finish();
    assert!(outcome.lists.changes.is_empty() && outcome.lists.streams[0].stdout_length == 0);
}

#[test]
fn overlapping_buffers_are_used_one_after_the_other() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    let count = iovs(&mut guest, &[(DATA, 4), (DATA + 2, 4), (DATA, 1)]);
    let Guest { world, memory } = &mut guest;
    world.fd_read(memory, fd, IOVS, count, OUT).unwrap();
    assert_eq!((guest.u32_at(OUT), &guest.memory[DATA as usize..][..6]), (9, &b"814567"[..]));

    guest.put(DATA, b"abcdef");
    let Guest { world, memory } = &mut guest;
    world.fd_write(memory, 1, IOVS, count, OUT).unwrap();
    // A read into the list of buffers itself uses the list as it was.
    let list = iovs(&mut guest, &[(IOVS, 8), (DATA, 2)]);
    let Guest { world, memory } = &mut guest;
    world.fd_pread(memory, fd, IOVS, list, 0, OUT).unwrap();
    assert_eq!(&guest.memory[IOVS as usize..][..8], b"01234567");
    assert_eq!(&guest.memory[DATA as usize..][..2], b"89");
    // Where the count lies in a buffer, the count wins.
    iovs(&mut guest, &[(OUT, 10)]);
    let Guest { world, memory } = &mut guest;
    world.fd_pread(memory, fd, IOVS, 1, 0, OUT).unwrap();
    assert_eq!(guest.memory[OUT as usize..][..10], *b"\x0a\x00\x00\x00456789");
    let outcome = guest.finish();
    assert_eq!(outcome.lists.streams[0].stdout, opship_record::Hash::of(b"abcdcdefa"));
}
