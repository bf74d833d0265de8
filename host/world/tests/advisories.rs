//! What went wrong in other hosts of WebAssembly, by kind, must not go wrong here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_record::effect::Before;
use opship_record::plan::Mount;
use opship_record::{Hash, TreePath};
use opship_world::{Errno, Fault, MemoryTree, ProducedBody, Trap, WorldConfig, limits};

fn limited(source: MemoryTree, produced_bytes: u64) -> Guest {
    let budget = Budget { produced_bytes, ..Budget::default() };
    Guest::begin(WorldConfig { budget, ..config(source, vec![step()]) })
}

/// A guest with a writable tree at 3 and a read-only mount `m` at 4. The tree has links into the mount.
fn with_mount() -> Guest {
    let tree = MemoryTree::new().file("f", "text").directory("d").symlink("into", "m/sub/r").symlink("dir", "m/sub");
    let mount = MemoryTree::new().file("sub/r", "read only").symlink("l", "sub/r");
    let step = Step { mounts: Some(vec![Mount { path: path("m"), tree: Hash::of(b"m") }]), ..step() };
    let mut config = config(tree, vec![step]);
    config.mounts.insert(Hash::of(b"m"), Arc::new(mount));
    Guest::begin(config)
}

const MOUNT: u32 = 4;

fn renumber(guest: &mut Guest, from: u32, to: u32) -> Outcome1<()> {
    errno(guest.world.fd_renumber(&mut guest.memory, from, to))
}

mod renumber_leaks_and_corrupts {
    use super::*;

    #[test]
    fn what_is_renumbered_over_is_closed_and_its_bytes_are_free() {
        let mut guest = limited(MemoryTree::new(), 1000);
        for _ in 0..100 {
            let gone = guest.open("gone", CREAT, WRITE).unwrap();
            guest.write(gone, &[1; 900]).unwrap();
            guest.unlink("gone").unwrap();
            let other = guest.open("f", CREAT, WRITE).unwrap();
            renumber(&mut guest, other, gone).unwrap();
            guest.close(gone).unwrap();
        }
        guest.write_file("f", &[2; 900]).unwrap();
    }

    #[test]
    fn descriptors_never_run_out_and_the_lowest_stays_free() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
        let to = guest.open("f", 0, READ).unwrap();
        for _ in 0..5 * limits::DESCRIPTORS {
            let from = guest.open("f", 0, READ).unwrap();
            assert_eq!(from, to + 1);
            renumber(&mut guest, from, to).unwrap();
        }
        assert_eq!(guest.read(to, 9).unwrap(), b"x");
    }

    #[test]
    fn all_of_a_descriptor_moves_and_nothing_stays_behind() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "text").file("g", "other"));
        let from = guest.open_at(ROOT, "f", 0, READ | WRITE, APPEND, 1).unwrap();
        guest.seek(from, 2, 0).unwrap();
        let to = guest.open("g", 0, READ).unwrap();
        renumber(&mut guest, from, to).unwrap();
        assert_eq!(guest.read(to, 9).unwrap(), b"xt");
        guest.write(to, b"!").unwrap();
        assert_eq!(guest.read_file("f").unwrap(), b"text!");
        assert_eq!(guest.read(from, 1), Err(Errno::Badf));
        assert_eq!(guest.close(from), Err(Errno::Badf));
    }

    #[test]
    fn a_refused_or_idle_renumber_changes_nothing() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
        let fd = guest.open("f", 0, READ).unwrap();
        for (from, to) in [(fd, fd + 1), (fd, 1 << 20), (fd, u32::MAX), (fd + 1, fd), (u32::MAX, fd), (99, 99)] {
            assert_eq!(renumber(&mut guest, from, to), Err(Errno::Badf), "{from} {to}");
        }
        renumber(&mut guest, fd, fd).unwrap();
        assert_eq!(guest.read(fd, 9).unwrap(), b"text");
    }

    #[test]
    fn streams_and_preopens_can_be_renumbered_and_closed() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
        let file = guest.open("new", CREAT, WRITE).unwrap();
        renumber(&mut guest, file, 1).unwrap();
        guest.write(1, b"to the file").unwrap();
        renumber(&mut guest, ROOT, 0).unwrap();
        assert_eq!(guest.open_at(ROOT, "f", 0, READ, 0, 1), Err(Errno::Badf));
        assert!(guest.world.fd_prestat_get(&mut guest.memory, 0, 0).is_ok(), "it is a preopen under its new number");
        assert_eq!(guest.open_at(0, "f", 0, READ, 0, 1), Ok(3), "the number of the preopen is free");
        guest.close(0).unwrap();
        guest.close(2).unwrap();
        let outcome = guest.finish();
        assert_eq!(outcome.files[&path("new")].hash, Hash::of(b"to the file"));
        assert_eq!(outcome.lists.streams[0].stdout_length, 0);
    }
}

