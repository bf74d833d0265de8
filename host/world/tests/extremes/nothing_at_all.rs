//! Lengths of zero, and no memory at all.

use crate::*;

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
        "fd_filestat_set_size" | "fd_filestat_set_times" | "fd_prestat_get" | "fd_prestat_dir_name" => Err(Errno::Badf),
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
