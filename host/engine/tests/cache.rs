//! Compiled modules on disk: found again, private, and never trusted when they are not what was written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/run.rs"]
mod with_world;

use opship_engine::{Compiler, Engine, EngineConfig, EngineError, LoadedFrom};
use opship_record::Hash;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use support::{NOTHING, bytes, engine_with_cache, load};

const OTHER: &str = r#"(module (func (export "_start") unreachable))"#;

/// The entry of a module.
fn entry(folder: &Path, text: &str) -> PathBuf {
    let prefix = format!("{}-", Hash::of(&bytes(text)));
    let mut found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix)).unwrap()
}

/// Where a new engine gets a module from.
fn from(folder: &Path, text: &str) -> LoadedFrom {
    load(&engine_with_cache(folder), text).unwrap().1
}

#[test]
fn an_entry_is_used_by_the_next_engine_without_the_modules_bytes() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
    let loaded = engine_with_cache(folder.path()).load(&Hash::of(&bytes(NOTHING)), &mut support::no_bytes);
    assert_eq!(loaded.unwrap().1, LoadedFrom::Disk);
}

#[test]
fn folder_key_and_entries_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep/cache");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    from(&folder, NOTHING);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("key")), 0o600);
    assert_eq!(mode(&entry(&folder, NOTHING)), 0o600);
}

#[test]
fn a_changed_entry_is_compiled_again_wherever_it_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    from(folder.path(), NOTHING);
    let path = entry(folder.path(), NOTHING);
    let whole = fs::read(&path).unwrap();
    for index in [0, 31, 32, 33, whole.len() / 2, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[index] ^= 1;
        fs::write(&path, changed).unwrap();
        assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled, "byte {index}");
        assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Disk, "byte {index}");
    }
    for length in [0, 1, 31, 32, 100, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled, "cut at {length}");
    }
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
}

#[test]
fn an_entry_under_another_modules_name_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    from(folder.path(), NOTHING);
    from(folder.path(), OTHER);
    fs::copy(entry(folder.path(), OTHER), entry(folder.path(), NOTHING)).unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
    assert_eq!(from(folder.path(), OTHER), LoadedFrom::Disk);
}

#[test]
fn entries_of_another_key_are_not_used() {
    let (mine, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    from(mine.path(), NOTHING);
    from(theirs.path(), NOTHING);
    fs::copy(entry(theirs.path(), NOTHING), entry(mine.path(), NOTHING)).unwrap();
    assert_eq!(from(mine.path(), NOTHING), LoadedFrom::Compiled);
    fs::write(mine.path().join("key"), b"too short").unwrap();
    assert_eq!(from(mine.path(), NOTHING), LoadedFrom::Compiled);
    assert_eq!(from(mine.path(), NOTHING), LoadedFrom::Disk);
}

/// Writes an entry as the cache would, with its own key.
fn forge(folder: &Path, text: &str, artifact: &[u8]) {
    let key: [u8; 32] = fs::read(folder.join("key")).unwrap().try_into().unwrap();
    let path = entry(folder, text);
    let name = path.file_name().unwrap().to_str().unwrap();
    let code = blake3::Hasher::new_keyed(&key).update(name.as_bytes()).update(artifact).finalize();
    fs::write(&path, [code.as_bytes(), artifact].concat()).unwrap();
}

#[test]
fn an_entry_made_for_another_machine_is_not_used_even_under_the_right_code() {
    let folder = tempfile::tempdir().unwrap();
    from(folder.path(), NOTHING);
    let artifact = fs::read(entry(folder.path(), NOTHING)).unwrap().split_off(32);
    forge(folder.path(), NOTHING, &artifact);
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Disk, "the test's own code is right");
    let (own, mut moved) = (std::env::consts::ARCH.as_bytes(), artifact.clone());
    let places: Vec<usize> = (0..moved.len() - own.len()).filter(|at| moved[*at..].starts_with(own)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| moved[*at] ^= 1);
    forge(folder.path(), NOTHING, &moved);
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Disk);
}

#[test]
fn an_entry_of_another_version_or_other_settings_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    from(folder.path(), NOTHING);
    let path = entry(folder.path(), NOTHING);
    let (module, engine) = path.file_name().unwrap().to_str().unwrap().split_once('-').unwrap();
    let other: String = engine.chars().rev().collect();
    let elsewhere = folder.path().join(format!("{module}-{other}"));
    fs::rename(&path, &elsewhere).unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
    // Nor under this one's name: the code is of the name too.
    let key: [u8; 32] = fs::read(folder.path().join("key")).unwrap().try_into().unwrap();
    let artifact = fs::read(&elsewhere).unwrap().split_off(32);
    let name = elsewhere.file_name().unwrap().to_str().unwrap();
    let code = blake3::Hasher::new_keyed(&key).update(name.as_bytes()).update(&artifact).finalize();
    fs::write(&path, [code.as_bytes(), &artifact[..]].concat()).unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
}

/// A module that exits with a code, as [`with_world::module`] makes it.
fn exits(code: u32) -> String {
    with_world::module(r#"(memory (export "memory") 1)"#, &format!("(i32.const {code})"))
}

#[test]
fn an_entry_that_changes_after_it_was_loaded_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = exits(7);
    from(folder.path(), &text);
    let engine = engine_with_cache(folder.path());
    let case = with_world::Case::new(&engine, &[&text]);
    let path = entry(folder.path(), &text);
    let length = fs::metadata(&path).unwrap().len();
    // In place, so that whoever had mapped the file would see it.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
    assert_eq!(with_world::exit_of(engine.run(case.run())), 7);
}

#[test]
fn an_entry_that_is_swapped_while_it_is_loaded_is_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (exits(7), exits(8));
    from(folder.path(), &own);
    from(folder.path(), &other);
    let (path, own_bytes) = (entry(folder.path(), &own), fs::read(entry(folder.path(), &own)).unwrap());
    let other_bytes = fs::read(entry(folder.path(), &other)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let aside = folder.path().join(".aside");
            while !stop.load(Ordering::Relaxed) {
                for bytes in [&other_bytes, &own_bytes] {
                    fs::write(&aside, bytes).unwrap();
                    fs::rename(&aside, &path).unwrap();
                }
            }
        });
        for _ in 0..200 {
            assert_eq!(with_world::exit(&engine_with_cache(folder.path()), &own), 7);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    from(folder.path(), NOTHING);
    let path = entry(folder.path(), NOTHING);
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Compiled);
    assert!(fs::symlink_metadata(&path).unwrap().is_file());

    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    let made = Engine::new(EngineConfig { cache: Some(link), ..EngineConfig::new(Compiler::InProcess) });
    assert!(matches!(made.err(), Some(EngineError::Cache { .. })));
}

#[test]
fn engines_that_start_at_once_agree_on_the_key() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| from(folder.path(), NOTHING));
        }
    });
    assert_eq!(from(folder.path(), NOTHING), LoadedFrom::Disk);
}
