//! The compiler for wasm32-wasip1: rustup's target where it is, otherwise Debian's packages.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::{apt, process};

/// The target that guests are built for.
pub(crate) const TARGET: &str = "wasm32-wasip1";

/// A compiler of Debian's own, its sources of the standard library, and the C library and runtime
/// that a command is linked with. They do not disturb a toolchain of rustup's.
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "wasi-libc", "libclang-rt-14-dev-wasm32"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust";
const DEBIAN_LIBC: &str = "/usr/lib/wasm32-wasi";

/// Rustup's download of the target; where nothing answers it ends by itself much sooner.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);
/// How long a failed download is not tried again.
const RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A way to compile for the target that is ready on this machine.
#[derive(Debug)]
pub(crate) enum Wasi {
    /// The toolchain that builds the host has the target too.
    Toolchain {
        /// The toolchain's folder.
        sysroot: PathBuf,
    },
    /// Debian's compiler builds the standard library from Debian's sources.
    Debian {
        /// A linker that knows WebAssembly.
        linker: PathBuf,
    },
}

impl Wasi {
    /// The toolchain's target where it is installed, otherwise Debian's packages where all are.
    pub(crate) fn find() -> Result<Option<Self>> {
        let sysroot = sysroot()?;
        let target = sysroot.join("lib/rustlib").join(TARGET);
        if target.join("lib/self-contained/crt1-command.o").is_file() {
            return Ok(Some(Self::Toolchain { sysroot }));
        }
        if !debian_compiler_is_ready() {
            return Ok(None);
        }
        Ok(linker(&sysroot).map(|linker| Self::Debian { linker }))
    }

    /// Finds the target or gets it: from rustup, then from Debian.
    pub(crate) fn ensure(context: &Context) -> Result<Self> {
        if let Some(found) = Self::find()? {
            return Ok(found);
        }
        let no_rustup = match add_by_rustup(context)? {
            None => match Self::find()? {
                Some(found) => return Ok(found),
                None => format!("rustup has added {TARGET}, but not to the toolchain in use"),
            },
            Some(reason) => reason,
        };
        let packages = missing_packages()?;
        let why = format!("building guests for {TARGET}");
        apt::install(context, &packages, &why).map_err(|error| neither(&packages, &no_rustup, &error))?;
        Self::find()?.ok_or_else(|| {
            Error::Missing(format!(
                "Debian's packages are installed, and {DEBIAN_RUSTC} still cannot build for \
                 {TARGET}: it must be 1.95 or newer, from rustc-web; or run \
                 `rustup target add {TARGET}`"
            ))
        })
    }

    /// What tells one compiler from another: with another, guests are built anew.
    pub(crate) fn identity(&self) -> Result<String> {
        let rustc = match self {
            Self::Toolchain { .. } => "rustc",
            Self::Debian { .. } => DEBIAN_RUSTC,
        };
        process::output(process::clean(rustc).arg("-vV"))
    }

    /// The folder that holds the sources of the standard library, if the compiler has them.
    pub(crate) fn std_sources(&self) -> PathBuf {
        match self {
            Self::Toolchain { sysroot } => sysroot.join("lib/rustlib/src/rust"),
            Self::Debian { .. } => DEBIAN_SOURCES.into(),
        }
    }

    /// Sets a cargo command up to build for the target by this compiler, with more compiler flags.
    pub(crate) fn configure(&self, command: &mut Command, mut flags: Vec<String>) {
        // These would come before what is set here.
        for name in ["RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            command.env_remove(name);
        }
        command.args(["--target", TARGET]);
        if let Self::Debian { linker } = self {
            command.env("RUSTC", DEBIAN_RUSTC);
            command.env("RUSTC_BOOTSTRAP", "1");
            command.arg("-Zbuild-std=std,panic_abort");
            // Not among the flags: its path would end up in the hashes of symbols.
            command.env("CARGO_TARGET_WASM32_WASIP1_LINKER", linker);
            flags.push("-Clink-self-contained=no".to_owned());
            flags.push(format!("-Clink-arg={DEBIAN_LIBC}/crt1-command.o"));
            flags.push(format!("-L{DEBIAN_LIBC}"));
        }
        // The encoded form keeps a path with a space in one piece.
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    }
}

