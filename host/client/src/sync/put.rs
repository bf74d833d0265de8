//! Bringing states back: contents are fetched where they are not here, and one value entry is made of it all.

use super::Sync;
use crate::ClientError;
use crate::fs::KeptContent;
use crate::remote::{Files, RemoteChange};
use opship_record::TreePath;
use opship_record::effect::{After, Change};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Node};
use std::collections::BTreeMap;

/// What became of paths, or would.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutReport {
    /// The value entry that was made; `None` if all was so already, or nothing was to be done yet.
    pub entry: Option<u64>,
    /// The paths that change, sorted.
    pub paths: Vec<TreePath>,
    /// Where states that were in the way are kept.
    pub kept: Vec<TreePath>,
}

pub(super) use super::pull::State;

impl Sync<'_> {
    /// Brings paths to states that the server, or this folder, has the contents of. Those that are so already stay.
    pub(super) async fn put(&mut self, states: Vec<State>, command: &str) -> Result<PutReport, ClientError> {
        let mut changing = Vec::new();
        // Of two states of one path the later counts.
        for (path, node) in states.into_iter().collect::<BTreeMap<_, _>>() {
            if self.copy.is_refused_at(&path)? {
                let reason = "what the server refused stands there; move it elsewhere first".to_owned();
                return Err(ClientError::InTheWay { path, reason });
            }
            if self.copy.node(&path)? != node {
                changing.push((path, node));
            }
        }
        let mut contents = Files::new();
        self.download(&changing, &mut contents).await?;
        let paths = changing.iter().map(|(path, _)| path.clone()).collect();
        let changes = changing.into_iter().map(|(path, node)| {
            let content = match &node {
                Some(Node::File { hash, .. }) => {
                    contents.get(hash).map(|file| KeptContent::downloaded(file, *hash)).transpose()?
                }
                _ => None,
            };
            Ok(RemoteChange { path, node, content })
        });
        let changes = changes.collect::<Result<Vec<_>, ClientError>>()?;
        let entry = self.copy.put(changes, command)?;
        Ok(PutReport { entry, paths, kept: Vec::new() })
    }
}

/// What a change made of its path, where `was` is what it leaves alone; outer `None` for a directory that was moved, of
/// which the change alone does not tell.
pub(super) fn made(change: &Change, was: Option<&Node>) -> Option<Option<Node>> {
    let mode_was = was.map(|node| match node {
        Node::File { mode, .. } | Node::Directory { mode } => *mode,
        Node::Symlink { .. } => DEFAULT_FILE_MODE,
    });
    Some(match &change.after {
        After::Moved { .. } => return None,
        After::Removed => None,
        After::File { length, hash, mode, mtime } => {
            let mode = mode.or(mode_was).unwrap_or(DEFAULT_FILE_MODE);
            Some(Node::File { mode, mtime: *mtime, length: *length, hash: *hash })
        }
        After::Directory { mode } => {
            Some(Node::Directory { mode: mode.or(mode_was).unwrap_or(DEFAULT_DIRECTORY_MODE) })
        }
        After::Symlink { target, mtime } => Some(Node::Symlink { mtime: *mtime, target: target.clone() }),
        After::Metadata { mode: new_mode, mtime: new_mtime, .. } => {
            let mut node = was.cloned();
            match &mut node {
                Some(Node::File { mode, mtime, .. }) => {
                    (*mode, *mtime) = (new_mode.unwrap_or(*mode), new_mtime.unwrap_or(*mtime));
                }
                Some(Node::Directory { mode }) => *mode = new_mode.unwrap_or(*mode),
                Some(Node::Symlink { mtime, .. }) => *mtime = new_mtime.unwrap_or(*mtime),
                None => {}
            }
            node
        }
    })
}
