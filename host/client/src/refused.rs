//! What the server refused stays here alone: it is told, and not offered again until it is another content, or the user says so.

use crate::db::refused::{self, Refused};
use crate::scan::Found;
use crate::{ClientError, LogEntry, WorkingCopy};
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use std::collections::BTreeSet;

impl WorkingCopy {
    /// Remembers which contents an entry that ended `rejected` was refused for: of the paths that the answer names, or of all.
    pub(crate) fn note_refused(&self, entry: &LogEntry) -> Result<(), ClientError> {
        let Some(answer) = &entry.answer else { return Ok(()) };
        let named: BTreeSet<(TreePath, Option<u64>)> = answer
            .report
            .iter()
            .flatten()
            .filter_map(|difference| Some((difference.path.clone()?, difference.recorded_length)))
            .collect();
        let reason = answer.detail.clone().unwrap_or_else(|| "the server refused it".to_owned());
        let changes = self.lists(entry.number)?.changes;
        self.shared.db.write(|db| {
            for change in changes {
                let Some((length, hash)) = change.after.blob() else { continue };
                // What a run on new inputs would have made larger is no fault of what stands here.
                if named.is_empty() || named.contains(&(change.path.clone(), Some(length))) {
                    let refused = Refused { path: change.path, hash, reason: reason.clone() };
                    refused::add(db, &refused, entry.number)?;
                }
            }
            Ok(())
        })
    }

    /// What an entry was refused for is offered again by the next sync. `false`: there was nothing.
    pub(crate) fn offer_again(&self, number: u64) -> Result<bool, ClientError> {
        Ok(self.shared.db.write(|db| refused::forget(db, number))? > 0)
    }

    /// Does something stand at a path that was refused, and so is not what the index says?
    pub(crate) fn is_refused_at(&self, path: &TreePath) -> Result<bool, ClientError> {
        let refused = refused::at(&self.shared.db.read(), path)?;
        Ok(refused.is_some_and(|hash| self.content_at(path, &hash).is_some()))
    }

    /// Leaves what was refused out of what a walk found.
    pub(crate) fn leave_refused(&self, found: &mut Found) -> Result<(), ClientError> {
        let all = refused::all(&self.shared.db.read())?;
        for Refused { path, hash, reason } in all {
            if found.states.get(&path).and_then(|state| hash_of(state.node.as_ref())) == Some(hash) {
                found.states.remove(&path);
                found.unsupported.insert(path.to_string(), reason);
            }
        }
        Ok(())
    }
}

fn hash_of(node: Option<&Node>) -> Option<Hash> {
    match node {
        Some(Node::File { hash, .. }) => Some(*hash),
        _ => None,
    }
}
