//! A guest without a module: its calls are made by the test, through a memory as a module has one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

pub mod calls;
pub mod model;
pub mod targets;
pub mod trees;

use opship_record::effect::Change;
use opship_record::observation::Observation;
pub use opship_record::plan::Step;
use opship_record::plan::{PROFILE, Plan};
use opship_record::{FORMAT_VERSION, Hash, TreePath};
pub use opship_world::Budget;
use opship_world::{Errno, Fixtures, MemoryTree, Outcome, Spill, SpillFile, Trap, TreeSource, World, WorldConfig};
use std::collections::BTreeMap;
pub use std::sync::Arc;

pub const START: u64 = 1_700_000_000_000_000_000;
pub const ROOT: u32 = 3;
pub const READ: u64 = 1 << 1;
pub const WRITE: u64 = 1 << 6;
pub const CREAT: u32 = 1;
pub const DIRECTORY: u32 = 2;
pub const EXCL: u32 = 4;
pub const TRUNC: u32 = 8;
pub const APPEND: u32 = 1;

pub struct TempSpill;

impl Spill for TempSpill {
    fn create(&self) -> std::io::Result<SpillFile> {
        Ok(SpillFile { file: tempfile::tempfile()?, path: None })
    }
}

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub fn step() -> Step {
    Step::new(Hash::of(b"module"), ["prog", "x"])
}

pub fn plan(steps: Vec<Step>) -> Plan {
    Plan { format: FORMAT_VERSION, steps, clock_start: START, seed: [1; 16].into(), limits: None, profile: PROFILE }
}

pub fn config(source: impl TreeSource + 'static, steps: Vec<Step>) -> WorldConfig {
    WorldConfig {
        plan: plan(steps),
        source: Arc::new(source),
        spill: Arc::new(TempSpill),
        budget: Budget::default(),
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        fixtures: Fixtures::default(),
    }
}

pub struct Guest {
    pub world: World,
    pub memory: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub ino: u64,
    pub file_type: u8,
    pub links: u64,
    pub size: u64,
    pub mtime: u64,
}

pub type Outcome1<T> = Result<T, Errno>;

/// What a call gave the guest.
pub fn errno(result: Result<(), Trap>) -> Outcome1<()> {
    match result {
        Ok(()) => Ok(()),
        Err(Trap::Errno(errno)) => Err(errno),
        Err(other) => panic!("{other:?}"),
    }
}

pub const PATH: u32 = 0x1000;
pub const PATH2: u32 = 0x3000;
pub const OUT: u32 = 0x100;
pub const IOVS: u32 = 0x200;
pub const DATA: u32 = 0x1_0000;

impl Guest {
    pub fn new(source: impl TreeSource + 'static) -> Guest {
        Guest::begin(config(source, vec![step()]))
    }

    pub fn begin(config: WorldConfig) -> Guest {
        let mut world = World::new(config).unwrap();
        world.begin_step(0).unwrap();
        Guest { world, memory: vec![0; 4 << 20] }
    }

    pub fn empty() -> Guest {
        Guest::new(MemoryTree::new())
    }

    pub fn put(&mut self, at: u32, bytes: &[u8]) -> (u32, u32) {
        self.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        (at, u32::try_from(bytes.len()).unwrap())
    }

    pub fn u32_at(&self, at: u32) -> u32 {
        u32::from_le_bytes(self.memory[at as usize..at as usize + 4].try_into().unwrap())
    }

