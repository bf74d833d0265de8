//! Modules to run.

use crate::target_folder;
use std::path::{Path, PathBuf};

/// A module that `cargo xtask guests` has built from the guest workspace.
pub fn guest(name: &str) -> PathBuf {
    let path = target_folder().join("guests").join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is missing: run the tests by 'cargo xtask test'", path.display());
    path
}

/// A file of the Python packages that carry public modules. `None` where they are not installed and nobody insists
/// (`OPSHIP_REQUIRE_ALL`); a test then has nothing to test.
pub fn python_module(below: impl AsRef<Path>) -> Option<PathBuf> {
    let found =
        std::env::var_os("OPSHIP_PYMODULES").map(|folder| PathBuf::from(folder).join(&below)).filter(|p| p.exists());
    let insisted = std::env::var_os("OPSHIP_REQUIRE_ALL").is_some();
    assert!(
        found.is_some() || !insisted,
        "{} is missing: run the tests by 'cargo xtask test'",
        below.as_ref().display()
    );
    found
}