mod unlimited_handles_and_buffers {
    use super::*;

    #[test]
    fn descriptors_end_with_an_errno_and_come_back() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
        for round in 0..3 {
            let opened: Vec<u32> = std::iter::from_fn(|| guest.open("f", 0, READ).ok()).collect();
            assert_eq!(opened.len(), limits::DESCRIPTORS - 4, "round {round}");
            assert_eq!(guest.open(".", DIRECTORY, READ), Err(Errno::Mfile));
            opened.into_iter().for_each(|fd| guest.close(fd).unwrap());
        }
    }

    #[test]
    fn one_call_moves_no_more_than_its_limit() {
        let mut guest = limited(MemoryTree::new(), 1 << 30);
        guest.memory.resize(0x1_0000 + (65 << 20), 7);
        let fd = guest.open("f", CREAT, READ | WRITE).unwrap();
        // The same buffer over and over, and one that is larger than a call may move.
        let many: Vec<(u32, u32)> = vec![(0x1_0000, 1 << 20); limits::IOVECS as usize];
        for buffers in [many, vec![(0x1_0000, 65 << 20)]] {
            for (index, (pointer, length)) in buffers.iter().enumerate() {
                guest.put(0x2000 + index as u32 * 8, &[pointer.to_le_bytes(), length.to_le_bytes()].concat());
            }
            let (count, Guest { world, memory }) = (buffers.len() as u32, &mut guest);
            world.fd_pwrite(memory, fd, 0x2000, count, 0, 0x100).unwrap();
            assert_eq!(guest.u32_at(0x100), limits::TRANSFER);
            let Guest { world, memory } = &mut guest;
            world.fd_pread(memory, fd, 0x2000, count, 0, 0x100).unwrap();
            assert_eq!(guest.u32_at(0x100), limits::TRANSFER);
        }
        assert_eq!(guest.fstat(fd).unwrap().size, u64::from(limits::TRANSFER));
    }

    #[test]
    fn more_buffers_subscriptions_names_or_random_bytes_than_a_call_takes_are_refused() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
        let fd = guest.open("f", 0, READ | WRITE).unwrap();
        let Guest { world, memory } = &mut guest;
        for count in [limits::IOVECS + 1, u32::MAX] {
            assert_eq!(errno(world.fd_read(memory, fd, 0, count, 0)), Err(Errno::Inval));
            assert_eq!(errno(world.fd_write(memory, fd, 0, count, 0)), Err(Errno::Inval));
        }
        for count in [limits::SUBSCRIPTIONS + 1, u32::MAX] {
            assert_eq!(errno(world.poll_oneoff(memory, 0, 0, count, 0)), Err(Errno::Inval));
        }
        for length in [limits::PATH + 1, u32::MAX] {
            assert_eq!(errno(world.path_filestat_get(memory, ROOT, 0, 0, length, 0)), Err(Errno::Nametoolong));
        }
        for length in [limits::RANDOM + 1, u32::MAX] {
            assert_eq!(errno(world.random_get(memory, 0, length)), Err(Errno::Inval));
        }
    }
}

mod truncation_without_the_right_to_write {
    use super::*;

