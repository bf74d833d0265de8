//! `cargo xtask setup`: what the build needs of the machine, found or installed.

use std::env;

use crate::context::Context;
use crate::error::Result;
use crate::wasi::Wasi;
use crate::{apt, process};

/// Sets the machine up and says what it has.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = ensure(context)?;
    let way = match wasi {
        Wasi::Toolchain { .. } => "the toolchain's own target",
        Wasi::Debian { .. } => "Debian's compiler and sources",
    };
    eprintln!("ready: guests are built by {way}");
    Ok(())
}

/// The same as a timed step of another command.
pub(crate) fn step(context: &Context) -> Result<Wasi> {
    context.step("setup", || ensure(context))
}

fn ensure(context: &Context) -> Result<Wasi> {
    if !has_c_compiler() {
        apt::install(context, &["gcc", "libc6-dev"], "compiling SQLite and zstd, which are written in C,")?;
    }
    Wasi::ensure(context)
}

/// What the tests run beside the toolchain: strace shows the order in which bytes become durable, and Btrfs has files that
/// share blocks.
pub(crate) fn for_tests(context: &Context) -> Result<()> {
    if process::find("strace").is_none() {
        apt::install(context, &["strace"], "showing in a test what becomes durable when")?;
    }
    if process::find("mkfs.btrfs").is_none() {
        apt::install(context, &["btrfs-progs"], "showing in a test that copies share their blocks")?;
    }
    Ok(())
}

/// Whether the `cc` crate, which compiles the C libraries, will find a compiler.
fn has_c_compiler() -> bool {
    env::var_os("CC").is_some_and(|name| !name.is_empty()) || process::find("cc").is_some()
}
