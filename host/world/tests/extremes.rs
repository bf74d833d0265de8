//! Arguments at the ends of their ranges, each with the errno that it must give.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::calls::IMPORTS;
use common::*;
use opship_world::{Errno, Fault, MemoryTree, Trap, World, WorldConfig, limits};

const SIGNED: u64 = i64::MAX as u64;

fn guest() -> Guest {
    Guest::new(MemoryTree::new().file("f", "0123456789").directory("d").symlink("l", "f"))
}

fn opened(guest: &mut Guest) -> u32 {
    guest.open("f", 0, READ | WRITE).unwrap()
}

mod offsets {
    use super::*;

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
}

mod buffers {
    use super::*;

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
        assert_eq!(guest.memory[OUT as usize..][..10], *b"\x0a\0\0\0456789");
        let outcome = guest.finish();
        assert_eq!(outcome.lists.streams[0].stdout, opship_record::Hash::of(b"abcdcdefa"));
    }
}

mod nothing_at_all {
    use super::*;

    #[test]
    fn lengths_of_zero() {
        let mut guest = guest();
        let end = guest.memory.len() as u32;
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.random_get(memory, end, 0)), Ok(()));
        assert_eq!(errno(world.random_get(memory, end + 1, 0)), Err(Errno::Fault));
        assert_eq!(errno(world.poll_oneoff(memory, 0, 0, 0, OUT)), Err(Errno::Inval));
        assert_eq!(errno(world.fd_readdir(memory, ROOT, end, 0, 0, OUT)), Ok(()));
        assert_eq!(errno(world.fd_prestat_dir_name(memory, ROOT, end, 0)), Err(Errno::Nametoolong));
        assert_eq!(errno(world.path_symlink(memory, 0, 0, ROOT, PATH, 0)), Err(Errno::Noent));
        for at in [0, end] {
            assert_eq!(errno(world.path_filestat_get(memory, ROOT, 0, at, 0, OUT)), Err(Errno::Noent));
            assert_eq!(errno(world.path_create_directory(memory, ROOT, at, 0)), Err(Errno::Noent));
            assert_eq!(errno(world.path_unlink_file(memory, ROOT, at, 0)), Err(Errno::Noent));
            assert_eq!(errno(world.path_rename(memory, ROOT, at, 0, ROOT, at, 0)), Err(Errno::Noent));
        }
        let (at, len) = guest.put(PATH, b"l");
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.path_readlink(memory, ROOT, at, len, end, 0, OUT)), Ok(()));
        assert_eq!(guest.u32_at(OUT), 0);
        assert!(guest.changes().is_empty());
    }

    /// Every call of the table on a module without memory, all arguments 0. Those that are not named need memory.
    #[test]
    fn a_memory_of_size_zero() {
        let source = || MemoryTree::new().file("f", "x");
        let expected = |name: &str| match name {
            "fd_close" | "fd_renumber" | "sched_yield" | "fd_fdstat_set_flags" | "random_get" | "progress" => Ok(()),
            "fd_read" => Err(Errno::Fault),
            "fd_write" | "fd_pwrite" => Err(Errno::Fault),
            "fd_advise" | "fd_allocate" | "fd_pread" | "fd_seek" | "fd_tell" => Err(Errno::Spipe),
            "fd_datasync" | "fd_sync" | "fd_mode_set" | "poll_oneoff" => Err(Errno::Inval),
            "fd_fdstat_set_rights" | "proc_raise" => Err(Errno::Notsup),
            "fd_filestat_set_size" | "fd_filestat_set_times" | "fd_prestat_get" | "fd_prestat_dir_name" => {
                Err(Errno::Badf)
            }
            "sock_accept" | "sock_recv" | "sock_send" | "sock_shutdown" => Err(Errno::Notsock),
            "path_symlink" => Err(Errno::Noent),
            // Standard input is nothing that a path can start at.
            "path_create_directory"
            | "path_filestat_set_times"
            | "path_link"
            | "path_readlink"
            | "path_rename"
            | "path_remove_directory"
            | "path_unlink_file"
            | "path_mode_set" => Err(Errno::Badf),
            _ => Err(Errno::Fault),
        };
        for import in IMPORTS {
            let mut world = World::new(config(source(), vec![step()])).unwrap();
            world.begin_step(0).unwrap();
            match (import.method)(&mut world, &mut [], &vec![0; import.arguments.len()]) {
                Err(Trap::Exit(code)) => assert_eq!((import.name, code), ("proc_exit", 0)),
                result => assert_eq!(errno(result), expected(import.name), "{}", import.name),
            }
            world.end_step(0).unwrap();
            assert!(world.finish().unwrap().lists.changes.is_empty());
        }
    }
}

