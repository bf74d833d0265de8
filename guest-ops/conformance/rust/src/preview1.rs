//! Functions of preview 1 that the standard library does not reach, and those whose raw answers are to be seen.
//!
//! All unsafe code of this guest is here; each function takes and returns safe types.
#![allow(unsafe_code)]

use std::io;

mod imports {
    // SAFETY: signatures as preview 1 defines them: pointers are offsets into this module's memory.
    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        pub(super) fn random_get(buffer: *mut u8, len: usize) -> i32;
        pub(super) fn clock_time_get(clock: u32, precision: u64, out: *mut u64) -> i32;
        pub(super) fn clock_res_get(clock: u32, out: *mut u64) -> i32;
        pub(super) fn fd_pread(fd: u32, iovs: *const [usize; 2], len: usize, offset: u64, out: *mut usize) -> i32;
        pub(super) fn fd_pwrite(fd: u32, iovs: *const [usize; 2], len: usize, offset: u64, out: *mut usize) -> i32;
        pub(super) fn fd_read(fd: u32, iovs: *const [usize; 2], len: usize, out: *mut usize) -> i32;
        pub(super) fn fd_write(fd: u32, iovs: *const [usize; 2], len: usize, out: *mut usize) -> i32;
        pub(super) fn fd_readdir(fd: u32, buffer: *mut u8, len: usize, cookie: u64, out: *mut usize) -> i32;
        pub(super) fn fd_seek(fd: u32, offset: i64, whence: u32, out: *mut u64) -> i32;
        pub(super) fn fd_tell(fd: u32, out: *mut u64) -> i32;
        pub(super) fn fd_filestat_get(fd: u32, out: *mut [u64; 8]) -> i32;
        pub(super) fn fd_fdstat_get(fd: u32, out: *mut [u64; 3]) -> i32;
        pub(super) fn fd_prestat_get(fd: u32, out: *mut [u32; 2]) -> i32;
        pub(super) fn fd_prestat_dir_name(fd: u32, path: *mut u8, len: usize) -> i32;
        pub(super) safe fn fd_fdstat_set_flags(fd: u32, flags: u32) -> i32;
        pub(super) safe fn fd_filestat_set_size(fd: u32, size: u64) -> i32;
        pub(super) safe fn fd_filestat_set_times(fd: u32, atime: u64, mtime: u64, which: u32) -> i32;
        pub(super) safe fn fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64) -> i32;
        pub(super) safe fn sched_yield() -> i32;
        pub(super) safe fn fd_allocate(fd: u32, offset: u64, len: u64) -> i32;
        pub(super) safe fn fd_advise(fd: u32, offset: u64, len: u64, advice: u32) -> i32;
        pub(super) safe fn fd_renumber(from: u32, to: u32) -> i32;
        pub(super) safe fn fd_close(fd: u32) -> i32;
        pub(super) safe fn fd_sync(fd: u32) -> i32;
        pub(super) safe fn fd_datasync(fd: u32) -> i32;
        pub(super) safe fn sock_shutdown(fd: u32, how: u32) -> i32;
        pub(super) fn poll_oneoff(subs: *const [u64; 6], events: *mut [u64; 4], count: usize, out: *mut usize) -> i32;
        pub(super) fn path_open(
            dir: u32,
            lookup: u32,
            path: *const u8,
            len: usize,
            flags: u32,
            rights: u64,
            inheriting: u64,
            fdflags: u32,
            out: *mut u32,
        ) -> i32;
        pub(super) fn path_link(
            from: u32,
            lookup: u32,
            path: *const u8,
            len: usize,
            to: u32,
            new: *const u8,
            new_len: usize,
        ) -> i32;
        pub(super) fn path_rename(
            from: u32,
            path: *const u8,
            len: usize,
            to: u32,
            new: *const u8,
            new_len: usize,
        ) -> i32;
        pub(super) fn path_filestat_get(dir: u32, lookup: u32, path: *const u8, len: usize, out: *mut [u64; 8]) -> i32;
        pub(super) fn path_filestat_set_times(
            dir: u32,
            lookup: u32,
            path: *const u8,
            len: usize,
            atime: u64,
            mtime: u64,
            which: u32,
        ) -> i32;
        pub(super) fn path_remove_directory(dir: u32, path: *const u8, len: usize) -> i32;
        pub(super) fn path_create_directory(dir: u32, path: *const u8, len: usize) -> i32;
        pub(super) fn path_unlink_file(dir: u32, path: *const u8, len: usize) -> i32;
    }
}

