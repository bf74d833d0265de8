//! Calls made from any bytes: the arguments that a module could pass, most of them sensible, some of them absurd.

use super::*;
use opship_world::for_each_import;
use std::ops::Range;

type Method = fn(&mut World, &mut [u8], &[u64]) -> Result<(), Trap>;

/// A function that a module may import.
pub struct Import {
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    pub method: Method,
}

macro_rules! imports {
    ($(($module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*));)*) => {
        /// All of them, in the order of the table.
        pub const IMPORTS: &[Import] = &[$(Import {
            name: $name,
            arguments: &[$(stringify!($argument)),*],
            method: |world, memory, arguments| {
                let [$($argument),*] = arguments else { panic!("{} takes other arguments", $name) };
                world.$method(memory, $(*$argument as $type),*)
            },
        }),*];
    };
}
for_each_import!(imports);

/// Bytes that decide what happens; zeros when there are no more.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Paths that lie ready in the memory, [`SLOT`] bytes each: of what the tree holds, of what it does not, and bad ones.
const PATHS: [&str; 34] = [
    "a",
    "b",
    "d",
    "d/f",
    "d/e",
    "d/e/g",
    "e",
    "e/n",
    "l",
    "u",
    "u/x",
    "d/up",
    "r",
    "q",
    "abs",
    "tmp",
    "tmp/t",
    "mnt",
    "mnt/res",
    "mnt/res/x",
    ".",
    "..",
    "d/..",
    "d/",
    "a/",
    "",
    "/a",
    ".opship",
    "n\0",
    "n",
    "n/m",
    "é",
    "d/e/../f",
    "x",
];
const SLOT: usize = 16;
const OUTS: usize = 0x40;
const IOVECS: usize = 0x200;
const POINTERS: usize = 0x300;
const SUBSCRIPTIONS: usize = 0x800;
const EVENTS: usize = 0xa00;
const NAMES: usize = 0x400;
const BYTES: usize = 0x1000;

/// A memory of `size` bytes in which as much as fits lies where [`arguments`] points: paths, buffers, subscriptions.
pub fn memory(size: usize) -> Vec<u8> {
    let mut memory = vec![0; size.max(BYTES + 0x100)];
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    for (index, path) in PATHS.iter().enumerate() {
        put(NAMES + index * SLOT, path.as_bytes());
    }
    let buffers: [(u32, u32); 8] =
        [(0x1000, 16), (0x1010, 0), (0x1008, 40), (0x0ff0, 0x40), (0x1000, 256), (0x2000, 0x1000), (0, 1), (0x400, 64)];
    for (index, (pointer, length)) in buffers.into_iter().enumerate() {
        put(IOVECS + index * 8, &pointer.to_le_bytes());
        put(IOVECS + index * 8 + 4, &length.to_le_bytes());
    }
    for (index, (kind, absolute)) in [(0, 0), (0, 1), (1, 0), (2, 0)].into_iter().enumerate() {
        let at = SUBSCRIPTIONS + index * 48;
        put(at, &[index as u8]);
        put(at + 8, &[kind]);
        put(at + 16, &[index as u8]);
        put(at + 24, &[0, 0, 0, 1]);
        put(at + 40, &[absolute]);
    }
    memory.truncate(size);
    memory
}

/// Arguments for a call: each is what its name asks for, or once in a while something else.
pub fn arguments(import: &Import, size: usize, choices: &mut Choices<'_>) -> Vec<u64> {
    let mut path_length = 0;
    let mut one = |name: &str| {
        let choice = choices.byte();
        if choice >= 0xf0 {
            return absurd(choice & 15, size, choices);
        }
        let choice = usize::from(choice);
        match name {
            "path" | "old" | "new" | "target" => {
                path_length = PATHS[choice % PATHS.len()].len() as u64;
                (NAMES + choice % PATHS.len() * SLOT) as u64
            }
            "path_len" | "old_len" | "new_len" | "target_len" => path_length,
            _ if import.name.ends_with("sizes_get") => (OUTS + choice) as u64,
            _ => sensible(name, choice),
        }
    };
    import.arguments.iter().map(|name| one(name)).collect()
}

