//! The guest in C: Debian's clang and wasi-libc.

use std::path::{Path, PathBuf};

use super::{Language, sources};
use crate::context::Context;
use crate::error::Result;
use crate::{apt, process};

/// The version that Debian's runtime library for WebAssembly belongs to.
const CLANG: &str = "clang-14";
const LINKER: &str = "/usr/lib/llvm-14/bin/wasm-ld";
const RUNTIME: &str = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/wasi/libclang_rt.builtins-wasm32.a";
const LIBC: &str = "/usr/lib/wasm32-wasi/libc.a";
const PACKAGES: [&str; 4] = ["clang-14", "lld-14", "wasi-libc", "libclang-rt-14-dev-wasm32"];

const FLAGS: &str =
    "--target=wasm32-wasi --sysroot=/usr -O2 -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wl,--strip-all";

pub(super) const LANGUAGE: Language =
    Language { name: "C", folder: "c", module: "conform-c", recipe: &[CLANG, FLAGS], build };

fn build(context: &Context, folder: &Path, module: &Path) -> Result<()> {
    compile(context, folder, &sources(folder, ".c")?, module, "building the conformance guest in C")
}

/// Compiles and links sources of a folder to one module, with Debian's tools; `what` is said if they must be installed.
pub(crate) fn compile(context: &Context, folder: &Path, sources: &[PathBuf], module: &Path, what: &str) -> Result<()> {
    let is_ready =
        process::find(CLANG).is_some() && [LINKER, RUNTIME, LIBC].iter().all(|file| Path::new(file).is_file());
    if !is_ready {
        apt::install(context, &PACKAGES, what)?;
    }
    let mut clang = process::clean(CLANG);
    // By relative names, so that no folder of this machine gets into the module.
    clang.current_dir(folder).args(FLAGS.split(' ')).arg("-o").arg(module).args(sources);
    process::output(&mut clang).map(drop)
}
