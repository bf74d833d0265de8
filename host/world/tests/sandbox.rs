//! The limits of the world: nothing leads out of it, and what a guest can grow has an end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_world::{Budget, Errno, Fault, MemoryTree, Trap, World, limits};

#[test]
fn nothing_leads_out_not_even_for_a_moment() {
    let tree = MemoryTree::new()
        .file("d/f", "x")
        .symlink("abs", "/etc/passwd")
        .symlink("up", "../x")
        .symlink("d/up", "../../x");
    let mut guest = Guest::new(tree);
    for path in ["..", "../x", "/d/f", "d/../../d/f", "abs", "up", "d/up", "/"] {
        assert_eq!(guest.open(path, 0, READ), Err(Errno::Perm), "{path}");
    }
    assert_eq!(guest.symlink("/etc", "new"), Err(Errno::Perm));
    let below = guest.open("d", DIRECTORY, READ).unwrap();
    assert_eq!(guest.open_at(below, "../d/f", 0, READ, 0, 1), Err(Errno::Perm));
    assert_eq!(guest.open("d/f\0", 0, READ), Err(Errno::Inval));
    assert_eq!(guest.open("", 0, READ), Err(Errno::Noent));
}

#[test]
fn names_that_no_tree_may_hold_cannot_be_made() {
    let mut guest = Guest::empty();
    assert_eq!(guest.mkdir(".opship"), Err(Errno::Perm));
    assert_eq!(guest.write_file(".OPSHIP", b""), Err(Errno::Perm));
    assert_eq!(guest.stat(".opship", 0), Err(Errno::Noent));
    assert_eq!(guest.mkdir(&"x".repeat(256)), Err(Errno::Nametoolong));
    let mut at = String::new();
    for _ in 0..16 {
        at.push_str(&"y".repeat(250));
        guest.mkdir(&at).unwrap();
        at.push('/');
    }
    let deepest = guest.open(at.trim_end_matches('/'), DIRECTORY, READ).unwrap();
    assert_eq!(guest.open_at(deepest, &"z".repeat(200), CREAT, WRITE, 0, 1), Err(Errno::Nametoolong));
    guest.finish();
}

#[test]
fn links_that_go_round_end() {
    let mut guest = Guest::new(MemoryTree::new().symlink("a", "b").symlink("b", "a"));
    assert_eq!(guest.open("a", 0, READ), Err(Errno::Loop));
    assert_eq!(guest.open("b/x", 0, READ), Err(Errno::Loop));
}

#[test]
fn descriptors_are_limited_and_the_lowest_is_taken() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
    let opened: Vec<u32> = std::iter::from_fn(|| guest.open("f", 0, READ).ok()).collect();
    assert_eq!(opened.len(), limits::DESCRIPTORS - 4);
    assert_eq!(guest.open("f", 0, READ), Err(Errno::Mfile));
    assert_eq!(guest.open("new", CREAT, WRITE), Err(Errno::Mfile));
    guest.close(9).unwrap();
    guest.close(7).unwrap();
    assert_eq!(guest.open("f", 0, READ), Ok(7));
    assert!(guest.changes().is_empty(), "a file that could not be opened was not made");
}

