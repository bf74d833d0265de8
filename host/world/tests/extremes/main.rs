//! Arguments at the ends of their ranges, each with the errno that it must give.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod buffers;
mod chance;
#[path = "../common/mod.rs"]
mod common;
mod nothing_at_all;
mod offsets;
mod waiting;

use common::calls::IMPORTS;
use common::*;
use opship_world::{Errno, Fault, MemoryTree, Trap, World, WorldConfig, limits};

const SIGNED: u64 = i64::MAX as u64;

fn guest() -> Guest {
    Guest::new(MemoryTree::new().file("f", "0123456789").directory("d").symlink("l", "f"))
}

fn opened(guest: &mut Guest) -> u32 {
    guest.open("f", 0, READ | WRITE).unwrap()
}