    #[test]
    fn nothing_in_a_read_only_mount_can_be_changed_by_any_call() {
        let mut guest = with_mount();
        for (fd, at) in [(ROOT, "m/sub/r"), (MOUNT, "sub/r"), (MOUNT, "l"), (ROOT, "into"), (ROOT, "dir/r")] {
            for (oflags, rights) in [(TRUNC, READ), (TRUNC, 0), (CREAT | TRUNC, READ), (0, WRITE), (CREAT, WRITE)] {
                assert_eq!(guest.open_at(fd, at, oflags, rights, 0, 1), Err(Errno::Rofs), "{at} {oflags}");
            }
            let opened = guest.open_at(fd, at, 0, READ, 0, 1).unwrap();
            assert_eq!(guest.write(opened, b"x"), Err(Errno::Badf));
            assert_eq!(guest.pwrite(opened, b"x", 0), Err(Errno::Badf));
            assert_eq!(guest.set_size(opened, 0), Err(Errno::Inval));
            let Guest { world, memory } = &mut guest;
            assert_eq!(errno(world.fd_filestat_set_times(memory, opened, 0, 9, 4)), Err(Errno::Rofs));
            assert_eq!(errno(world.fd_mode_set(memory, opened, 0o777)), Err(Errno::Rofs));
            assert_eq!(guest.read(opened, 99).unwrap(), b"read only");
            guest.close(opened).unwrap();
        }
        for at in ["m/new", "m/sub/new", "dir/new"] {
            assert_eq!(guest.write_file(at, b"x"), Err(Errno::Rofs));
            assert_eq!(guest.mkdir(at), Err(Errno::Rofs));
            assert_eq!(guest.symlink("f", at), Err(Errno::Rofs));
        }
        assert_eq!(guest.set_mtime("m/sub/r", 9), Err(Errno::Rofs));
        assert_eq!(guest.set_mode("m/sub/r", 0o777), Err(Errno::Rofs));
        assert_eq!(guest.unlink("m/sub/r"), Err(Errno::Rofs));
        assert_eq!(guest.rmdir("m/sub"), Err(Errno::Rofs));
        assert!(guest.changes().is_empty());
    }

    #[test]
    fn a_descriptor_that_only_reads_truncates_only_when_it_is_opened_and_that_is_recorded() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
        let fd = guest.open("f", 0, READ).unwrap();
        assert_eq!(guest.set_size(fd, 0), Err(Errno::Inval));
        assert_eq!(guest.read_file("f").unwrap(), b"text");
        guest.open("f", TRUNC, READ).unwrap();
        assert_eq!(guest.read(fd, 9).unwrap(), b"");
        let changes = guest.changes();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].before, Before::File { hash: Hash::of(b"text") });
        assert_eq!(changes[0].after.blob(), Some((0, Hash::of(b""))));
    }
}

mod links_and_renames_across_preopens {
    use super::*;

    fn rename(guest: &mut Guest, from: (u32, &str), to: (u32, &str)) -> Outcome1<()> {
        let (p, n) = guest.put(PATH, from.1.as_bytes());
        let (p2, n2) = guest.put(PATH2, to.1.as_bytes());
        errno(guest.world.path_rename(&mut guest.memory, from.0, p, n, to.0, p2, n2))
    }

    fn link(guest: &mut Guest, from: (u32, &str), to: (u32, &str)) -> Outcome1<()> {
        let (p, n) = guest.put(PATH, from.1.as_bytes());
        let (p2, n2) = guest.put(PATH2, to.1.as_bytes());
        errno(guest.world.path_link(&mut guest.memory, from.0, 0, p, n, to.0, p2, n2))
    }

