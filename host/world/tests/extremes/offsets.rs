//! Offsets, positions and sizes.

use crate::*;

#[test]
fn a_write_past_the_longest_file_is_too_big_and_changes_nothing() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    for offset in [limits::FILE_SIZE, limits::FILE_SIZE + 1, SIGNED - 1, SIGNED, 1 << 63, u64::MAX - 1, u64::MAX] {
        assert_eq!(guest.pwrite(fd, b"x", offset), Err(Errno::Fbig), "{offset}");
        assert_eq!(guest.pwrite(fd, b"", offset), Ok(0), "{offset}");
        assert_eq!(guest.pread(fd, 10, offset).unwrap(), b"", "{offset}");
        if let Ok(offset) = i64::try_from(offset) {
            guest.seek(fd, offset, 0).unwrap();
            assert_eq!(guest.write(fd, b"x"), Err(Errno::Fbig), "{offset}");
            assert_eq!(guest.write(fd, b""), Ok(0));
            assert_eq!(guest.read(fd, 10).unwrap(), b"");
            assert_eq!(guest.seek(fd, 0, 1), Ok(offset.cast_unsigned()), "the position stays");
        }
    }
    assert_eq!(guest.read_file("f").unwrap(), b"0123456789");
    assert!(guest.changes().is_empty());
}

#[test]
fn a_size_past_the_longest_file_is_too_big() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    for size in [limits::FILE_SIZE + 1, SIGNED, 1 << 63, u64::MAX] {
        assert_eq!(guest.set_size(fd, size), Err(Errno::Fbig), "{size}");
    }
    assert!(guest.changes().is_empty());
}

#[test]
fn a_file_of_the_longest_size_is_the_operators_to_refuse() {
    let budget = Budget { produced_bytes: 1 << 30, ..Budget::default() };
    for way in [0, 1, 2] {
        let mut guest = Guest::begin(WorldConfig { budget, ..config(MemoryTree::new(), vec![step()]) });
        let fd = guest.open("f", CREAT, WRITE).unwrap();
        guest.put(DATA, b"x");
        guest.iov(1);
        let last = limits::FILE_SIZE - 1;
        if way == 2 {
            guest.seek(fd, last.cast_signed(), 0).unwrap();
        }
        let Guest { world, memory } = &mut guest;
        let result = match way {
            0 => world.fd_filestat_set_size(memory, fd, limits::FILE_SIZE),
            1 => world.fd_pwrite(memory, fd, IOVS, 1, last, OUT),
            _ => world.fd_write(memory, fd, IOVS, 1, OUT),
        };
        assert!(matches!(result, Err(Trap::Fault(Fault::Limit { .. }))), "{way}: {result:?}");
    }
}

#[test]
fn seeking_gives_every_position_that_is_a_signed_number_and_no_other() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    let table = [
        // From the start, from 5, from the end (10).
        (0, [Ok(0), Ok(5), Ok(10)]),
        (-5, [Err(Errno::Inval), Ok(0), Ok(5)]),
        (-6, [Err(Errno::Inval), Err(Errno::Inval), Ok(4)]),
        (-11, [Err(Errno::Inval); 3]),
        (i64::MIN, [Err(Errno::Inval); 3]),
        (i64::MIN + 1, [Err(Errno::Inval); 3]),
        (i64::MAX, [Ok(SIGNED), Err(Errno::Inval), Err(Errno::Inval)]),
        (i64::MAX - 5, [Ok(SIGNED - 5), Ok(SIGNED), Err(Errno::Inval)]),
        (i64::MAX - 10, [Ok(SIGNED - 10), Ok(SIGNED - 5), Ok(SIGNED)]),
    ];
    for (offset, expected) in table {
        for (whence, expected) in (0..).zip(expected) {
            guest.seek(fd, 5, 0).unwrap();
            assert_eq!(guest.seek(fd, offset, whence), expected, "{offset} {whence}");
            assert_eq!(guest.seek(fd, 0, 1), Ok(expected.unwrap_or(5)), "a refused seek moves nothing");
        }
    }
    for whence in [3, 4, 255, 256, u32::MAX] {
        assert_eq!(guest.seek(fd, 0, whence), Err(Errno::Inval), "{whence}");
    }
}

#[test]
fn advice_allocation_and_cookies_take_any_number() {
    let mut guest = guest();
    let fd = opened(&mut guest);
    for (offset, length) in [(0, 0), (SIGNED, SIGNED), (1 << 63, 1 << 63), (u64::MAX, u64::MAX)] {
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.fd_advise(memory, fd, offset, length, 0)), Ok(()));
        assert_eq!(errno(world.fd_advise(memory, fd, offset, length, 6)), Err(Errno::Inval));
        assert_eq!(errno(world.fd_allocate(memory, fd, offset, length)), Err(Errno::Notsup));
        assert_eq!(errno(world.fd_readdir(memory, fd, DATA, 4096, offset, OUT)), Err(Errno::Badf));
        assert_eq!(errno(world.fd_readdir(memory, ROOT, DATA, 4096, offset.max(9), OUT)), Ok(()));
        assert_eq!(guest.u32_at(OUT), 0, "behind the last entry there is nothing");
    }
}
