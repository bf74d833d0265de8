//! Signatures of what the server holds: kept for each content that is large enough, so that its next state travels as the
//! difference to it.

use super::Sync;
use crate::ClientError;
use opship_record::effect::{Before, Change};
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use std::collections::BTreeSet;

/// Least length of a content of which a signature is kept.
pub(crate) const LEAST: u64 = 2 << 10;

/// What a sync changed of what both ends hold.
#[derive(Debug, Default)]
pub(super) struct Changed {
    paths: BTreeSet<TreePath>,
    /// Contents that were there before.
    before: BTreeSet<Hash>,
}

impl Changed {
    /// Takes up what an entry changed.
    pub(super) fn extend(&mut self, changes: &[Change]) {
        for change in changes {
            self.paths.insert(change.path.clone());
            if let Before::File { hash } = change.before {
                self.before.insert(hash);
            }
        }
    }

    /// Takes up a path that a pull gives another state than this.
    pub(super) fn replaces(&mut self, path: &TreePath, node: Option<&Node>) {
        self.paths.insert(path.clone());
        if let Some(Node::File { hash, .. }) = node {
            self.before.insert(*hash);
        }
    }
}

impl Sync<'_> {
    /// Makes the signatures that are lacking, and drops those of contents that are no more.
    pub(super) fn remember_signatures(&mut self) -> Result<(), ClientError> {
        let Changed { paths, before } = std::mem::take(&mut self.changed);
        for path in paths {
            if let Some(Node::File { hash, length, .. }) = self.copy.node(&path)?
                && length >= LEAST
                && !self.memory.has_signature(&hash)
                && self.copy.origin(&path)?.is_some_and(|origin| origin.synced)
                && let Some(signature) = self.copy.signature_of(&path, &hash)
            {
                self.memory.keep_signature(&hash, &signature);
            }
        }
        for hash in before {
            if !self.copy.has_content(&hash)? {
                self.memory.drop_signature(&hash);
            }
        }
        Ok(())
    }
}