mod waiting {
    use super::*;

    /// A subscription to a clock: which, for how long, is that a point in time.
    fn clock(user: u64, clock: u32, timeout: u64, absolute: u16) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&user.to_le_bytes());
        bytes[16..20].copy_from_slice(&clock.to_le_bytes());
        bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
        bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        bytes[40..42].copy_from_slice(&absolute.to_le_bytes());
        bytes
    }

    const SUBSCRIPTIONS: u32 = 0x10_0000;
    const EVENTS: u32 = 0x20_0000;

    /// Which subscriptions came due, each with its errno, and how much time has passed.
    fn poll(guest: &mut Guest, subscriptions: &[Vec<u8>]) -> (Vec<(u64, u16)>, u64) {
        guest.put(SUBSCRIPTIONS, &subscriptions.concat());
        let count = subscriptions.len() as u32;
        let Guest { world, memory } = &mut *guest;
        world.poll_oneoff(memory, SUBSCRIPTIONS, EVENTS, count, OUT).unwrap();
        let events = (0..guest.u32_at(OUT)).map(|index| EVENTS + index * 32);
        let events = events.map(|at| (guest.u64_at(at), guest.u32_at(at + 8) as u16)).collect();
        let Guest { world, memory } = &mut *guest;
        world.clock_time_get(memory, 2, 0, OUT).unwrap();
        (events, guest.u64_at(OUT).saturating_sub(limits::CLOCK_STEP))
    }

    #[test]
    fn absurd_timeouts_end_at_once_and_time_stands_still_at_its_end() {
        let now = limits::MONOTONIC_BASE;
        let table: [(&[Vec<u8>], &[u64], u64); 9] = [
            (&[clock(1, 1, 0, 0)], &[1], 0),
            (&[clock(1, 1, 5, 0)], &[1], 5),
            (&[clock(1, 1, u64::MAX, 0)], &[1], u64::MAX - limits::CLOCK_STEP),
            (&[clock(1, 1, u64::MAX, 1)], &[1], u64::MAX - now),
            (&[clock(1, 0, u64::MAX, 1)], &[1], u64::MAX - START),
            (&[clock(1, 1, now, 1), clock(2, 1, u64::MAX, 0)], &[1], 0),
            (&[clock(1, 1, 0, 1), clock(2, 1, 0, 0), clock(3, 1, 1, 0)], &[1, 2], 0),
            (
                &[clock(1, 0, START + 7, 1), clock(2, 1, 7, 0), clock(3, 1, now + 7, 1), clock(4, 1, 8, 0)],
                &[1, 2, 3],
                7,
            ),
            (&[clock(1, 1, 1 << 63, 0), clock(2, 1, u64::MAX, 1)], &[1], 1 << 63),
        ];
        for (subscriptions, due, passed) in table {
            let mut guest = guest();
            let (events, time) = poll(&mut guest, subscriptions);
            assert_eq!(events, due.iter().map(|user| (*user, 0)).collect::<Vec<_>>());
            assert_eq!(time, passed, "{due:?}");
        }
        let mut guest = guest();
        for _ in 0..3 {
            poll(&mut guest, &[clock(1, 1, u64::MAX, 0)]);
            for id in 0..4 {
                guest.world.clock_time_get(&mut guest.memory, id, 0, OUT).unwrap();
                assert_eq!(guest.u64_at(OUT), u64::MAX);
            }
        }
        guest.write_file("f", b"late").unwrap();
        assert_eq!(guest.stat("f", 0).unwrap().mtime, SIGNED);
        assert_eq!(guest.changes().len(), 1);
    }

    #[test]
    fn what_cannot_be_waited_for_is_an_event_with_an_errno() {
        let mut guest = guest();
        for unknown in [4, 5, u32::MAX] {
            let (events, passed) = poll(&mut guest, &[clock(1, unknown, 9, 0), clock(2, 1, u64::MAX, 0)]);
            assert_eq!(events, [(1, Errno::Inval.raw())]);
            assert!(passed < 1_000_000);
        }
        let mut kind = clock(1, 1, 0, 0);
        for tag in [3, 4, 255] {
            kind[8] = tag;
            guest.put(SUBSCRIPTIONS, &kind);
            let Guest { world, memory } = &mut guest;
            assert_eq!(errno(world.poll_oneoff(memory, SUBSCRIPTIONS, EVENTS, 1, OUT)), Err(Errno::Inval), "{tag}");
        }
    }

    #[test]
    fn as_many_subscriptions_as_there_may_be_anywhere_in_the_memory() {
        let mut guest = guest();
        let most = limits::SUBSCRIPTIONS;
        let all: Vec<Vec<u8>> = (0..u64::from(most)).map(|user| clock(user, 1, 3, 0)).collect();
        assert_eq!(poll(&mut guest, &all).0.len(), most as usize);
        let end = guest.memory.len() as u32;
        let table = [
            (SUBSCRIPTIONS, EVENTS, most + 1, OUT, Err(Errno::Inval)),
            (SUBSCRIPTIONS, EVENTS, u32::MAX, OUT, Err(Errno::Inval)),
            (end - 47, EVENTS, 1, OUT, Err(Errno::Fault)),
            (u32::MAX, EVENTS, 1, OUT, Err(Errno::Fault)),
            (SUBSCRIPTIONS, end - 31, 1, OUT, Err(Errno::Fault)),
            (SUBSCRIPTIONS, EVENTS, 1, end - 3, Err(Errno::Fault)),
            (end - 48, EVENTS, 1, OUT, Ok(())),
            // Events may be written over the subscriptions, which were read before.
            (SUBSCRIPTIONS, SUBSCRIPTIONS + 8, most, OUT, Ok(())),
        ];
        for (subscriptions, events, count, out, expected) in table {
            let Guest { world, memory } = &mut guest;
            let result = errno(world.poll_oneoff(memory, subscriptions, events, count, out));
            assert_eq!(result, expected, "{subscriptions} {events} {count}");
        }
    }
}

