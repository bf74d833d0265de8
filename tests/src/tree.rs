//! Folders compared as trees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// All paths below a folder but opship's own, with kind, permission bits, modification time (not of folders) and content.
/// What goes while it is looked at is not there.
pub fn snapshot(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    visit(folder, "", &mut found);
    found
}

/// `None` for what is not there any more.
fn there<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        result => Some(result.unwrap()),
    }
}

fn visit(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in there(fs::read_dir(folder)).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name == ".opship" {
            continue;
        }
        let path = entry.path();
        let Some(metadata) = there(fs::symlink_metadata(&path)) else { continue };
        let mode = metadata.permissions().mode() & 0o7777;
        let time = (metadata.mtime(), metadata.mtime_nsec());
        let text = if metadata.is_dir() {
            visit(&path, &format!("{name}/"), found);
            format!("folder {mode:o}")
        } else if metadata.is_symlink() {
            let Some(target) = there(fs::read_link(&path)) else { continue };
            format!("link {time:?} {target:?}")
        } else {
            let Some(bytes) = there(fs::read(&path)) else { continue };
            format!("file {mode:o} {time:?} {} {}", metadata.len(), blake3::hash(&bytes))
        };
        found.insert(name, text);
    }
}

/// The paths that differ between two folders, with what is at each.
pub(crate) fn differing(a: &Path, b: &Path) -> Vec<String> {
    let (left, right) = (snapshot(a), snapshot(b));
    let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let differing = names.into_iter().filter(|name| left.get(*name) != right.get(*name));
    differing.map(|name| format!("{name}: {:?} / {:?}", left.get(name), right.get(name))).collect()
}

/// Fails, naming the paths that differ, unless both folders hold the same tree.
pub fn assert_same_tree(a: &Path, b: &Path) {
    let differing = differing(a, b);
    assert!(differing.is_empty(), "{} and {} differ:\n{}", a.display(), b.display(), differing.join("\n"));
}
