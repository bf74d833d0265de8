//! The table of imports: what a module may import, and the method of [`crate::World`] behind each.

/// Passes every import to the macro named, as rows `(module, name, method, (argument: type, …));`.
///
/// Types are those of the WebAssembly signature, `u32` for `i32` and `u64` for `i64`. Every function gives one `i32`, 0 or
/// the errno of [`crate::Trap::Errno`], but for `proc_exit`, which gives nothing and never returns. Each method is
/// `fn method(&mut self, memory: &mut [u8], argument: type, …) -> Result<(), Trap>`, `memory` being the module's whole
/// linear memory.
#[macro_export]
macro_rules! for_each_import {
    ($callback:ident) => {
        $callback! {
            ("wasi_snapshot_preview1", "args_get", args_get, (argv: u32, buffer: u32));
            ("wasi_snapshot_preview1", "args_sizes_get", args_sizes_get, (count: u32, size: u32));
            ("wasi_snapshot_preview1", "environ_get", environ_get, (environ: u32, buffer: u32));
            ("wasi_snapshot_preview1", "environ_sizes_get", environ_sizes_get, (count: u32, size: u32));
            ("wasi_snapshot_preview1", "clock_res_get", clock_res_get, (clock: u32, out: u32));
            ("wasi_snapshot_preview1", "clock_time_get", clock_time_get, (clock: u32, precision: u64, out: u32));
            ("wasi_snapshot_preview1", "fd_advise", fd_advise, (fd: u32, offset: u64, length: u64, advice: u32));
            ("wasi_snapshot_preview1", "fd_allocate", fd_allocate, (fd: u32, offset: u64, length: u64));
            ("wasi_snapshot_preview1", "fd_close", fd_close, (fd: u32));
            ("wasi_snapshot_preview1", "fd_datasync", fd_datasync, (fd: u32));
            ("wasi_snapshot_preview1", "fd_fdstat_get", fd_fdstat_get, (fd: u32, out: u32));
            ("wasi_snapshot_preview1", "fd_fdstat_set_flags", fd_fdstat_set_flags, (fd: u32, flags: u32));
            ("wasi_snapshot_preview1", "fd_fdstat_set_rights", fd_fdstat_set_rights, (fd: u32, base: u64, inheriting: u64));
            ("wasi_snapshot_preview1", "fd_filestat_get", fd_filestat_get, (fd: u32, out: u32));
            ("wasi_snapshot_preview1", "fd_filestat_set_size", fd_filestat_set_size, (fd: u32, size: u64));
            ("wasi_snapshot_preview1", "fd_filestat_set_times", fd_filestat_set_times, (fd: u32, atime: u64, mtime: u64, flags: u32));
            ("wasi_snapshot_preview1", "fd_pread", fd_pread, (fd: u32, iovs: u32, iovs_len: u32, offset: u64, nread: u32));
            ("wasi_snapshot_preview1", "fd_prestat_get", fd_prestat_get, (fd: u32, out: u32));
            ("wasi_snapshot_preview1", "fd_prestat_dir_name", fd_prestat_dir_name, (fd: u32, path: u32, path_len: u32));
            ("wasi_snapshot_preview1", "fd_pwrite", fd_pwrite, (fd: u32, iovs: u32, iovs_len: u32, offset: u64, nwritten: u32));
            ("wasi_snapshot_preview1", "fd_read", fd_read, (fd: u32, iovs: u32, iovs_len: u32, nread: u32));
            ("wasi_snapshot_preview1", "fd_readdir", fd_readdir, (fd: u32, buffer: u32, buffer_len: u32, cookie: u64, used: u32));
            ("wasi_snapshot_preview1", "fd_renumber", fd_renumber, (from: u32, to: u32));
            ("wasi_snapshot_preview1", "fd_seek", fd_seek, (fd: u32, offset: u64, whence: u32, out: u32));
            ("wasi_snapshot_preview1", "fd_sync", fd_sync, (fd: u32));
            ("wasi_snapshot_preview1", "fd_tell", fd_tell, (fd: u32, out: u32));
            ("wasi_snapshot_preview1", "fd_write", fd_write, (fd: u32, iovs: u32, iovs_len: u32, nwritten: u32));
            ("wasi_snapshot_preview1", "path_create_directory", path_create_directory, (fd: u32, path: u32, path_len: u32));
            ("wasi_snapshot_preview1", "path_filestat_get", path_filestat_get, (fd: u32, lookup: u32, path: u32, path_len: u32, out: u32));
            ("wasi_snapshot_preview1", "path_filestat_set_times", path_filestat_set_times, (fd: u32, lookup: u32, path: u32, path_len: u32, atime: u64, mtime: u64, flags: u32));
            ("wasi_snapshot_preview1", "path_link", path_link, (old_fd: u32, lookup: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32));
            ("wasi_snapshot_preview1", "path_open", path_open, (fd: u32, lookup: u32, path: u32, path_len: u32, oflags: u32, base: u64, inheriting: u64, fdflags: u32, out: u32));
            ("wasi_snapshot_preview1", "path_readlink", path_readlink, (fd: u32, path: u32, path_len: u32, buffer: u32, buffer_len: u32, used: u32));
            ("wasi_snapshot_preview1", "path_remove_directory", path_remove_directory, (fd: u32, path: u32, path_len: u32));
            ("wasi_snapshot_preview1", "path_rename", path_rename, (old_fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32));
            ("wasi_snapshot_preview1", "path_symlink", path_symlink, (target: u32, target_len: u32, fd: u32, path: u32, path_len: u32));
            ("wasi_snapshot_preview1", "path_unlink_file", path_unlink_file, (fd: u32, path: u32, path_len: u32));
            ("wasi_snapshot_preview1", "poll_oneoff", poll_oneoff, (subscriptions: u32, events: u32, count: u32, nevents: u32));
            ("wasi_snapshot_preview1", "proc_exit", proc_exit, (code: u32));
            ("wasi_snapshot_preview1", "proc_raise", proc_raise, (signal: u32));
            ("wasi_snapshot_preview1", "sched_yield", sched_yield, ());
            ("wasi_snapshot_preview1", "random_get", random_get, (buffer: u32, length: u32));
            ("wasi_snapshot_preview1", "sock_accept", sock_accept, (fd: u32, flags: u32, out: u32));
            ("wasi_snapshot_preview1", "sock_recv", sock_recv, (fd: u32, iovs: u32, iovs_len: u32, flags: u32, nread: u32, out_flags: u32));
            ("wasi_snapshot_preview1", "sock_send", sock_send, (fd: u32, iovs: u32, iovs_len: u32, flags: u32, nwritten: u32));
            ("wasi_snapshot_preview1", "sock_shutdown", sock_shutdown, (fd: u32, how: u32));
            ("opship_1", "path_mode_get", path_mode_get, (fd: u32, lookup: u32, path: u32, path_len: u32, out: u32));
            ("opship_1", "path_mode_set", path_mode_set, (fd: u32, lookup: u32, path: u32, path_len: u32, mode: u32));
            ("opship_1", "fd_mode_get", fd_mode_get, (fd: u32, out: u32));
            ("opship_1", "fd_mode_set", fd_mode_set, (fd: u32, mode: u32));
            ("opship_1", "progress", set_progress, (done: u64, total: u64));
        }
    };
}

#[cfg(test)]
mod tests {
    macro_rules! names {
        ($(($module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*));)*) => {
            [$(($module, $name, crate::World::$method as *const ())),*]
        };
    }

    #[test]
    fn all_of_preview_1_is_there_and_each_name_once() {
        let table = for_each_import!(names);
        let preview_1: std::collections::BTreeSet<_> =
            table.iter().filter(|row| row.0 == "wasi_snapshot_preview1").map(|row| row.1).collect();
        assert_eq!(preview_1.len(), 46);
        assert_eq!(table.len(), 51);
    }
}
