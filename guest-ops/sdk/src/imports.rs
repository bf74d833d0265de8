//! The import module `opship_1`, and what is called of wasi-libc itself.
//!
//! All unsafe code of the guests is here; each function takes and returns safe types.
#![allow(unsafe_code)]

use crate::files::{Kind, Meta, Time};
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

mod raw {
    // SAFETY: signatures as the world defines them for `opship_1`: pointers are offsets into this
    // module's memory, every result is an errno of preview 1.
    #[link(wasm_import_module = "opship_1")]
    unsafe extern "C" {
        pub(super) fn path_mode_get(fd: i32, flags: u32, path: *const u8, len: u32, out: *mut u32) -> i32;
        pub(super) fn path_mode_set(fd: i32, flags: u32, path: *const u8, len: u32, mode: u32) -> i32;
        pub(super) fn fd_mode_get(fd: i32, out: *mut u32) -> i32;
        pub(super) fn fd_mode_set(fd: i32, mode: u32) -> i32;
        pub(super) safe fn progress(done: i64, total: i64) -> i32;
    }

    // SAFETY: as declared in wasi-libc's public header `wasi/libc-find-relpath.h`.
    unsafe extern "C" {
        pub(super) fn __wasilibc_find_relpath(
            path: *const super::c_char,
            abs_prefix: *mut *const super::c_char,
            relative: *mut *mut super::c_char,
            relative_len: usize,
        ) -> i32;
    }
}

/// `lookupflags::symlink_follow` of preview 1.
const SYMLINK_FOLLOW: u32 = 1;

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}

/// A path as preview 1 names it: an open directory and a path below it.
struct Located {
    dir: i32,
    below: CString,
}

/// Finds the preopened directory that `path` lies in, exactly as wasi-libc does for every other call.
fn locate(path: &Path) -> io::Result<Located> {
    let path = c_path(path)?;
    // Room for a current directory that is put in front of a relative path.
    let mut buffer = vec![0u8; path.as_bytes().len() + 4096];
    let mut prefix = std::ptr::null();
    let mut below: *mut c_char = buffer.as_mut_ptr().cast();
    // SAFETY: `path` is NUL-terminated; `below` points to `buffer.len()` writable bytes; both
    // out-pointers are valid for writing. `path` and `buffer` outlive the use of what is returned.
    let dir = unsafe { raw::__wasilibc_find_relpath(path.as_ptr(), &raw mut prefix, &raw mut below, buffer.len()) };
    if dir < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: on success `below` is a NUL-terminated string inside `path` or `buffer`, both alive.
    let below = unsafe { CStr::from_ptr(below) }.to_owned();
    Ok(Located { dir, below })
}

fn lookup_flags(follow: bool) -> u32 {
    if follow { SYMLINK_FOLLOW } else { 0 }
}

fn check(errno: i32) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        // wasi-libc's errno numbers are those of preview 1.
        n => Err(io::Error::from_raw_os_error(n)),
    }
}

pub(crate) fn path_mode_get(path: &Path, follow: bool) -> io::Result<u32> {
    let at = locate(path)?;
    let below = at.below.as_bytes();
    let mut mode = 0;
    // SAFETY: pointer and length describe `below`; `mode` is writable.
    check(unsafe {
        raw::path_mode_get(at.dir, lookup_flags(follow), below.as_ptr(), below.len() as u32, &raw mut mode)
    })?;
    Ok(mode)
}

pub(crate) fn path_mode_set(path: &Path, follow: bool, mode: u32) -> io::Result<()> {
    let at = locate(path)?;
    let below = at.below.as_bytes();
    // SAFETY: pointer and length describe `below`.
    check(unsafe { raw::path_mode_set(at.dir, lookup_flags(follow), below.as_ptr(), below.len() as u32, mode) })
}

pub(crate) fn fd_mode_get(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut mode = 0;
    // SAFETY: the descriptor is open while borrowed; `mode` is writable.
    check(unsafe { raw::fd_mode_get(fd.as_raw_fd(), &raw mut mode) })?;
    Ok(mode)
}

pub(crate) fn fd_mode_set(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open while borrowed; no memory is touched.
    check(unsafe { raw::fd_mode_set(fd.as_raw_fd(), mode) })
}

pub(crate) fn progress(done: i64, total: i64) {
    // A world that does not show progress is no reason to fail.
    let _ = raw::progress(done, total);
}

pub(crate) fn stat(path: &Path, follow: bool) -> io::Result<Meta> {
    let path = c_path(path)?;
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let mut out = MaybeUninit::uninit();
    // SAFETY: `path` is NUL-terminated, `out` has room for a `stat`.
    check_libc(unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), flags) })?;
    // SAFETY: a successful `fstatat` has filled it.
    Ok(meta(&unsafe { out.assume_init() }))
}

pub(crate) fn fstat(fd: BorrowedFd<'_>) -> io::Result<Meta> {
    let mut out = MaybeUninit::uninit();
    // SAFETY: the descriptor is open while borrowed, `out` has room for a `stat`.
    check_libc(unsafe { libc::fstat(fd.as_raw_fd(), out.as_mut_ptr()) })?;
    // SAFETY: a successful `fstat` has filled it.
    Ok(meta(&unsafe { out.assume_init() }))
}

fn meta(stat: &libc::stat) -> Meta {
    Meta {
        kind: Kind::from_mode(stat.st_mode),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: Time { seconds: stat.st_mtim.tv_sec, nanos: u32::try_from(stat.st_mtim.tv_nsec).unwrap_or(0) },
        id: (stat.st_dev, stat.st_ino),
        links: stat.st_nlink,
    }
}

pub(crate) fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    let (target, path) = (c_path(target)?, c_path(path)?);
    // SAFETY: both are NUL-terminated.
    check_libc(unsafe { libc::symlink(target.as_ptr(), path.as_ptr()) })
}

pub(crate) fn set_mtime(path: &Path, mtime: Time) -> io::Result<()> {
    let path = c_path(path)?;
    let times = timestamps(mtime)?;
    // SAFETY: `path` is NUL-terminated, `times` holds the two times that are read.
    check_libc(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW) })
}

pub(crate) fn set_fd_mtime(fd: BorrowedFd<'_>, mtime: Time) -> io::Result<()> {
    let times = timestamps(mtime)?;
    // SAFETY: the descriptor is open while borrowed, `times` holds the two times that are read.
    check_libc(unsafe { libc::futimens(fd.as_raw_fd(), times.as_ptr()) })
}

/// Access and modification time, in this order.
fn timestamps(time: Time) -> io::Result<[libc::timespec; 2]> {
    let tv_nsec = time.nanos.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let time = libc::timespec { tv_sec: time.seconds, tv_nsec };
    Ok([time, time])
}

fn check_libc(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
