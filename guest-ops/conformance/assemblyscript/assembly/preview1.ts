// Preview 1 as functions that return what they are asked for, or an errno below zero.

import {
  clock_time_get,
  clockid,
  dirent,
  fd_close,
  fd_filestat_get,
  fd_filestat_set_size,
  fd_pread,
  fd_pwrite,
  fd_read,
  fd_readdir,
  fd_seek,
  fd_write,
  fdflags,
  filestat,
  filetype,
  lookupflags,
  oflags,
  path_create_directory,
  path_filestat_get,
  path_link,
  path_open,
  path_readlink,
  path_remove_directory,
  path_rename,
  path_symlink,
  path_unlink_file,
  poll_oneoff,
  rights,
} from "@assemblyscript/wasi-shim/assembly/bindings/wasi_snapshot_preview1";

// The root, which a host opens before a module starts.
const ROOT: u32 = 3;

export const CREATE: u16 = oflags.CREAT;
export const DIRECTORY: u16 = oflags.DIRECTORY;
export const EXCLUSIVE: u16 = oflags.CREAT | oflags.EXCL;
export const EMPTIED: u16 = oflags.CREAT | oflags.TRUNC;
export const APPEND: u16 = fdflags.APPEND;

export const READ: u64 = rights.FD_READ | rights.FD_SEEK | rights.FD_TELL | rights.FD_READDIR | rights.FD_FILESTAT_GET;
export const WRITE: u64 = rights.FD_WRITE | rights.FD_SEEK | rights.FD_TELL | rights.FD_FILESTAT_SET_SIZE;

// Room for what a call gives back, and for one buffer's place and length.
const out: usize = memory.data(64);
const part: usize = memory.data(8);

export class Status {
  constructor(
    public kind: u8,
    public size: u64,
    public names: u64,
    public inode: u64,
    public mtime: u64,
  ) {}
}

export class Entry {
  constructor(
    public name: string,
    public kind: u8,
  ) {}
}

class Text {
  bytes: ArrayBuffer;
  constructor(text: string) {
    this.bytes = String.UTF8.encode(text);
  }
  get at(): usize {
    return changetype<usize>(this.bytes);
  }
  get length(): usize {
    return this.bytes.byteLength;
  }
}

function failed(errno: u16): i64 {
  return -(<i64>errno);
}

function count(errno: u16): i64 {
  return errno ? failed(errno) : <i64>load<u32>(out);
}

function describe(bytes: Uint8Array, length: i32): void {
  store<usize>(part, bytes.dataStart);
  store<usize>(part, length, 4);
}

export function open(path: string, flags: u16, asked: u64, fdflags: u16 = 0): i64 {
  const text = new Text(path);
  return count(path_open(ROOT, lookupflags.SYMLINK_FOLLOW, text.at, text.length, flags, asked, asked, fdflags, out));
}

export function close(fd: i64): i64 {
  return failed(fd_close(<u32>fd));
}

export function read(fd: i64, into: Uint8Array): i64 {
  describe(into, into.length);
  return count(fd_read(<u32>fd, part, 1, out));
}

export function write(fd: i64, bytes: Uint8Array, length: i32 = bytes.length): i64 {
  describe(bytes, length);
  return count(fd_write(<u32>fd, part, 1, out));
}

export function readAt(fd: i64, into: Uint8Array, offset: u64): i64 {
  describe(into, into.length);
  return count(fd_pread(<u32>fd, part, 1, offset, out));
}

export function writeAt(fd: i64, bytes: Uint8Array, offset: u64): i64 {
  describe(bytes, bytes.length);
  return count(fd_pwrite(<u32>fd, part, 1, offset, out));
}

export function seek(fd: i64, offset: i64, whence: u8): i64 {
  const errno = fd_seek(<u32>fd, offset, whence, out);
  return errno ? failed(errno) : load<i64>(out);
}

export function setSize(fd: i64, size: u64): i64 {
  return failed(fd_filestat_set_size(<u32>fd, size));
}

