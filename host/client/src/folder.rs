//! A plain folder as a tree for a world to stand on: only looked at.

use crate::ClientError;
use crate::fs::{Found, Root, Signature, changed, unreadable};
use crate::source::{hash_file, signature_of};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind};
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, SourceError, SourceNode, TreeSource, read_fully_at};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A folder that need not be a working copy. What a tree cannot hold (sockets, names that are not UTF-8, opship's own folder)
/// is not shown.
#[derive(Debug)]
pub struct FolderTree(Root);

impl FolderTree {
    /// Opens a folder.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn open(folder: &Path) -> Result<FolderTree, ClientError> {
        Root::open(folder).map(FolderTree).map_err(ClientError::io(format!("opening '{}'", folder.display())))
    }

    fn found(&self, path: &TreePath) -> Result<Option<(Kind, Found)>, SourceError> {
        let found = self.0.stat(path.as_str()).map_err(|error| unreadable(path.as_str(), &error))?;
        Ok(found.and_then(|found| Some((found.kind?, found))))
    }
}

impl TreeSource for FolderTree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        if path.is_root() {
            return Ok(Some(SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE }));
        }
        let Some((kind, Found { mode, signature, .. })) = self.found(path)? else { return Ok(None) };
        Ok(Some(match kind {
            Kind::File => SourceNode::File { mode, mtime: signature.mtime, length: signature.size },
            Kind::Directory => SourceNode::Directory { mode },
            Kind::Symlink => {
                let target = self.0.read_link(path.as_str()).map_err(|error| unreadable(path.as_str(), &error))?;
                SourceNode::Symlink { mtime: signature.mtime, target }
            }
        }))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let names = self.0.list(path.as_str()).map_err(|error| unreadable(path.as_str(), &error))?;
        let mut listed = Vec::with_capacity(names.len());
        for (name, _) in names {
            let Ok(name) = String::from_utf8(name) else { continue };
            let Ok(child) = path.join(&name) else { continue };
            if let Some((kind, _)) = self.found(&child)? {
                listed.push((name, kind));
            }
        }
        listed.sort_unstable();
        Ok(listed)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let path = path.as_str().to_owned();
        let open = || {
            let file = self.0.open_file(&path)?;
            let signature = signature_of(&file)?;
            Ok((file, signature))
        };
        let (file, signature) = open().map_err(|error| unreadable(&path, &error))?;
        Ok(Arc::new(FolderContent { file, signature, path, hash: OnceLock::new() }))
    }
}

/// A file that must not change while it is read.
struct FolderContent {
    file: File,
    signature: Signature,
    path: String,
    hash: OnceLock<Hash>,
}

impl FolderContent {
    fn check(&self) -> Result<(), SourceError> {
        match signature_of(&self.file) {
            Ok(now) if now == self.signature => Ok(()),
            Ok(_) => Err(changed(&self.path)),
            Err(error) => Err(unreadable(&self.path, &error)),
        }
    }
}

impl FileContent for FolderContent {
    fn length(&self) -> u64 {
        self.signature.size
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        if let Some(hash) = self.hash.get() {
            return Ok(*hash);
        }
        let (_, hash) = hash_file(&self.file).map_err(|error| unreadable(&self.path, &error))?;
        self.check()?;
        Ok(*self.hash.get_or_init(|| hash))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let count = read_fully_at(&self.file, offset, buffer).map_err(|error| unreadable(&self.path, &error))?;
        self.check()?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_folder_is_shown_as_a_version_would_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at(".opship/kept")).unwrap();
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/f"), "text").unwrap();
        std::os::unix::fs::symlink("d/f", at("l")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let tree = FolderTree::open(folder.path()).unwrap();
        let names = [("d".to_owned(), Kind::Directory), ("l".to_owned(), Kind::Symlink)];
        assert_eq!(tree.list(&TreePath::root()).unwrap(), names);
        assert_eq!(tree.stat(&"socket".parse().unwrap()).unwrap(), None);
        assert!(
            matches!(tree.stat(&"l".parse().unwrap()), Ok(Some(SourceNode::Symlink { target, .. })) if target == b"d/f")
        );
        assert_eq!(tree.open(&"d/f".parse().unwrap()).unwrap().hash().unwrap(), Hash::of(b"text"));
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "text").unwrap();
        let content = FolderTree::open(folder.path()).unwrap().open(&"f".parse().unwrap()).unwrap();
        std::fs::write(folder.path().join("f"), "longer text").unwrap();
        assert!(content.read_at(0, &mut [0; 4]).unwrap_err().changed);
        assert!(content.hash().unwrap_err().changed);
    }
}