mod chance {
    use super::*;

    #[test]
    fn any_number_of_random_bytes_up_to_the_limit() {
        let mut guest = guest();
        guest.memory.resize(limits::RANDOM as usize + 8, 0);
        let end = guest.memory.len() as u32;
        let table = [
            (0, 0, Ok(())),
            (end - 1, 1, Ok(())),
            (4, limits::RANDOM, Ok(())),
            (end - limits::RANDOM + 1, limits::RANDOM, Err(Errno::Fault)),
            (end, 1, Err(Errno::Fault)),
            (u32::MAX, 1, Err(Errno::Fault)),
            (0, limits::RANDOM + 1, Err(Errno::Inval)),
            (u32::MAX, u32::MAX, Err(Errno::Inval)),
        ];
        for (at, length, expected) in table {
            let Guest { world, memory } = &mut guest;
            assert_eq!(errno(world.random_get(memory, at, length)), expected, "{at} {length}");
        }
        assert_eq!(guest.memory[..4], [0; 4], "nothing is written before the buffer");
    }

    #[test]
    fn a_refused_call_takes_nothing_from_the_stream() {
        let draw = |refused: &[(u32, u32)]| {
            let mut guest = guest();
            for (at, length) in refused {
                let Guest { world, memory } = &mut guest;
                assert!(errno(world.random_get(memory, *at, *length)).is_err());
            }
            guest.world.random_get(&mut guest.memory, DATA, 32).unwrap();
            guest.memory[DATA as usize..][..32].to_vec()
        };
        assert_eq!(draw(&[]), draw(&[(u32::MAX, 5), (0, u32::MAX), (5 << 20, 1)]));
    }
}
