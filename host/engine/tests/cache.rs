//! Compiled modules on disk: found again, private, and never trusted when they are not what was written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opship_engine::{Compiler, Engine, EngineConfig, EngineError, LoadedFrom};
use opship_record::Hash;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
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