fn sensible(name: &str, choice: usize) -> u64 {
    const LENGTHS: [u64; 12] = [0, 1, 2, 5, 24, 60, 256, 4096, 40_000, 70_000, 1 << 20, (1 << 20) + 4097];
    const RIGHTS: [u64; 5] = [READ, WRITE, READ | WRITE, 0, u64::MAX];
    match name {
        "fd" | "from" | "to" | "old_fd" | "new_fd" => choice as u64 % 12,
        "out" | "nread" | "nwritten" | "used" | "nevents" | "out_flags" => (OUTS + choice) as u64,
        "iovs" => (IOVECS + choice % 8 * 8) as u64,
        "iovs_len" | "count" | "whence" | "clock" => choice as u64 % 5,
        "argv" | "environ" => POINTERS as u64,
        "subscriptions" => (SUBSCRIPTIONS + choice % 4 * 48) as u64,
        "events" => EVENTS as u64,
        "buffer" => (BYTES + choice) as u64,
        "buffer_len" | "offset" | "length" | "size" => LENGTHS[choice % LENGTHS.len()],
        "base" => RIGHTS[choice % RIGHTS.len()],
        "lookup" => choice as u64 % 2,
        "cookie" => choice as u64 % 16,
        _ => choice as u64 % 17,
    }
}

fn absurd(choice: u8, size: usize, choices: &mut Choices<'_>) -> u64 {
    let size = size as u64;
    match choice {
        0 => u64::from(u32::MAX),
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => 1 << 63,
        4 => 1 << 40,
        5 => (1 << 40) + 1,
        6 => 1 << 32,
        7 => size,
        8 => size.wrapping_sub(1),
        9 => size.wrapping_sub(4),
        10 => (1 << 31) - 1,
        11 => 1 << 31,
        12 => 1 << 30,
        13 => u64::from(choices.byte()) << 8 | u64::from(choices.byte()),
        14 => u64::MAX - u64::from(choices.byte()),
        _ => choices.number(),
    }
}

/// Changes a few bytes of the memory, as a module does between calls: a buffer's place or length, a subscription, a path.
pub fn poke(memory: &mut [u8], choices: &mut Choices<'_>) {
    let at = match choices.below(4) {
        0 => IOVECS + choices.below(16) * 4,
        1 => SUBSCRIPTIONS + choices.below(48) * 4,
        2 => NAMES + choices.below(PATHS.len()) * SLOT + choices.below(4),
        _ => usize::from(choices.byte()) << 8 | usize::from(choices.byte()),
    };
    for byte in memory.iter_mut().skip(at).take(1 + choices.below(8)) {
        *byte = choices.byte();
    }
}

/// Where a call may write, whatever it gives; `strings` are the step's arguments and environment.
pub fn may_write(import: &Import, arguments: &[u64], memory: &[u8], strings: [&[Vec<u8>]; 2]) -> Vec<Range<usize>> {
    let of = |name: &str| {
        let index = import.arguments.iter().position(|argument| *argument == name);
        arguments[index.unwrap_or_else(|| panic!("{} has no {name}", import.name))] as u32 as usize
    };
    let at = |name: &str, length: usize| of(name)..of(name).saturating_add(length);
    let text = |pointers: &str, strings: &[Vec<u8>]| {
        vec![at(pointers, strings.len() * 4), at("buffer", strings.iter().map(Vec::len).sum())]
    };
    match import.name {
        "args_get" => text("argv", strings[0]),
        "environ_get" => text("environ", strings[1]),
        "args_sizes_get" | "environ_sizes_get" => vec![at("count", 4), at("size", 4)],
        "clock_res_get" | "clock_time_get" | "fd_seek" | "fd_tell" | "fd_prestat_get" => vec![at("out", 8)],
        "fd_fdstat_get" => vec![at("out", 24)],
        "fd_filestat_get" | "path_filestat_get" => vec![at("out", 64)],
        "path_open" | "path_mode_get" | "fd_mode_get" => vec![at("out", 4)],
        "fd_prestat_dir_name" => vec![at("path", of("path_len"))],
        "fd_write" | "fd_pwrite" => vec![at("nwritten", 4)],
        "fd_readdir" | "path_readlink" => vec![at("buffer", of("buffer_len")), at("used", 4)],
        "poll_oneoff" => vec![at("events", of("count").saturating_mul(32)), at("nevents", 4)],
        "random_get" => vec![at("buffer", of("length"))],
        "fd_read" | "fd_pread" => {
            let word = |at: usize| memory.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize);
            let buffer = |index: usize| {
                let entry = of("iovs").checked_add(index * 8)?;
                Some(word(entry)?..word(entry)?.saturating_add(word(entry + 4)?))
            };
            let buffers = (0..of("iovs_len").min(1024)).map_while(buffer);
            buffers.chain([at("nread", 4)]).collect()
        }
        _ => Vec::new(),
    }
}
