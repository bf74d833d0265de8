//! Embeds the standard operations that `cargo xtask guests` has built, so that one file is all a user needs.

use std::fs;
use std::path::{Path, PathBuf};

const STANDARD: [&str; 3] = ["gzip", "sort", "tar"];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // <target>/<profile>/build/<package>/out → <target>/guests
    let guests = out.ancestors().nth(4).map(|target| target.join("guests")).unwrap_or_default();
    let mut table = String::from("&[\n");
    for name in STANDARD {
        let module = guests.join(format!("{name}.wasm"));
        println!("cargo::rerun-if-changed={}", module.display());
        if module.is_file() {
            table += &format!("    ({name:?}, include_bytes!({:?})),\n", module.display().to_string());
        } else {
            println!("cargo::warning=standard operation '{name}' is not embedded: run 'cargo xtask guests' first");
        }
    }
    table += "]\n";
    write_if_changed(&out.join("standard.rs"), &table);
}

fn write_if_changed(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    if let Err(error) = fs::write(path, text) {
        println!("cargo::error=cannot write {}: {error}", path.display());
    }
}