/// Does something again and again until the run's end, and says what was over its limit.
fn until_a_limit(budget: Budget, mut again: impl FnMut(&mut Guest, u32) -> Result<(), Trap>) -> &'static str {
    let mut guest = Guest::begin(opship_world::WorldConfig { budget, ..config(MemoryTree::new(), vec![step()]) });
    for number in 0..100_000 {
        match again(&mut guest, number) {
            Ok(()) | Err(Trap::Errno(_)) => {}
            Err(Trap::Fault(Fault::Limit { what, .. })) => return what,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("no limit was met")
}

/// Calls with two paths, as [`Guest`] has them for errnos alone.
fn two_paths(
    guest: &mut Guest,
    (first, second): (&str, &str),
    call: impl FnOnce(&mut World, &mut [u8], [u32; 4]) -> Result<(), Trap>,
) -> Result<(), Trap> {
    let (a, a_len) = guest.put(0x1000, first.as_bytes());
    let (b, b_len) = guest.put(0x3000, second.as_bytes());
    let Guest { world, memory } = guest;
    call(world, memory, [a, a_len, b, b_len])
}

#[test]
fn names_links_and_targets_take_memory_that_is_limited() {
    let budget = Budget { world_bytes: 1 << 20, ..Budget::default() };
    let name = |number: u32| format!("{number:0>200}");
    let renamed = until_a_limit(budget, |guest, number| {
        if number == 0 {
            guest.write_file(&name(0), b"x").unwrap();
        }
        two_paths(guest, (&name(number), &name(number + 1)), |world, memory, [a, a_len, b, b_len]| {
            world.path_rename(memory, ROOT, a, a_len, ROOT, b, b_len)
        })
    });
    let linked = until_a_limit(budget, |guest, number| {
        if number == 0 {
            guest.write_file("one", b"x").unwrap();
        }
        two_paths(guest, ("one", &name(number)), |world, memory, [a, a_len, b, b_len]| {
            world.path_link(memory, ROOT, 0, a, a_len, ROOT, b, b_len)
        })
    });
    let targets = until_a_limit(budget, |guest, number| {
        two_paths(guest, (&"t/".repeat(2000), &name(number)), |world, memory, [a, a_len, b, b_len]| {
            world.path_symlink(memory, a, a_len, ROOT, b, b_len)
        })
    });
    for what in [renamed, linked, targets] {
        assert!(what.contains("names and listings"), "{what}");
    }
}

#[test]
fn what_a_run_leaves_is_limited_too_also_where_its_names_are_short_and_its_paths_long() {
    let left = |links: u32, world_bytes: u64| {
        let budget = Budget { world_bytes, ..Budget::default() };
        let mut guest = Guest::begin(opship_world::WorldConfig { budget, ..config(MemoryTree::new(), vec![step()]) });
        let deep = vec!["d".repeat(200); 18].join("/");
        (0..18).for_each(|depth| guest.mkdir(&deep[..depth * 201 + 200]).unwrap());
        guest.symlink(&"t".repeat(4000), &format!("{deep}/l")).unwrap();
        (0..links).for_each(|number| guest.link(&format!("{deep}/l"), &format!("{deep}/{number}")).unwrap());
        guest.world.end_step(0).unwrap();
        guest.world.finish().map(|outcome| outcome.lists.changes.len())
    };
    assert_eq!(left(20, 4 << 20).unwrap(), 18 + 1 + 20);
    let error = left(500, 4 << 20).unwrap_err().to_string();
    assert!(error.contains("names and listings"), "{error}");
}

#[test]
fn listings_that_are_held_are_limited_and_given_back_with_their_descriptors() {
    let names: Vec<String> = (0..500).map(|number| format!("{number:0>200}")).collect();
    let tree = || names.iter().fold(MemoryTree::new(), |tree, name| tree.file(name, "x"));
    let budget = Budget { world_bytes: 2 << 20, ..Budget::default() };
    let begin = || Guest::begin(opship_world::WorldConfig { budget, ..config(tree(), vec![step()]) });
    let list = |guest: &mut Guest| {
        let fd = guest.open(".", DIRECTORY, READ).unwrap();
        let Guest { world, memory } = guest;
        world.fd_readdir(memory, fd, 0x1000, 64, 0, 0x2000).map(|()| fd)
    };
    let mut guest = begin();
    for _ in 0..200 {
        let fd = list(&mut guest).unwrap();
        guest.close(fd).unwrap();
    }
    let ended = (0..200).find_map(|_| list(&mut guest).err());
    assert!(matches!(ended, Some(Trap::Fault(Fault::Limit { limit: 0x20_0000, .. }))), "{ended:?}");
}

#[test]
fn contents_in_memory_and_large_ones_on_disk_are_limited() {
    let one = |budget, length: u64| {
        until_a_limit(budget, |guest, number| {
            let fd = guest.open(&format!("f{number}"), CREAT, WRITE).unwrap();
            let Guest { world, memory } = guest;
            let result = world.fd_filestat_set_size(memory, fd, length);
            result.and_then(|()| guest.close(fd).map_err(Trap::Errno))
        })
    };
    let budget = Budget { world_bytes: 4 << 20, spilled_files: 9, ..Budget::default() };
    assert!(one(budget, 100_000).contains("names and listings"));
    assert!(one(budget, 2 << 20).contains("large files"));
}

#[test]
fn the_operators_limits_end_the_run() {
    let limited = |produced_bytes, inodes| {
        let budget = Budget { produced_bytes, inodes, ..Budget::default() };
        Guest::begin(opship_world::WorldConfig { budget, ..config(MemoryTree::new(), vec![step()]) })
    };
    let mut guest = limited(1000, 100);
    let fd = guest.open("f", CREAT, WRITE).unwrap();
    let (at, _) = guest.put(0x200, &[0, 0, 1, 0, 0xe9, 3, 0, 0]);
    let Guest { world, memory } = &mut guest;
    let result = world.fd_write(memory, fd, at, 1, 0);
    assert!(matches!(result, Err(Trap::Fault(Fault::Limit { limit: 1000, .. }))), "{result:?}");

    let mut guest = limited(1000, 4);
    guest.mkdir("a").unwrap();
    guest.mkdir("b").unwrap();
    let (at, len) = guest.put(0x1000, b"c");
    let Guest { world, memory } = &mut guest;
    let result = world.path_create_directory(memory, ROOT, at, len);
    assert!(matches!(result, Err(Trap::Fault(Fault::Limit { limit: 4, .. }))), "{result:?}");

    let mut guest = limited(1000, 100);
    for _ in 0..10 {
        guest.write_file("f", &[1; 600]).unwrap();
    }
    assert_eq!(guest.finish().files.len(), 1, "what is overwritten does not count");
}
