//! What the program left in the folder, at the paths that the module writes.

use super::record::NotRecorded;
use super::source::NativeTree;
use crate::exchange::hash_at;
use crate::fs::is_racy;
use crate::tree::{Sight, View};
use crate::values::{State, States, node_of};
use crate::working_copy::Shared;
use crate::{ClientError, values};
use opship_record::answer::Reason;
use opship_record::effect::{After, Change};
use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use std::sync::Arc;

/// How often a path is looked at that changes meanwhile.
const TRIES: u32 = 3;

/// What the program did, said in the module's way.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The module's changes with the program's contents, modes and times.
    pub changes: Vec<Change>,
    /// What is at their paths.
    pub states: States,
    /// The paths whose contents are others than the module's.
    pub differing: Vec<TreePath>,
}

/// Compares what the module did with what is in the folder.
pub(super) fn compare(shared: &Arc<Shared>, tree: &NativeTree, predicted: &[Change]) -> Result<Done, NotRecorded> {
    let view = View::new(shared);
    let mut done = Done::default();
    for change in predicted {
        let state = state(shared, &view, &change.path)?;
        let after = after(tree, change, state.node.as_ref(), &mut done)?;
        done.changes.push(Change { after, ..change.clone() });
        done.states.insert(change.path.clone(), state);
    }
    Ok(done)
}

/// The module's state after with what is there in its place, if it is of the same kind.
fn after(tree: &NativeTree, change: &Change, node: Option<&Node>, done: &mut Done) -> Result<After, NotRecorded> {
    let otherwise = || {
        let found = node.map_or("nothing", |node| node.kind().name());
        let detail = format!("the module and the program do not do the same to '{}': {found} is there", change.path);
        NotRecorded::because(Reason::Diverged, detail)
    };
    Ok(match (&change.after, node) {
        (After::Removed, None) => After::Removed,
        (After::File { hash, .. }, Some(Node::File { mode, mtime, length, hash: found })) => {
            if hash != found {
                done.differing.push(change.path.clone());
            }
            After::File { length: *length, hash: *found, mode: Some(*mode), mtime: *mtime }
        }
        (After::Symlink { target, .. }, Some(Node::Symlink { mtime, target: found })) if target == found => {
            After::Symlink { target: target.clone(), mtime: *mtime }
        }
        (After::Directory { .. }, Some(Node::Directory { mode })) => After::Directory { mode: Some(*mode) },
        (After::Metadata { mode, mtime, .. }, Some(node)) => {
            let before = tree.seen(&change.path).map_err(ClientError::from)?.node;
            let same = before.filter(|before| before.content() == node.content());
            metadata(&same.ok_or_else(otherwise)?, node, *mode, *mtime).ok_or_else(otherwise)?
        }
        _ => return Err(otherwise()),
    })
}

/// What was set of mode and time: what the module sets, and what is another than before. `None`: nothing.
fn metadata(before: &Node, now: &Node, mode: Option<u16>, mtime: Option<i64>) -> Option<After> {
    let change = values::metadata(&TreePath::root(), before, now);
    let (set_mode, set_mtime) = match now {
        Node::File { mode: m, mtime: t, .. } => (mode.map(|_| *m), mtime.map(|_| *t)),
        Node::Directory { mode: m } => (mode.map(|_| *m), None),
        Node::Symlink { mtime: t, .. } => (None, mtime.map(|_| *t)),
    };
    let (mode, mtime) = (set_mode.or(change.after.mode()), set_mtime.or(change.after.mtime()));
    (mode.is_some() || mtime.is_some()).then_some(After::Metadata { kind: now.kind(), mode, mtime })
}

/// What is at a path now, its content hashed while it stays the same.
pub(super) fn state(shared: &Arc<Shared>, view: &View, path: &TreePath) -> Result<State, NotRecorded> {
    let failed = || ClientError::io(format!("reading '{path}'"));
    for _ in 0..TRIES {
        let visible = match view.look(path)? {
            Sight::Absent => return Ok(State { node: None, signature: None, racy: false }),
            Sight::Hidden(reason) | Sight::Broken(reason) => {
                let detail = format!("'{path}' is not synced: {reason}");
                return Err(NotRecorded::because(Reason::Policy, detail));
            }
            Sight::Visible(visible) => visible,
        };
        if visible.node.kind() != Kind::File {
            return Ok(State { node: node_of(&visible.node, None), signature: None, racy: false });
        }
        let known: Option<Hash> = visible.row.as_ref().filter(|_| visible.trusted).and_then(|row| row.hash());
        let hash = match known {
            Some(hash) => Some(hash),
            None => match hash_at(shared, path.as_str(), &visible.found) {
                Err(error) if crate::fs::is_absent(&error) => continue,
                hash => hash.map_err(failed())?,
            },
        };
        let signature = visible.found.signature;
        if shared.root.stat(path.as_str()).map_err(failed())? == Some(visible.found) {
            let racy = is_racy(&signature, visible.taken);
            return Ok(State { node: node_of(&visible.node, hash), signature: Some(signature), racy });
        }
    }
    Err(NotRecorded::because(Reason::InputsChanged, format!("'{path}' is still being written to")))
}
