//! Rules of the repository that no compiler and no linter holds (see CONTRIBUTING.md).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates with unsafe code in them; every other one forbids it.
const UNSAFE_CRATES: &[&str] = &["opship-engine", "opship-sys"];

/// Where that code may stand: deserialising compiled modules, and system calls without a safe wrapper.
const UNSAFE_PLACES: &[&str] = &["host/engine/src/cache.rs", "host/sys/src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All files of the repository, by path below its root; build output and tools' folders left out.
fn files() -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).unwrap() {
            let item = item.unwrap();
            let (path, name) = (item.path(), item.file_name());
            let kind = item.file_type().unwrap();
            if kind.is_file() {
                found.push(path.strip_prefix(&root).unwrap().to_owned());
            }
            let skipped = ["target", ".git", "node_modules", "dist", ".venv"];
            if kind.is_dir() && !skipped.iter().any(|other| name == *other) {
                folders.push(path);
            }
        }
    }
    assert!(found.contains(&PathBuf::from("tests/tests/repository.rs")));
    found.sort();
    found
}

/// The text of the files whose names end so.
fn texts(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let root = root();
    files()
        .into_iter()
        .filter(|file| {
            let name = file.to_string_lossy();
            endings.iter().any(|ending| name.ends_with(ending))
        })
        .map(|file| {
            let text = fs::read_to_string(root.join(&file)).unwrap();
            (file, text)
        })
        .collect()
}

fn packages(folder: &Path) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version=1"])
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn all_packages() -> Vec<Value> {
    let mut all = packages(&root());
    all.extend(packages(&root().join("guest-ops")));
    all
}

/// The root file of each library and binary of a package.
fn crate_roots(package: &Value) -> Vec<PathBuf> {
    let targets = package["targets"].as_array().unwrap();
    targets
        .iter()
        .filter(|target| {
            let kinds = target["kind"].as_array().unwrap();
            kinds.iter().any(|kind| ["lib", "bin", "proc-macro", "cdylib"].contains(&kind.as_str().unwrap()))
        })
        .map(|target| PathBuf::from(target["src_path"].as_str().unwrap()))
        .collect()
}

/// Lines outside comments that hold `needle`, as `file:line`.
fn lines_with(texts: &[(PathBuf, String)], needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in texts {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap();
            if code.contains(needle) {
                found.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    found
}

#[test]
fn unsafe_code_is_forbidden_in_every_other_host_crate() {
    let mut lacking = Vec::new();
    for package in packages(&root()) {
        let name = package["name"].as_str().unwrap();
        let levels: &[&str] = if UNSAFE_CRATES.contains(&name) { &["deny", "forbid"] } else { &["forbid"] };
        for file in crate_roots(&package) {
            let text = fs::read_to_string(&file).unwrap();
            if !levels.iter().any(|level| text.contains(&format!("\n#![{level}(unsafe_code)]\n"))) {
                lacking.push(file);
            }
        }
    }
    assert!(lacking.is_empty(), "#![forbid(unsafe_code)] is missing in {lacking:#?}");
}

#[test]
fn unsafe_code_stands_in_its_places_only() {
    let in_its_place = |file: &Path| UNSAFE_PLACES.iter().any(|place| file.starts_with(place));
    let texts: Vec<_> =
        texts(&[".rs"]).into_iter().filter(|(file, _)| !file.starts_with("guest-ops") && !in_its_place(file)).collect();
    // In pieces, so that this file does not find itself.
    let blocks = ["{", "fn", "impl", "extern"].map(|keyword| format!("{} {keyword}", concat!("un", "safe")));
    let lifted = ["allow", "expect", "warn"].map(|level| format!("{level}({})", concat!("un", "safe_code")));
    for needle in blocks.iter().chain(&lifted) {
        let found = lines_with(&texts, needle);
        assert!(found.is_empty(), "`{needle}` in {found:#?}");
    }
}

#[test]
fn nothing_is_left_for_later() {
    let texts = texts(&[".rs", ".toml", ".sh", ".ci/run", ".ts", ".svelte", ".c", ".h", ".md"]);
    let needles = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("unimple", "mented!"),
        concat!("to", "do!("),
        concat!("#[ig", "nore"),
    ];
    for needle in needles {
        let mut found = Vec::new();
        for (file, text) in &texts {
            if text.contains(needle) {
                found.push(file);
            }
        }
        assert!(found.is_empty(), "`{needle}` in {found:#?}");
    }
}

#[test]
fn packages_share_one_version_and_one_licence() {
    let packages = all_packages();
    let version = &packages[0]["version"];
    for package in &packages {
        let name = &package["name"];
        assert_eq!(&package["version"], version, "{name}");
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{name}");
        // An empty list means that no registry may get it by mistake.
        assert_eq!(package["publish"], Value::Array(Vec::new()), "{name}");
    }
}

#[test]
fn packages_take_the_shared_lints() {
    for package in all_packages() {
        let manifest = package["manifest_path"].as_str().unwrap();
        let text = fs::read_to_string(manifest).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest} lacks the workspace's lints");
    }
}

#[test]
fn modules_and_other_build_output_are_not_stored() {
    let stored: Vec<_> = files()
        .into_iter()
        .filter(|file| {
            let name = file.to_string_lossy();
            // What was recorded once needs the very modules that ran.
            let kept = file.starts_with("tests/corpus");
            !kept && name.ends_with(".wasm.zst")
                || [".wasm", ".cwasm", ".o", ".rlib", ".sqlite", ".orig", ".rej"]
                    .iter()
                    .any(|ending| name.ends_with(ending))
        })
        .collect();
    assert!(stored.is_empty(), "fixtures are made, not stored: {stored:#?}");
}

#[test]
fn every_defence_that_is_told_of_has_its_test() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let mut named = 0;
    for place in text.split('`').filter(|piece| piece.contains(".rs::")) {
        let (file, test) = place.split_once("::").unwrap();
        let source = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let name = test.rsplit("::").next().unwrap();
        assert!(source.contains(&format!("fn {name}(")), "SECURITY.md names {place}, which is not there");
        named += 1;
    }
    assert!(named > 30, "{named}");
}