    #[test]
    fn nothing_goes_from_one_tree_to_another() {
        let mut guest = with_mount();
        guest.write_file("tmp/t", b"scratch").unwrap();
        let ways = [
            ((MOUNT, "sub/r"), (ROOT, "stolen"), Errno::Rofs),
            ((ROOT, "m/sub/r"), (ROOT, "f"), Errno::Rofs),
            ((MOUNT, "sub"), (ROOT, "d"), Errno::Rofs),
            ((ROOT, "f"), (MOUNT, "sub/new"), Errno::Xdev),
            ((ROOT, "f"), (ROOT, "m/sub/r"), Errno::Xdev),
            ((ROOT, "d"), (ROOT, "dir/new"), Errno::Xdev),
            ((ROOT, "tmp/t"), (ROOT, "f"), Errno::Xdev),
            ((ROOT, "f"), (ROOT, "tmp/t"), Errno::Xdev),
            ((ROOT, "m"), (ROOT, "d/m"), Errno::Busy),
            ((ROOT, "tmp"), (ROOT, "d/t"), Errno::Busy),
        ];
        for (from, to, expected) in ways {
            assert_eq!(rename(&mut guest, from, to), Err(expected), "{from:?} {to:?}");
        }
        let ways = [
            ((MOUNT, "sub/r"), (ROOT, "stolen")),
            ((MOUNT, "l"), (ROOT, "stolen")),
            ((ROOT, "f"), (MOUNT, "sub/new")),
            ((ROOT, "tmp/t"), (ROOT, "stolen")),
            ((ROOT, "f"), (ROOT, "tmp/u")),
        ];
        for (from, to) in ways {
            assert_eq!(link(&mut guest, from, to), Err(Errno::Xdev), "{from:?} {to:?}");
        }
        assert_eq!(guest.read_file("m/sub/r").unwrap(), b"read only");
        assert!(guest.changes().is_empty());
    }

    #[test]
    fn a_mount_cannot_be_left_by_a_path_or_a_link() {
        let mut guest = with_mount();
        let sub = guest.open_at(MOUNT, "sub", DIRECTORY, READ, 0, 1).unwrap();
        for (fd, at) in [(MOUNT, "../f"), (MOUNT, "sub/../../f"), (sub, "../l"), (sub, ".."), (MOUNT, "/f")] {
            assert_eq!(guest.open_at(fd, at, 0, READ, 0, 1), Err(Errno::Perm), "{at}");
        }
        assert_eq!(guest.open("m/../f", 0, READ).map(drop), Ok(()), "the root leads through it and back");
    }
}

mod links_with_a_slash_behind {
    use super::*;

    fn guest() -> Guest {
        let tree = MemoryTree::new()
            .file("f", "text")
            .directory("d")
            .symlink("out", "../x")
            .symlink("abs", "/etc")
            .symlink("file", "f")
            .symlink("dir", "d")
            .symlink("none", "n")
            .symlink("round", "round");
        Guest::new(tree)
    }

    #[test]
    fn a_link_that_leads_out_is_not_followed_whatever_is_behind_it() {
        let mut guest = guest();
        for link in ["out", "abs"] {
            for at in [
                format!("{link}/"),
                format!("{link}//"),
                format!("{link}/."),
                format!("{link}/x"),
                format!("./{link}/"),
            ] {
                for follow in [0, 1] {
                    assert_eq!(guest.open_at(ROOT, &at, 0, READ, 0, follow), Err(Errno::Perm), "{at}");
                    assert_eq!(guest.open_at(ROOT, &at, DIRECTORY, READ, 0, follow), Err(Errno::Perm), "{at}");
                    assert_eq!(guest.stat(&at, follow), Err(Errno::Perm), "{at}");
                }
                assert_eq!(guest.readlink(&at), Err(Errno::Perm), "{at}");
                assert_eq!(guest.set_mtime(&at, 1), Err(Errno::Perm), "{at}");
                assert_eq!(guest.mode(&at), Err(Errno::Perm), "{at}");
            }
            assert_eq!(guest.link(&format!("{link}/"), "new"), Err(Errno::Perm));
        }
        assert!(guest.changes().is_empty());
    }

