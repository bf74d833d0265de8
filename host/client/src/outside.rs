//! Writing restored files into a folder that is no part of the working copy.

use crate::ClientError;
use crate::fs::{Root, write_new};
use crate::stage::copy_checked;
use opship_record::TreePath;
use opship_record::node::{Kind, Node};
use opship_world::FileContent;
use std::io;
use std::path::{Path, PathBuf};

/// A folder elsewhere. Below it nothing is reached through a link, and nothing that is there is overwritten.
pub(crate) struct Outside {
    root: Option<Root>,
    path: PathBuf,
}

impl Outside {
    /// Opens the folder, made where it is not there, unless nothing is to be changed.
    pub(crate) fn open(path: &Path, dry_run: bool) -> Result<Outside, ClientError> {
        let failed = || ClientError::io(format!("opening '{}'", path.display()));
        if !dry_run {
            std::fs::create_dir_all(path).map_err(failed())?;
        }
        let root = match path.is_dir() {
            true => Some(Root::open(path).map_err(failed())?),
            false => None,
        };
        Ok(Outside { root, path: path.to_owned() })
    }

    /// Refuses if something stands where one of these is to be, but for folders.
    pub(crate) fn check_free(&self, states: &[(TreePath, Option<Node>)]) -> Result<(), ClientError> {
        let Some(root) = &self.root else { return Ok(()) };
        for (path, node) in states {
            let found = root.stat(path.as_str()).map_err(ClientError::io(format!("looking at '{path}'")))?;
            let is_folder = matches!(node, Some(Node::Directory { .. }));
            if found.is_some_and(|found| !(is_folder && found.kind == Some(Kind::Directory))) {
                let shown = self.path.join(path.as_str());
                return Err(ClientError::Refused(format!(
                    "'{}' is there already, so nothing was restored; name another folder",
                    shown.display()
                )));
            }
        }
        Ok(())
    }

    /// Writes one path; folders come before what they hold.
    pub(crate) fn write(
        &self,
        path: &TreePath,
        node: Option<&Node>,
        content: Option<&dyn FileContent>,
    ) -> Result<(), ClientError> {
        let (Some(root), Some(node)) = (&self.root, node) else { return Ok(()) };
        let missing = || io::Error::other("its content is not here; try again");
        let write = || -> io::Result<()> {
            match node {
                Node::Directory { .. } if root.stat(path.as_str())?.is_some() => Ok(()),
                // Its own bits come last: a read-only folder takes no files.
                Node::Directory { .. } => root.make_directory(path.as_str(), 0o700),
                Node::Symlink { target, mtime } => {
                    root.make_link(path.as_str(), target)?;
                    root.set_mtime(path.as_str(), *mtime)
                }
                Node::File { mode, mtime, hash, .. } => {
                    let mut file = write_new(root, path.as_str())?;
                    copy_checked(content.ok_or_else(missing)?, hash, &mut file)?;
                    root.set_mode(path.as_str(), *mode)?;
                    root.set_mtime(path.as_str(), *mtime)
                }
            }
        };
        write().map_err(ClientError::io(format!("restoring '{}'", self.path.join(path.as_str()).display())))
    }

    /// Gives folders their own bits, and makes all durable.
    pub(crate) fn finish(&self, states: &[(TreePath, Option<Node>)]) -> Result<(), ClientError> {
        let Some(root) = &self.root else { return Ok(()) };
        let finish = || -> io::Result<()> {
            for (path, node) in states.iter().rev() {
                if let Some(Node::Directory { mode }) = node {
                    root.set_mode(path.as_str(), *mode)?;
                }
            }
            root.sync_all()
        };
        finish().map_err(ClientError::io("finishing what was restored"))
    }
}
