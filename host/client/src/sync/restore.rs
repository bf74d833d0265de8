//! Restoring files and folders from an earlier version.

use super::Sync;
use super::put::{PutReport, State};
use crate::ClientError;
use crate::fs::KeptContent;
use crate::outside::Outside;
use crate::remote::Files;
use opship_record::TreePath;
use opship_record::node::{Kind, Node};
use std::path::{Path, PathBuf};

/// Where restored files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To the paths that they had.
    InPlace,
    /// Below this folder of the working copy.
    Inside(TreePath),
    /// Below this folder elsewhere; nothing that is there is overwritten.
    Outside(PathBuf),
}

impl Sync<'_> {
    /// Brings files, and folders with all that they held, to the state that a version has of them. What a folder holds
    /// besides stays. What was changed here is recorded first.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the version has no such path, or if a file is in the way outside;
    /// [`ClientError`] from the network or the disk.
    pub async fn restore(
        mut self,
        paths: &[TreePath],
        version: u64,
        to: &Destination,
        dry_run: bool,
    ) -> Result<PutReport, ClientError> {
        let _lock = self.lock().await?;
        // What is in the way is what stands there now, not what was recorded last. Outside nothing is replaced.
        if !matches!(to, Destination::Outside(_)) {
            self.copy.append_changes()?;
        }
        let mut states = Vec::new();
        for path in paths {
            for (found, node) in self.states_at(path, version).await? {
                let place = match to {
                    Destination::InPlace => found,
                    Destination::Inside(_) | Destination::Outside(_) => below_parent(&found, path),
                };
                let place = match to {
                    Destination::Inside(folder) => folder.append(&place).map_err(opship_record::Error::from)?,
                    _ => place,
                };
                states.push((place, node));
            }
        }
        states.retain(|(path, _)| !path.is_root());
        match to {
            Destination::Outside(folder) => self.restore_outside(folder, states, dry_run).await,
            _ if dry_run => self.would_change(states),
            _ => self.put(states, &format!("restore from version {version}")).await,
        }
    }

    /// What a version holds at and below a path.
    pub(super) async fn states_at(&mut self, path: &TreePath, version: u64) -> Result<Vec<State>, ClientError> {
        let found = self.api.nodes(std::slice::from_ref(path), Some(version)).await?;
        let Some((_, Some(node))) = found.into_iter().next() else {
            return Err(ClientError::Refused(format!(
                "version {version} has no '{path}'; 'opship log --versions' lists them"
            )));
        };
        let is_folder = node.kind() == Kind::Directory;
        let mut states = vec![(path.clone(), Some(node))];
        if is_folder {
            let (_, mut below) = self.api.changes_between(0, version, path).await?;
            while let Some((below, node)) = below.next().await? {
                if below != *path {
                    states.push((below, node));
                }
            }
        }
        Ok(states)
    }

    fn would_change(&self, states: Vec<State>) -> Result<PutReport, ClientError> {
        let mut report = PutReport::default();
        for (path, node) in states {
            if self.copy.node(&path)? != node || self.copy.is_refused_at(&path)? {
                report.paths.push(path);
            }
        }
        Ok(report)
    }

    async fn restore_outside(
        &mut self,
        folder: &Path,
        states: Vec<State>,
        dry_run: bool,
    ) -> Result<PutReport, ClientError> {
        let paths: Vec<TreePath> = states.iter().map(|(path, _)| path.clone()).collect();
        let outside = Outside::open(folder, dry_run)?;
        outside.check_free(&states)?;
        if !dry_run {
            let mut contents = Files::new();
            self.download(&states, &mut contents).await?;
            for (path, node) in &states {
                let content = match node {
                    Some(Node::File { hash, .. }) => match contents.get(hash) {
                        Some(file) => Some(KeptContent::downloaded(file, *hash)?),
                        None => self.copy.blob_source(hash)?,
                    },
                    _ => None,
                };
                outside.write(path, node.as_ref(), content.as_deref())?;
            }
            outside.finish(&states)?;
        }
        Ok(PutReport { entry: None, paths, kept: Vec::new() })
    }
}

/// A path as seen from the folder that the restored path is in, as `cp` would place it.
fn below_parent(found: &TreePath, restored: &TreePath) -> TreePath {
    let parent = restored.parent().unwrap_or_default();
    found.strip_prefix(&parent).unwrap_or_else(|| found.clone())
}
