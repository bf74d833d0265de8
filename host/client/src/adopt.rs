//! Adopting: a folder that holds, before its first pull, what the server holds too. What is the same on both sides is taken
//! as pulled, at the cost of hashes; what differs stays a change of this folder.

use crate::db::index::{self, Row};
use crate::source::content_in;
use crate::values::{State, States};
use crate::{ClientError, WorkingCopy};
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use opship_world::FileContent;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a folder holds and its index does not.
#[derive(Debug)]
pub struct Unindexed(States);

impl Unindexed {
    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The contents of its files, with a path of each.
    pub(crate) fn contents(&self) -> BTreeMap<Hash, TreePath> {
        let content = |(path, state): (&TreePath, &State)| match &state.node {
            Some(Node::File { hash, .. }) => Some((*hash, path.clone())),
            _ => None,
        };
        self.0.iter().filter_map(content).collect()
    }
}

impl WorkingCopy {
    /// Looks for what the folder holds and the index does not, and hashes it.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn unindexed(&self) -> Result<Unindexed, ClientError> {
        let states = self.scan()?.states;
        let db = self.shared.db.read();
        let mut new = States::new();
        for (path, state) in states {
            if state.node.is_some() && index::get(&db, &path)?.is_none() {
                new.insert(path, state);
            }
        }
        Ok(Unindexed(new))
    }

    /// Takes what is here with the content that the server has as the server's. Mode and time may differ: the index says what
    /// is here, and a pull brings the server's.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn adopt(&self, here: &Unindexed, remote: &BTreeMap<TreePath, Option<Node>>) -> Result<(), ClientError> {
        let _lock = self.lock()?;
        self.shared.db.write(|db| {
            for (path, state) in &here.0 {
                let (Some(Some(theirs)), Some(node)) = (remote.get(path), &state.node) else { continue };
                // An entry of another process may have taken the path up meanwhile.
                if theirs.content() == node.content() && index::get(db, path)?.is_none() {
                    let (signature, racy) = (state.signature, state.racy);
                    index::put(db, path, &Row { node: node.clone(), signature, racy, synced: true, entry: 0 })?;
                }
            }
            Ok(())
        })
    }

    /// The file at a path, if it has this content.
    pub(crate) fn content_at(&self, path: &TreePath, hash: &Hash) -> Option<Arc<dyn FileContent>> {
        content_in(&self.shared, path.as_str(), hash, None)
    }
}