    pub fn u64_at(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.memory[at as usize..at as usize + 8].try_into().unwrap())
    }

    pub fn open_at(
        &mut self,
        fd: u32,
        path: &str,
        oflags: u32,
        rights: u64,
        fdflags: u32,
        follow: u32,
    ) -> Outcome1<u32> {
        let (at, len) = self.put(PATH, path.as_bytes());
        let Guest { world, memory } = self;
        errno(world.path_open(memory, fd, follow, at, len, oflags, rights, 0, fdflags, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub fn open(&mut self, path: &str, oflags: u32, rights: u64) -> Outcome1<u32> {
        self.open_at(ROOT, path, oflags, rights, 0, 1)
    }

    pub fn close(&mut self, fd: u32) -> Outcome1<()> {
        errno(self.world.fd_close(&mut self.memory, fd))
    }

    pub fn read(&mut self, fd: u32, count: u32) -> Outcome1<Vec<u8>> {
        self.iov(count);
        errno(self.world.fd_read(&mut self.memory, fd, IOVS, 1, OUT))?;
        Ok(self.data())
    }

    pub fn pread(&mut self, fd: u32, count: u32, offset: u64) -> Outcome1<Vec<u8>> {
        self.iov(count);
        errno(self.world.fd_pread(&mut self.memory, fd, IOVS, 1, offset, OUT))?;
        Ok(self.data())
    }

    pub fn iov(&mut self, count: u32) {
        self.put(IOVS, &DATA.to_le_bytes());
        self.put(IOVS + 4, &count.to_le_bytes());
    }

    fn data(&self) -> Vec<u8> {
        let count = self.u32_at(OUT) as usize;
        self.memory[DATA as usize..DATA as usize + count].to_vec()
    }

    pub fn write(&mut self, fd: u32, data: &[u8]) -> Outcome1<u32> {
        self.put(DATA, data);
        self.iov(u32::try_from(data.len()).unwrap());
        errno(self.world.fd_write(&mut self.memory, fd, IOVS, 1, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub fn pwrite(&mut self, fd: u32, data: &[u8], offset: u64) -> Outcome1<u32> {
        self.put(DATA, data);
        self.iov(u32::try_from(data.len()).unwrap());
        errno(self.world.fd_pwrite(&mut self.memory, fd, IOVS, 1, offset, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub fn seek(&mut self, fd: u32, offset: i64, whence: u32) -> Outcome1<u64> {
        errno(self.world.fd_seek(&mut self.memory, fd, offset.cast_unsigned(), whence, OUT))?;
        Ok(self.u64_at(OUT))
    }

    pub fn set_size(&mut self, fd: u32, size: u64) -> Outcome1<()> {
        errno(self.world.fd_filestat_set_size(&mut self.memory, fd, size))
    }

    pub fn read_file(&mut self, path: &str) -> Outcome1<Vec<u8>> {
        let fd = self.open(path, 0, READ)?;
        let mut all = Vec::new();
        loop {
            let piece = self.read(fd, 1 << 20)?;
            if piece.is_empty() {
                self.close(fd)?;
                return Ok(all);
            }
            all.extend(piece);
        }
    }

    pub fn write_file(&mut self, path: &str, data: &[u8]) -> Outcome1<()> {
        let fd = self.open(path, CREAT | TRUNC, WRITE)?;
        for piece in data.chunks(1 << 20) {
            self.write(fd, piece)?;
        }
        self.close(fd)
    }

    pub fn mkdir(&mut self, path: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_create_directory(&mut self.memory, ROOT, at, len))
    }

    pub fn rmdir(&mut self, path: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_remove_directory(&mut self.memory, ROOT, at, len))
    }

    pub fn unlink(&mut self, path: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_unlink_file(&mut self.memory, ROOT, at, len))
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, from.as_bytes());
        let (at2, len2) = self.put(PATH2, to.as_bytes());
        errno(self.world.path_rename(&mut self.memory, ROOT, at, len, ROOT, at2, len2))
    }

    pub fn link(&mut self, from: &str, to: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, from.as_bytes());
        let (at2, len2) = self.put(PATH2, to.as_bytes());
        errno(self.world.path_link(&mut self.memory, ROOT, 0, at, len, ROOT, at2, len2))
    }

    pub fn symlink(&mut self, target: &str, path: &str) -> Outcome1<()> {
        let (at, len) = self.put(PATH, target.as_bytes());
        let (at2, len2) = self.put(PATH2, path.as_bytes());
        errno(self.world.path_symlink(&mut self.memory, at, len, ROOT, at2, len2))
    }

    pub fn readlink(&mut self, path: &str) -> Outcome1<Vec<u8>> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_readlink(&mut self.memory, ROOT, at, len, DATA, 4096, OUT))?;
        Ok(self.data())
    }

    pub fn stat(&mut self, path: &str, follow: u32) -> Outcome1<Stat> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_filestat_get(&mut self.memory, ROOT, follow, at, len, OUT))?;
        Ok(self.stat_out())
    }

    pub fn fstat(&mut self, fd: u32) -> Outcome1<Stat> {
        errno(self.world.fd_filestat_get(&mut self.memory, fd, OUT))?;
        Ok(self.stat_out())
    }

    fn stat_out(&self) -> Stat {
        Stat {
            ino: self.u64_at(OUT + 8),
            file_type: self.memory[OUT as usize + 16],
            links: self.u64_at(OUT + 24),
            size: self.u64_at(OUT + 32),
            mtime: self.u64_at(OUT + 48),
        }
    }

    pub fn set_mtime(&mut self, path: &str, mtime: u64) -> Outcome1<()> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_filestat_set_times(&mut self.memory, ROOT, 0, at, len, 0, mtime, 4))
    }

    pub fn mode(&mut self, path: &str) -> Outcome1<u32> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_mode_get(&mut self.memory, ROOT, 0, at, len, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub fn set_mode(&mut self, path: &str, mode: u32) -> Outcome1<()> {
        let (at, len) = self.put(PATH, path.as_bytes());
        errno(self.world.path_mode_set(&mut self.memory, ROOT, 0, at, len, mode))
    }

    /// Names of an open directory from `cookie` on, read with a buffer of the given size, without `.` and `..`.
    pub fn entries(&mut self, fd: u32, buffer: u32) -> Outcome1<Vec<(String, u64)>> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            errno(self.world.fd_readdir(&mut self.memory, fd, DATA, buffer, cookie, OUT))?;
            let used = self.u32_at(OUT);
            let mut at = 0;
            while at + 24 <= used {
                let entry = DATA + at;
                let length = self.u32_at(entry + 16);
                if at + 24 + length > used {
                    break;
                }
                let start = (entry + 24) as usize;
                let name = String::from_utf8(self.memory[start..start + length as usize].to_vec()).unwrap();
                cookie = self.u64_at(entry);
                names.push((name, self.u64_at(entry + 8)));
                at += 24 + length;
            }
            if used < buffer {
                names.retain(|(name, _)| name != "." && name != "..");
                return Ok(names);
            }
        }
    }

    pub fn list(&mut self, path: &str) -> Outcome1<Vec<String>> {
        let fd = self.open(path, DIRECTORY, READ)?;
        let names = self.entries(fd, 4096)?;
        self.close(fd)?;
        Ok(names.into_iter().map(|(name, _)| name).collect())
    }

    pub fn finish(mut self) -> Outcome {
        self.world.end_step(0).unwrap();
        let outcome = self.world.finish().unwrap();
        let lists = &outcome.lists;
        let bytes = opship_record::effect::encode_list(&lists.changes);
        assert_eq!(opship_record::effect::decode_list(&bytes).as_ref(), Ok(&lists.changes));
        let bytes = opship_record::observation::encode_list(&lists.observations);
        assert_eq!(opship_record::observation::decode_list(&bytes).as_ref(), Ok(&lists.observations));
        outcome
    }

    pub fn changes(self) -> Vec<Change> {
        self.finish().lists.changes
    }

    pub fn observations(self) -> Vec<Observation> {
        self.finish().lists.observations
    }
}