    #[test]
    fn names_to_be_made_or_removed_are_the_links_own() {
        let mut guest = guest();
        for link in ["out", "abs", "file", "dir", "none", "round"] {
            for at in [format!("{link}/"), format!("{link}///")] {
                assert_eq!(guest.mkdir(&at), Err(Errno::Exist), "{at}");
                assert_eq!(guest.symlink("f", &at), Err(Errno::Exist), "{at}");
                assert_eq!(guest.rmdir(&at), Err(Errno::Notdir), "{at}");
                assert_eq!(guest.unlink(&at), Err(Errno::Notdir), "{at}");
                assert_eq!(guest.rename(&at, "new"), Err(Errno::Notdir), "{at}");
                assert_eq!(guest.rename("f", &at), Err(Errno::Notdir), "{at}");
                assert_eq!(guest.link("f", &at), Err(Errno::Exist), "{at}");
                assert_eq!(guest.open(&at, CREAT, WRITE), Err(Errno::Isdir), "{at}");
            }
        }
        assert!(guest.changes().is_empty());
    }

    #[test]
    fn inside_the_tree_a_slash_means_a_directory() {
        let mut guest = guest();
        assert_eq!(guest.stat("dir/", 0).unwrap().file_type, 3);
        assert_eq!(guest.stat("dir", 0).unwrap().file_type, 7);
        assert_eq!(guest.stat("file/", 1), Err(Errno::Notdir));
        assert_eq!(guest.stat("none/", 1), Err(Errno::Noent));
        assert_eq!(guest.stat("round/", 1), Err(Errno::Loop));
        assert_eq!(guest.open("f/", 0, READ), Err(Errno::Notdir));
    }
}

mod unlimited_buffered_output {
    use super::*;

    #[test]
    fn every_way_to_produce_bytes_ends_at_the_operators_limit() {
        type Way = fn(&mut Guest, &[u8]) -> Result<(), Trap>;
        let ways: [(&str, Way); 6] = [
            ("standard output", |guest, data| write(guest, 1, data)),
            ("standard error", |guest, data| write(guest, 2, data)),
            ("a file", |guest, data| {
                let fd = guest.open_at(ROOT, "f", CREAT, WRITE, APPEND, 1).unwrap();
                let result = write(guest, fd, data);
                guest.close(fd).unwrap();
                result
            }),
            ("files", |guest, data| {
                let name = format!("f{}", (0..).find(|n| guest.stat(&format!("f{n}"), 0).is_err()).unwrap());
                let fd = guest.open(&name, CREAT, WRITE).unwrap();
                let result = write(guest, fd, data);
                guest.close(fd).unwrap();
                result
            }),
            ("files without a name", |guest, data| {
                let fd = guest.open("f", CREAT, WRITE).unwrap();
                guest.unlink("f").unwrap();
                write(guest, fd, data)
            }),
            ("growing", |guest, data| {
                let fd = guest.open("f", CREAT, WRITE).unwrap();
                let size = guest.fstat(fd).unwrap().size + data.len() as u64;
                let result = guest.world.fd_filestat_set_size(&mut guest.memory, fd, size);
                guest.close(fd).unwrap();
                result
            }),
        ];
        for (name, way) in ways {
            let mut guest = limited(MemoryTree::new(), 10_000);
            let ended = (0..100).find_map(|_| way(&mut guest, &[b'x'; 1000]).err());
            assert!(matches!(ended, Some(Trap::Fault(Fault::Limit { limit: 10_000, .. }))), "{name}: {ended:?}");
        }
    }

    fn write(guest: &mut Guest, fd: u32, data: &[u8]) -> Result<(), Trap> {
        guest.put(DATA, data);
        guest.iov(data.len() as u32);
        guest.world.fd_write(&mut guest.memory, fd, IOVS, 1, OUT)
    }

    #[test]
    fn much_output_is_kept_on_disk() {
        let mut guest = Guest::empty();
        let piece = vec![b'o'; 1 << 20];
        for fd in [1, 1, 1, 2, 2] {
            guest.write(fd, &piece).unwrap();
        }
        let outcome = guest.finish();
        let (stdout, stderr) = &outcome.streams[0];
        assert!(matches!(stdout.body, ProducedBody::Spilled(_)) && matches!(stderr.body, ProducedBody::Spilled(_)));
        assert_eq!((stdout.hash, stdout.length), (Hash::of(&piece.repeat(3)), 3 << 20));
    }
}