fn sysroot() -> Result<PathBuf> {
    let printed = process::output(process::clean("rustc").args(["--print", "sysroot"]))?;
    Ok(PathBuf::from(printed.trim_end()))
}

fn debian_compiler_is_ready() -> bool {
    let files = [
        PathBuf::from(DEBIAN_RUSTC),
        Path::new(DEBIAN_SOURCES).join("library/std/Cargo.toml"),
        Path::new(DEBIAN_LIBC).join("crt1-command.o"),
    ];
    files.iter().all(|file| file.is_file())
        && process::output(process::clean(DEBIAN_RUSTC).arg("--version")).is_ok_and(|version| is_new_enough(&version))
}

/// Whether `rustc 1.96.0 (…)` fits the edition and language that guests are written in.
fn is_new_enough(version: &str) -> bool {
    let number = version.split(' ').nth(1).unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else {
        return false;
    };
    (major, minor) >= (1, 95)
}

/// The linker that comes with rustup's compiler, or LLVM's own.
fn linker(sysroot: &Path) -> Option<PathBuf> {
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let own = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    if own.is_file() {
        return Some(own);
    }
    ["wasm-ld", "wasm-ld-14"].into_iter().find_map(process::find)
}

fn missing_packages() -> Result<Vec<&'static str>> {
    let mut packages = DEBIAN_PACKAGES.to_vec();
    if linker(&sysroot()?).is_none() {
        packages.push("lld");
    }
    Ok(packages)
}

/// Lets rustup add the target. `None` when it did, otherwise why not; a failure is remembered for
/// a day, so that a machine without network does not wait for it at every run.
fn add_by_rustup(context: &Context) -> Result<Option<String>> {
    if process::find("rustup").is_none() {
        return Ok(Some("rustup is not installed".to_owned()));
    }
    let note = context.notes()?.join("rustup-target-failed");
    if let Some(reason) = remembered(&note) {
        return Ok(Some(reason));
    }
    announce(&format!("asking rustup for the target {TARGET}"));
    let log = context.notes()?.join("rustup.log");
    let mut command = process::clean("rustup");
    command.args(["target", "add", TARGET]);
    command.env("RUSTUP_MAX_RETRIES", "0");
    command.env("RUST_BACKTRACE", "0");
    let Err(error) = process::run_logged(&mut command, &log, RUSTUP_LIMIT) else {
        return Ok(None);
    };
    let reason = error.to_string();
    fs::write(&note, &reason).map_err(Error::io("write", &note))?;
    Ok(Some(reason))
}

fn remembered(note: &Path) -> Option<String> {
    let age = fs::metadata(note).ok()?.modified().ok()?.elapsed().ok()?;
    if age > RETRY_AFTER {
        return None;
    }
    fs::read_to_string(note).ok()
}

fn neither(packages: &[&str], no_rustup: &str, no_debian: &Error) -> Error {
    // The command is named once: an error that only repeats it is left out.
    let command = apt::by_hand(packages);
    let tried = no_debian.to_string();
    let tried = if tried.contains(&command) { "it needs root, or --yes where sudo is installed" } else { &tried };
    Error::Missing(format!(
        "no compiler for {TARGET} on this machine. Either of these gives one:\n\
         1. rustup target add {TARGET}\n   tried: {no_rustup}\n\
         2. {command}\n   tried: {tried}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn old_compilers_are_told_from_new_ones() {
        assert!(is_new_enough("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)"));
        assert!(is_new_enough("rustc 2.0.0"));
        assert!(!is_new_enough("rustc 1.63.0"));
        assert!(!is_new_enough("gcc"));
    }

    #[test]
    fn debian_build_is_not_governed_by_flags_of_the_caller() {
        let mut command = Command::new("cargo");
        let wasi = Wasi::Debian { linker: "/opt/a b/rust-lld".into() };
        wasi.configure(&mut command, vec!["--remap-path-prefix=/a b=/c".to_owned()]);
        let value = |name: &str| {
            command
                .get_envs()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.map(|text| text.to_string_lossy().into_owned()))
        };
        assert_eq!(value("RUSTFLAGS"), Some(None));
        let flags = value("CARGO_ENCODED_RUSTFLAGS").unwrap().unwrap();
        let flags: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(flags[0], "--remap-path-prefix=/a b=/c");
        assert!(!flags.iter().any(|flag| flag.contains("rust-lld")));
    }
}