function statusOut(): Status {
  const found = changetype<filestat>(out);
  return new Status(found.filetype, found.size, found.nlink, found.ino, found.mtim);
}

// Null if there is none; `lastError` says why.
export function fstat(fd: i64): Status | null {
  lastError = failed(fd_filestat_get(<u32>fd, changetype<filestat>(out)));
  return lastError ? null : statusOut();
}

export let lastError: i64 = 0;

export function stat(path: string, follow: bool): Status | null {
  const text = new Text(path);
  const flags: u32 = follow ? lookupflags.SYMLINK_FOLLOW : 0;
  lastError = failed(path_filestat_get(ROOT, flags, text.at, text.length, changetype<filestat>(out)));
  return lastError ? null : statusOut();
}

export function makeDirectory(path: string): i64 {
  const text = new Text(path);
  return failed(path_create_directory(ROOT, text.at, text.length));
}

export function removeDirectory(path: string): i64 {
  const text = new Text(path);
  return failed(path_remove_directory(ROOT, text.at, text.length));
}

export function removeFile(path: string): i64 {
  const text = new Text(path);
  return failed(path_unlink_file(ROOT, text.at, text.length));
}

export function rename(from: string, to: string): i64 {
  const old = new Text(from);
  const text = new Text(to);
  return failed(path_rename(ROOT, old.at, old.length, ROOT, text.at, text.length));
}

export function link(from: string, to: string): i64 {
  const old = new Text(from);
  const text = new Text(to);
  return failed(path_link(ROOT, 0, old.at, old.length, ROOT, text.at, text.length));
}

export function symlink(target: string, path: string): i64 {
  const old = new Text(target);
  const text = new Text(path);
  return failed(path_symlink(old.at, old.length, ROOT, text.at, text.length));
}

export function target(path: string, into: Uint8Array): i64 {
  const text = new Text(path);
  return count(path_readlink(ROOT, text.at, text.length, into.dataStart, into.length, out));
}

// All names in a directory but `.` and `..`, in the host's order. Null if it cannot be listed.
export function list(path: string): Entry[] | null {
  const fd = open(path, DIRECTORY, READ);
  if (fd < 0) {
    lastError = fd;
    return null;
  }
  const found: Entry[] = [];
  const buffer = new Uint8Array(4096);
  let cookie: u64 = 0;
  for (;;) {
    const used = count(fd_readdir(<u32>fd, buffer.dataStart, buffer.length, cookie, out));
    if (used < 0) {
      lastError = used;
      close(fd);
      return null;
    }
    let at: usize = 0;
    while (at + offsetof<dirent>() <= <usize>used) {
      const entry = changetype<dirent>(buffer.dataStart + at);
      const start = at + offsetof<dirent>();
      if (start + entry.namlen > <usize>used) break;
      const name = String.UTF8.decodeUnsafe(buffer.dataStart + start, entry.namlen);
      if (name != "." && name != "..") found.push(new Entry(name, entry.type));
      cookie = entry.next;
      at = start + entry.namlen;
    }
    if (used < buffer.length) break;
  }
  close(fd);
  return found;
}

export function isDirectory(kind: u8): bool {
  return kind == filetype.DIRECTORY;
}

export function isFile(kind: u8): bool {
  return kind == filetype.REGULAR_FILE;
}

export function isLink(kind: u8): bool {
  return kind == filetype.SYMBOLIC_LINK;
}

export function monotonic(): u64 {
  clock_time_get(clockid.MONOTONIC, 1, out);
  return load<u64>(out);
}

// Waits so many nanoseconds.
export function sleep(nanos: u64): i64 {
  const subscription = new StaticArray<u64>(6);
  const event = new StaticArray<u64>(4);
  subscription[2] = clockid.MONOTONIC;
  subscription[3] = nanos;
  return failed(poll_oneoff(changetype<usize>(subscription), changetype<usize>(event), 1, out));
}