mod extreme_timestamps {
    use super::*;

    const TIMES: [(u64, i64); 8] = [
        (0, 0),
        (1, 1),
        (i64::MAX as u64 - 1, i64::MAX - 1),
        (i64::MAX as u64, i64::MAX),
        (i64::MAX as u64 + 1, i64::MAX),
        (1 << 63 | 1, i64::MAX),
        (u64::MAX - 1, i64::MAX),
        (u64::MAX, i64::MAX),
    ];

    #[test]
    fn any_time_can_be_set_is_shown_and_is_recorded() {
        for (asked, kept) in TIMES {
            let mut guest =
                Guest::new(MemoryTree::new().file("f", "x").file("g", "x").symlink("l", "f").directory("d"));
            guest.set_mtime("f", asked).unwrap();
            guest.set_mtime("l", asked).unwrap();
            guest.set_mtime("d", asked).unwrap();
            let fd = guest.open("g", 0, READ).unwrap();
            errno(guest.world.fd_filestat_set_times(&mut guest.memory, fd, asked, asked, 5)).unwrap();
            for at in ["f", "g", "l"] {
                assert_eq!(guest.stat(at, 0).unwrap().mtime, kept as u64, "{at} {asked}");
            }
            assert_eq!(guest.stat("d", 0).unwrap().mtime, START, "a directory has no time of its own");
            let changed: Vec<(TreePath, Option<i64>)> =
                guest.changes().into_iter().map(|change| (change.path, change.after.mtime())).collect();
            assert_eq!(changed, ["f", "g", "l"].map(|at| (path(at), Some(kept))), "{asked}");
        }
    }

    #[test]
    fn what_the_tree_holds_may_be_as_old_or_new_as_it_likes() {
        for mtime in [i64::MIN, -1, 0, i64::MAX] {
            let mut guest = Guest::new(MemoryTree::new().file_with("f", "x", 0o644, mtime));
            assert_eq!(guest.stat("f", 0).unwrap().mtime, u64::try_from(mtime).unwrap_or(0));
            guest.rename("f", "g").unwrap();
            let changes = guest.changes();
            assert_eq!(changes[1].after.mtime(), Some(mtime), "the time itself is kept");
        }
    }

    #[test]
    fn a_run_may_start_at_any_time() {
        for start in [0, 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX] {
            let mut config = config(MemoryTree::new(), vec![step()]);
            config.plan.clock_start = start;
            let mut guest = Guest::begin(config);
            for clock in 0..4 {
                errno(guest.world.clock_time_get(&mut guest.memory, clock, u64::MAX, OUT)).unwrap();
            }
            guest.write_file("f", b"x").unwrap();
            let now = start.saturating_add(4 * limits::CLOCK_STEP);
            assert_eq!(guest.stat("f", 0).unwrap().mtime, now.min(i64::MAX as u64));
            assert_eq!(guest.stat(".", 0).unwrap().mtime, start);
            assert_eq!(guest.changes()[0].after.mtime(), Some(i64::try_from(now).unwrap_or(i64::MAX)));
        }
    }

    #[test]
    fn contradicting_or_unknown_flags_set_nothing() {
        let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
        let fd = guest.open("f", 0, READ).unwrap();
        let (at, len) = guest.put(PATH, b"f");
        let Guest { world, memory } = &mut guest;
        for which in [3, 12, 7, 13, 15, 16, 1 << 16, u32::MAX] {
            assert_eq!(errno(world.fd_filestat_set_times(memory, fd, 1, 1, which)), Err(Errno::Inval), "{which}");
            let result = errno(world.path_filestat_set_times(memory, ROOT, 0, at, len, 1, 1, which));
            assert_eq!(result, Err(Errno::Inval), "{which}");
        }
        assert!(guest.changes().is_empty());
    }
}
