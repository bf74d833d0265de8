//! Calls as data, made from a few bytes each, and their two ways: to the model and to a world.

use super::*;

/// A call with its arguments.
#[derive(Debug, Clone)]
pub enum Op {
    Open { at: At, follow: bool, oflags: u32, rights: u64, flags: u16 },
    Close(u32),
    Renumber(u32, u32),
    Read(u32, u32),
    Pread(u32, u32, u64),
    Write(u32, Vec<u8>),
    Pwrite(u32, Vec<u8>, u64),
    Seek(u32, i64, u32),
    Tell(u32),
    SetSize(u32, u64),
    SetFlags(u32, u16),
    FdStat(u32),
    FileStat(u32),
    SetTimes(u32, u64, u32),
    Allocate(u32),
    Advise(u32, u32),
    Sync(u32),
    Readdir(u32, u32, u64),
    Mkdir(At),
    Rmdir(At),
    Unlink(At),
    Rename(At, At),
    Link(At, At),
    Symlink(&'static str, At),
    Readlink(At),
    Stat(At, bool),
    PathSetTimes(At, bool, u64, u32),
    Mode(At, bool),
    SetMode(At, bool, u16),
    Clock,
}

/// A path from an open directory.
type At = (u32, &'static str);

const PATHS: [&str; 24] = [
    "a",
    "b",
    "c",
    "l",
    "a/b",
    "a/c",
    "b/a",
    "b/c",
    "c/a",
    "a/b/c",
    "b/a/a",
    "l/a",
    "a",
    "b",
    "a/..",
    "..",
    ".",
    "a/",
    "a/../b",
    "a/./c",
    "c/../../a",
    "l/",
    "",
    "/a",
];
const TARGETS: [&str; 8] = ["a", "b", "a/b", "../b", "..", "l", ".", "c"];
const SIZES: [u64; 12] = [0, 1, 3, 10, 100, 4095, 4096, 5000, 70_000, (1 << 20) - 1, (1 << 20) + 5, FBIG + 1];
const TIMES: [u64; 6] = [0, 1, 7_000_000_001, i64::MAX as u64, 1 << 63, u64::MAX];

impl Op {
    /// Bytes that one call takes.
    pub const BYTES: usize = 8;

    /// Every eight bytes mean a call.
    pub fn from_bytes(b: [u8; Op::BYTES]) -> Op {
        let fd = u32::from(b[1] % 9);
        // Most paths start at the root.
        let at = |fd: u8, path: u8| (if fd < 160 { ROOT } else { u32::from(fd % 9) }, PATHS[usize::from(path) % 24]);
        let here = at(b[1], b[2]);
        let there = at(b[3], b[4]);
        let follow = b[5] & 1 != 0;
        let size = |byte: u8| SIZES[usize::from(byte) % SIZES.len()];
        let count = |byte: u8| size(byte).min(70_000) as u32;
        let data = || vec![b[6]; count(b[2]) as usize];
        let time = TIMES[usize::from(b[6]) % TIMES.len()];
        let which = u32::from(b[7] % 17);
        match b[0] % 46 {
            0..7 => Op::Open {
                at: here,
                follow: b[3] & 3 != 0,
                oflags: [0, 0, CREAT, CREAT | TRUNC, CREAT | EXCL, TRUNC, DIRECTORY, u32::from(b[5] & 15)]
                    [usize::from(b[5]) % 8],
                rights: [READ, WRITE, READ | WRITE, ALL, READ | WRITE, 0][usize::from(b[6]) % 6],
                flags: [0, 0, 1, 4, 5, 31][usize::from(b[7]) % 6],
            },
            7..9 => Op::Close(fd),
            9 => Op::Renumber(fd, u32::from(b[2] % 9)),
            10..13 => Op::Read(fd, count(b[2])),
            13 => Op::Pread(fd, count(b[2]), size(b[3])),
            14..18 => Op::Write(fd, data()),
            18..20 => Op::Pwrite(fd, data(), size(b[3])),
            20 => Op::Seek(fd, size(b[2]) as i64 * i64::from(b[4] as i8).signum(), u32::from(b[3] % 4)),
            21 => Op::Tell(fd),
            22 => Op::SetSize(fd, size(b[2])),
            23 => Op::SetFlags(fd, [0, 1, 4, 5, 2, 31][usize::from(b[2]) % 6]),
            24 => Op::FdStat(fd),
            25 => Op::FileStat(fd),
            26 => Op::SetTimes(fd, time, which),
            27 => Op::Allocate(fd),
            28 => Op::Advise(fd, which),
            29 => Op::Sync(fd),
            30 => Op::Readdir(fd, [0, 20, 24, 25, 60, 4096][usize::from(b[2]) % 6], u64::from(b[3] % 8)),
            31..34 => Op::Mkdir(here),
            34 => Op::Rmdir(here),
            35..37 => Op::Unlink(here),
            37..39 => Op::Rename(here, there),
            39 => Op::Link(here, there),
            40 => Op::Symlink(TARGETS[usize::from(b[5]) % 8], here),
            41 => Op::Readlink(here),
            42 => Op::Stat(here, follow),
            43 => Op::PathSetTimes(here, follow, time, which),
            44 if b[6] & 1 == 0 => Op::Mode(here, follow),
            44 => Op::SetMode(here, follow, u16::from(b[3]) << 2),
            _ => Op::Clock,
        }
    }

    /// Every small change of a tree, each as calls on a fresh world: of content, length, time or mode, and what comes or goes.
    pub fn small_changes() -> Vec<Vec<Op>> {
        let change = |path: &'static str| {
            let at = (ROOT, path);
            let open = |oflags| Op::Open { at, follow: false, oflags, rights: WRITE, flags: 0 };
            // The first descriptor that is opened.
            let fd = ROOT + 1;
            [
                vec![open(0), Op::Write(fd, vec![0xa5])],
                vec![open(0), Op::SetSize(fd, 7)],
                vec![Op::PathSetTimes(at, false, 77, 4)],
                vec![Op::SetMode(at, false, 0o711)],
                vec![Op::Unlink(at)],
                vec![Op::Unlink(at), Op::Mkdir(at)],
                vec![Op::Unlink(at), Op::Symlink("c", at)],
                vec![Op::Rmdir(at)],
                vec![Op::Rmdir(at), open(CREAT)],
                vec![open(CREAT | EXCL)],
                vec![Op::Mkdir(at)],
            ]
        };
        PATHS[..12].iter().flat_map(|path| change(path)).collect()
    }

    /// On the model.
    pub fn on_model(&self, model: &mut Model) -> Given {
        match self {
            Op::Open { at, follow, oflags, rights, flags } => model.open(at.0, at.1, *follow, *oflags, *rights, *flags),
            Op::Close(fd) => model.close(*fd),
            Op::Renumber(from, to) => model.renumber(*from, *to),
            Op::Read(fd, count) => model.read(*fd, *count),
            Op::Pread(fd, count, offset) => model.pread(*fd, *count, *offset),
            Op::Write(fd, data) => model.write(*fd, data),
            Op::Pwrite(fd, data, offset) => model.pwrite(*fd, data, *offset),
            Op::Seek(fd, offset, whence) => model.seek(*fd, *offset, *whence),
            Op::Tell(fd) => model.tell(*fd),
            Op::SetSize(fd, size) => model.set_size(*fd, *size),
            Op::SetFlags(fd, flags) => model.set_flags(*fd, *flags),
            Op::FdStat(fd) => model.fdstat(*fd),
            Op::FileStat(fd) => model.filestat(*fd),
            Op::SetTimes(fd, mtime, which) => model.set_times(*fd, *mtime, *which),
            Op::Allocate(fd) => model.allocate(*fd),
            Op::Advise(fd, advice) => model.advise(*fd, *advice),
            Op::Sync(fd) => model.sync(*fd),
            Op::Readdir(fd, room, cookie) => model.readdir(*fd, *room, *cookie),
            Op::Mkdir(at) => model.mkdir(at.0, at.1),
            Op::Rmdir(at) => model.rmdir(at.0, at.1),
            Op::Unlink(at) => model.unlink(at.0, at.1),
            Op::Rename(from, to) => model.rename(*from, *to),
            Op::Link(from, to) => model.link(*from, *to),
            Op::Symlink(target, at) => model.symlink(target, at.0, at.1),
            Op::Readlink(at) => model.readlink(at.0, at.1),
            Op::Stat(at, follow) => model.path_stat(at.0, at.1, *follow),
            Op::PathSetTimes(at, follow, mtime, which) => model.path_set_times(at.0, at.1, *follow, *mtime, *which),
            Op::Mode(at, follow) => model.path_mode(at.0, at.1, *follow),
            Op::SetMode(at, follow, mode) => model.path_set_mode(at.0, at.1, *follow, *mode),
            Op::Clock => model.clock(),
        }
    }

    /// On a world.
    pub fn on_guest(&self, guest: &mut Guest) -> Given {
        let done = |()| Vec::new();
        match self {
            Op::Read(fd, count) => return guest.read(*fd, *count),
            Op::Pread(fd, count, offset) => return guest.pread(*fd, *count, *offset),
            Op::Write(fd, data) => return guest.write(*fd, data).map(|count| count.to_le_bytes().to_vec()),
            Op::Pwrite(fd, data, offset) => {
                return guest.pwrite(*fd, data, *offset).map(|count| count.to_le_bytes().to_vec());
            }
            Op::Seek(fd, offset, whence) => {
                return guest.seek(*fd, *offset, *whence).map(|at| at.to_le_bytes().to_vec());
            }
            Op::SetSize(fd, size) => return guest.set_size(*fd, *size).map(done),
            Op::Close(fd) => return guest.close(*fd).map(done),
            _ => {}
        }
        let (one, two) = self.paths();
        let (p, n) = guest.put(PATH, one.1.as_bytes());
        let (p2, n2) = guest.put(PATH2, two.1.as_bytes());
        let result = self.call(guest, (one.0, p, n), (two.0, p2, n2));
        errno(result)?;
        Ok(self.found(guest))
    }

    fn paths(&self) -> (At, At) {
        match self {
            Op::Rename(one, two) | Op::Link(one, two) => (*one, *two),
            Op::Symlink(target, at) => (*at, (0, target)),
            Op::Open { at, .. } | Op::Mkdir(at) | Op::Rmdir(at) | Op::Unlink(at) | Op::Readlink(at) => (*at, (0, "")),
            Op::Stat(at, _) | Op::PathSetTimes(at, ..) | Op::Mode(at, _) | Op::SetMode(at, ..) => (*at, (0, "")),
            _ => ((0, ""), (0, "")),
        }
    }

    fn call(&self, guest: &mut Guest, one: (u32, u32, u32), two: (u32, u32, u32)) -> Result<(), Trap> {
        let Guest { world, memory } = guest;
        let ((fd, p, n), (fd2, p2, n2)) = (one, two);
        match self {
            Op::Open { follow, oflags, rights, flags, .. } => {
                world.path_open(memory, fd, u32::from(*follow), p, n, *oflags, *rights, 0, u32::from(*flags), OUT)
            }
            Op::Renumber(from, to) => world.fd_renumber(memory, *from, *to),
            Op::Tell(fd) => world.fd_tell(memory, *fd, OUT),
            Op::SetFlags(fd, flags) => world.fd_fdstat_set_flags(memory, *fd, u32::from(*flags)),
            Op::FdStat(fd) => world.fd_fdstat_get(memory, *fd, OUT),
            Op::FileStat(fd) => world.fd_filestat_get(memory, *fd, OUT),
            Op::SetTimes(fd, mtime, which) => world.fd_filestat_set_times(memory, *fd, 5, *mtime, *which),
            Op::Allocate(fd) => world.fd_allocate(memory, *fd, 0, 10),
            Op::Advise(fd, advice) => world.fd_advise(memory, *fd, 0, 10, *advice),
            Op::Sync(fd) => world.fd_sync(memory, *fd),
            Op::Readdir(fd, room, cookie) => world.fd_readdir(memory, *fd, DATA, *room, *cookie, OUT),
            Op::Mkdir(_) => world.path_create_directory(memory, fd, p, n),
            Op::Rmdir(_) => world.path_remove_directory(memory, fd, p, n),
            Op::Unlink(_) => world.path_unlink_file(memory, fd, p, n),
            Op::Rename(..) => world.path_rename(memory, fd, p, n, fd2, p2, n2),
            Op::Link(..) => world.path_link(memory, fd, 0, p, n, fd2, p2, n2),
            Op::Symlink(..) => world.path_symlink(memory, p2, n2, fd, p, n),
            Op::Readlink(_) => world.path_readlink(memory, fd, p, n, DATA, 4096, OUT),
            Op::Stat(_, follow) => world.path_filestat_get(memory, fd, u32::from(*follow), p, n, OUT),
            Op::PathSetTimes(_, follow, mtime, which) => {
                world.path_filestat_set_times(memory, fd, u32::from(*follow), p, n, 5, *mtime, *which)
            }
            Op::Mode(_, follow) => world.path_mode_get(memory, fd, u32::from(*follow), p, n, OUT),
            Op::SetMode(_, follow, mode) => world.path_mode_set(memory, fd, u32::from(*follow), p, n, u32::from(*mode)),
            Op::Clock => world.clock_time_get(memory, 0, 0, OUT),
            other => panic!("{other:?} goes another way"),
        }
    }

    /// What a successful call left in the memory.
    fn found(&self, guest: &Guest) -> Vec<u8> {
        let out = |at: u32, length: usize| guest.memory[(OUT + at) as usize..][..length].to_vec();
        match self {
            Op::Open { .. } | Op::Mode(..) => out(0, 4),
            Op::Tell(_) | Op::Clock => out(0, 8),
            Op::FdStat(_) => {
                let rights = guest.u64_at(OUT + 8) & (READ | WRITE);
                [out(0, 1), out(2, 2), rights.to_le_bytes().to_vec()].concat()
            }
            Op::FileStat(_) | Op::Stat(..) => {
                let stat = guest.stat_out();
                stat_bytes(stat.file_type, stat.links, stat.size, stat.ino, stat.mtime)
            }
            Op::Readdir(..) | Op::Readlink(_) => guest.data(),
            _ => Vec::new(),
        }
    }
}