/// The root, which a host opens before a module starts.
pub(crate) const ROOT: u32 = 3;
/// `lookupflags::symlink_follow`.
pub(crate) const FOLLOW: u32 = 1;
/// `oflags`.
pub(crate) const CREATE: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCLUSIVE: u32 = 4;
pub(crate) const TRUNCATE: u32 = 8;
/// `fdflags::append`.
pub(crate) const APPEND: u32 = 1;
/// `fstflags`.
pub(crate) const SET_ATIME: u32 = 1;
pub(crate) const SET_ATIME_NOW: u32 = 2;
pub(crate) const SET_MTIME: u32 = 4;
pub(crate) const SET_MTIME_NOW: u32 = 8;

/// `rights` to read, or to write too.
pub(crate) const READ: u64 = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 14 | 1 << 21;
pub(crate) const WRITE: u64 = READ | 1 << 6 | 1 << 22 | 1 << 23;

/// What `filestat` holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) inode: u64,
    pub(crate) kind: u8,
    pub(crate) links: u64,
    pub(crate) size: u64,
    pub(crate) mtime: u64,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) next: u64,
    pub(crate) inode: u64,
    pub(crate) kind: u8,
    pub(crate) name: String,
}

/// What `poll_oneoff` waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// So many nanoseconds of the monotonic clock.
    Nanos(u64),
    Readable(u32),
    Writable(u32),
}

