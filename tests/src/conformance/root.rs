//! A real folder as a tree in memory.

use super::CaseError;
use opship_record::TreePath;
use opship_record::node::MODE_MASK;
use opship_world::MemoryTree;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Copies what a folder holds.
///
/// # Errors
/// [`CaseError`] if something cannot be read, or cannot be part of a tree.
pub fn read_tree(folder: &Path) -> Result<MemoryTree, CaseError> {
    read_into(folder, &TreePath::root(), MemoryTree::new())
}

fn read_into(folder: &Path, at: &TreePath, mut tree: MemoryTree) -> Result<MemoryTree, CaseError> {
    for item in fs::read_dir(folder).map_err(CaseError::read(folder))? {
        let path = item.map_err(CaseError::read(folder))?.path();
        let refused = |detail: &str| CaseError::Root { path: path.clone(), detail: detail.to_owned() };
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| refused("its name is not UTF-8"))?;
        let below = at.join(name).map_err(|error| refused(&error.to_string()))?;
        let metadata = fs::symlink_metadata(&path).map_err(CaseError::read(&path))?;
        let kind = metadata.file_type();
        tree = if kind.is_dir() {
            read_into(&path, &below, tree.directory(below.as_str()))?
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(CaseError::read(&path))?;
            tree.symlink(below.as_str(), target.as_os_str().as_bytes())
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(CaseError::read(&path))?;
            let mode = u16::try_from(metadata.mode() & u32::from(MODE_MASK)).unwrap_or(MODE_MASK);
            let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
            tree.file_with(below.as_str(), bytes, mode, mtime)
        } else {
            return Err(refused("it is no file, directory or symbolic link"));
        };
    }
    Ok(tree)
}