fn check(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

fn got<T>(errno: i32, value: T) -> io::Result<T> {
    check(errno).map(|()| value)
}

fn parts(buffers: &mut [&mut [u8]]) -> Vec<[usize; 2]> {
    buffers.iter_mut().map(|buffer| [buffer.as_mut_ptr() as usize, buffer.len()]).collect()
}

pub(crate) fn random(buffer: &mut [u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `buffer`.
    check(unsafe { imports::random_get(buffer.as_mut_ptr(), buffer.len()) })
}

pub(crate) fn clock_time(clock: u32) -> io::Result<u64> {
    let mut out = 0;
    // SAFETY: `out` is writable.
    let errno = unsafe { imports::clock_time_get(clock, 1, &raw mut out) };
    got(errno, out)
}

pub(crate) fn clock_resolution(clock: u32) -> io::Result<u64> {
    let mut out = 0;
    // SAFETY: `out` is writable.
    let errno = unsafe { imports::clock_res_get(clock, &raw mut out) };
    got(errno, out)
}

pub(crate) fn pread(fd: u32, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let (parts, mut out) = (parts(&mut [buffer]), 0);
    // SAFETY: the part describes `buffer`, which is borrowed; `out` is writable.
    let errno = unsafe { imports::fd_pread(fd, parts.as_ptr(), parts.len(), offset, &raw mut out) };
    got(errno, out)
}

pub(crate) fn pwrite(fd: u32, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let (part, mut out) = ([bytes.as_ptr() as usize, bytes.len()], 0);
    // SAFETY: the part describes `bytes`, which are only read; `out` is writable.
    let errno = unsafe { imports::fd_pwrite(fd, &raw const part, 1, offset, &raw mut out) };
    got(errno, out)
}

/// Reads into several buffers at once.
pub(crate) fn read(fd: u32, buffers: &mut [&mut [u8]]) -> io::Result<usize> {
    let (parts, mut out) = (parts(buffers), 0);
    // SAFETY: the parts describe `buffers`, which are borrowed; `out` is writable.
    let errno = unsafe { imports::fd_read(fd, parts.as_ptr(), parts.len(), &raw mut out) };
    got(errno, out)
}

/// Writes several buffers at once.
pub(crate) fn write(fd: u32, buffers: &[&[u8]]) -> io::Result<usize> {
    let parts: Vec<_> = buffers.iter().map(|buffer| [buffer.as_ptr() as usize, buffer.len()]).collect();
    let mut out = 0;
    // SAFETY: the parts describe `buffers`, which are only read; `out` is writable.
    let errno = unsafe { imports::fd_write(fd, parts.as_ptr(), parts.len(), &raw mut out) };
    got(errno, out)
}

pub(crate) fn seek(fd: u32, offset: i64, whence: u32) -> io::Result<u64> {
    let mut out = 0;
    // SAFETY: `out` is writable.
    let errno = unsafe { imports::fd_seek(fd, offset, whence, &raw mut out) };
    got(errno, out)
}

pub(crate) fn tell(fd: u32) -> io::Result<u64> {
    let mut out = 0;
    // SAFETY: `out` is writable.
    let errno = unsafe { imports::fd_tell(fd, &raw mut out) };
    got(errno, out)
}

fn stat_of(words: [u64; 8]) -> Stat {
    Stat { inode: words[1], kind: words[2].to_le_bytes()[0], links: words[3], size: words[4], mtime: words[6] }
}

pub(crate) fn fstat(fd: u32) -> io::Result<Stat> {
    let mut out = [0; 8];
    // SAFETY: `out` has the 64 bytes of a filestat.
    let errno = unsafe { imports::fd_filestat_get(fd, &raw mut out) };
    got(errno, stat_of(out))
}

pub(crate) fn stat(lookup: u32, path: &str) -> io::Result<Stat> {
    let mut out = [0; 8];
    // SAFETY: pointer and length describe `path`; `out` has the 64 bytes of a filestat.
    let errno = unsafe { imports::path_filestat_get(ROOT, lookup, path.as_ptr(), path.len(), &raw mut out) };
    got(errno, stat_of(out))
}

/// File type and flags of a descriptor.
pub(crate) fn fdstat(fd: u32) -> io::Result<(u8, u16)> {
    let mut out = [0; 3];
    // SAFETY: `out` has the 24 bytes of a fdstat.
    let errno = unsafe { imports::fd_fdstat_get(fd, &raw mut out) };
    let bytes = out[0].to_le_bytes();
    got(errno, (bytes[0], u16::from_le_bytes([bytes[2], bytes[3]])))
}

/// The name of a directory that was open from the start.
pub(crate) fn preopen(fd: u32) -> io::Result<String> {
    let mut out = [0; 2];
    // SAFETY: `out` has the 8 bytes of a prestat.
    check(unsafe { imports::fd_prestat_get(fd, &raw mut out) })?;
    let mut name = vec![0; out[1] as usize];
    // SAFETY: pointer and length describe `name`.
    check(unsafe { imports::fd_prestat_dir_name(fd, name.as_mut_ptr(), name.len()) })?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

pub(crate) fn set_flags(fd: u32, flags: u32) -> io::Result<()> {
    check(imports::fd_fdstat_set_flags(fd, flags))
}

pub(crate) fn set_size(fd: u32, size: u64) -> io::Result<()> {
    check(imports::fd_filestat_set_size(fd, size))
}

pub(crate) fn set_times(fd: u32, atime: u64, mtime: u64, which: u32) -> io::Result<()> {
    check(imports::fd_filestat_set_times(fd, atime, mtime, which))
}

pub(crate) fn allocate(fd: u32, offset: u64, len: u64) -> io::Result<()> {
    check(imports::fd_allocate(fd, offset, len))
}

pub(crate) fn advise(fd: u32, offset: u64, len: u64, advice: u32) -> io::Result<()> {
    check(imports::fd_advise(fd, offset, len, advice))
}

pub(crate) fn renumber(from: u32, to: u32) -> io::Result<()> {
    check(imports::fd_renumber(from, to))
}

pub(crate) fn close(fd: u32) -> io::Result<()> {
    check(imports::fd_close(fd))
}

pub(crate) fn sync(fd: u32) -> io::Result<()> {
    check(imports::fd_sync(fd))
}

pub(crate) fn datasync(fd: u32) -> io::Result<()> {
    check(imports::fd_datasync(fd))
}

pub(crate) fn shut_down(fd: u32) -> io::Result<()> {
    check(imports::sock_shutdown(fd, 3))
}

/// Which of the subscriptions, by index, have ended, each with its errno.
pub(crate) fn poll(waits: &[Wait]) -> io::Result<Vec<(u64, u16)>> {
    let subscriptions: Vec<[u64; 6]> = (0..)
        .zip(waits)
        .map(|(index, wait)| match *wait {
            Wait::Nanos(nanos) => [index, 0, 1, nanos, 0, 0],
            Wait::Readable(fd) => [index, 1, u64::from(fd), 0, 0, 0],
            Wait::Writable(fd) => [index, 2, u64::from(fd), 0, 0, 0],
        })
        .collect();
    let (mut events, mut count) = (vec![[0; 4]; waits.len()], 0);
    // SAFETY: both arrays have `waits.len()` elements of 48 and 32 bytes; `count` is writable.
    check(unsafe { imports::poll_oneoff(subscriptions.as_ptr(), events.as_mut_ptr(), waits.len(), &raw mut count) })?;
    let errno = |event: &[u64; 4]| u16::from_le_bytes([event[1].to_le_bytes()[0], event[1].to_le_bytes()[1]]);
    Ok(events.iter().take(count).map(|event| (event[0], errno(event))).collect())
}

/// Opens a path below the root.
pub(crate) fn open(lookup: u32, path: &str, flags: u32, rights: u64, fdflags: u32) -> io::Result<u32> {
    open_below(ROOT, lookup, path, flags, rights, fdflags)
}

/// Opens a path below an open directory.
pub(crate) fn open_below(dir: u32, lookup: u32, path: &str, flags: u32, rights: u64, fdflags: u32) -> io::Result<u32> {
    let mut out = 0;
    // SAFETY: pointer and length describe `path`; `out` is writable.
    let errno = unsafe {
        let (path, len) = (path.as_ptr(), path.len());
        imports::path_open(dir, lookup, path, len, flags, rights, 0, fdflags, &raw mut out)
    };
    got(errno, out)
}

/// Moves a path below one open directory to below another.
pub(crate) fn rename_below(from: u32, path: &str, to: u32, new: &str) -> io::Result<()> {
    // SAFETY: pointers and lengths describe `path` and `new`.
    check(unsafe { imports::path_rename(from, path.as_ptr(), path.len(), to, new.as_ptr(), new.len()) })
}

pub(crate) fn set_rights(fd: u32, base: u64) -> io::Result<()> {
    check(imports::fd_fdstat_set_rights(fd, base, 0))
}

pub(crate) fn yield_now() -> io::Result<()> {
    check(imports::sched_yield())
}

pub(crate) fn link(lookup: u32, path: &str, new: &str) -> io::Result<()> {
    // SAFETY: pointers and lengths describe `path` and `new`.
    check(unsafe { imports::path_link(ROOT, lookup, path.as_ptr(), path.len(), ROOT, new.as_ptr(), new.len()) })
}

pub(crate) fn set_path_times(lookup: u32, path: &str, mtime: u64, which: u32) -> io::Result<()> {
    // SAFETY: pointer and length describe `path`.
    check(unsafe { imports::path_filestat_set_times(ROOT, lookup, path.as_ptr(), path.len(), 0, mtime, which) })
}

pub(crate) fn make_directory(path: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe `path`.
    check(unsafe { imports::path_create_directory(ROOT, path.as_ptr(), path.len()) })
}

pub(crate) fn remove_directory(path: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe `path`.
    check(unsafe { imports::path_remove_directory(ROOT, path.as_ptr(), path.len()) })
}

pub(crate) fn remove_file(path: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe `path`.
    check(unsafe { imports::path_unlink_file(ROOT, path.as_ptr(), path.len()) })
}

/// One call of `fd_readdir`: the whole entries that fit into `size` bytes, and whether more follow.
pub(crate) fn read_directory(fd: u32, size: usize, cookie: u64) -> io::Result<(Vec<Entry>, bool)> {
    let (mut buffer, mut used) = (vec![0; size], 0);
    // SAFETY: pointer and length describe `buffer`; `used` is writable.
    check(unsafe { imports::fd_readdir(fd, buffer.as_mut_ptr(), size, cookie, &raw mut used) })?;
    let mut entries = Vec::new();
    let mut rest = buffer.get(..used).unwrap_or_default();
    while let Some((head, after)) = rest.split_at_checked(24) {
        let word = |at: usize| head[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let length = usize::try_from(word(16) & 0xffff_ffff).unwrap_or(usize::MAX);
        let Some((name, after)) = after.split_at_checked(length) else { break };
        let name = String::from_utf8_lossy(name).into_owned();
        entries.push(Entry { next: word(0), inode: word(8), kind: head[20], name });
        rest = after;
    }
    Ok((entries, used == size))
}

/// An address that no memory of this module has.
pub(crate) fn read_to_nowhere(fd: u32) -> io::Result<usize> {
    let (part, mut out) = ([usize::MAX - 4, 4], 0);
    // SAFETY: a host refuses what does not lie in the module's memory and writes nothing.
    let errno = unsafe { imports::fd_read(fd, &raw const part, 1, &raw mut out) };
    got(errno, out)
}
