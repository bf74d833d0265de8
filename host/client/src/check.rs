//! After a run, under the lock: is all that it saw still so?

use crate::ClientError;
use crate::exchange::hash_at;
use crate::source::{Present, Seen, WorkingTree};
use crate::tree::{Sight, View, Visible};
use crate::working_copy::Shared;
use opship_record::TreePath;
use opship_record::effect::{After, Before, Change, Origins};
use opship_record::node::Kind;
use opship_record::observation::{Observation, listing_digest};
use opship_record::record::Lists;
use opship_world::SourceNode;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Checks every observed and overwritten path against what the run saw. The caller has the lock.
///
/// # Errors
/// [`ClientError::Changed`] if something changed: the run may be repeated. [`ClientError::InTheWay`] and
/// [`ClientError::ReadOnly`] if it could not be applied whole.
pub(crate) fn check(shared: &Arc<Shared>, tree: &WorkingTree, lists: &Lists) -> Result<(), ClientError> {
    let view = View::new(shared);
    let mut place = Places { view: &view, shared, looked_at: touched(lists), hidden: BTreeMap::new(), writable: None };
    for path in &place.looked_at {
        if !is_unchanged(shared, tree, &view, path, &mut place.hidden)? {
            return Err(ClientError::Changed { path: path.to_string() });
        }
    }
    for observation in &lists.observations {
        if let Observation::Listing { path, digest } = observation {
            let names = view.list(path)?.names;
            if listing_digest(names.iter().map(|(name, kind)| (name.as_str(), *kind))) != *digest {
                return Err(ClientError::Changed { path: path.to_string() });
            }
        }
    }
    let origins = Origins::new(&lists.changes);
    lists.changes.iter().try_for_each(|change| place.check(&origins, change))
}

/// The paths, in the tree before, that the run depended on or wrote.
pub(crate) fn touched(lists: &Lists) -> BTreeSet<TreePath> {
    let origins = Origins::new(&lists.changes);
    let mut paths: BTreeSet<TreePath> = lists.observations.iter().map(|o| o.path().clone()).collect();
    paths.extend(lists.observations.iter().filter_map(|observation| match observation {
        Observation::Absent { missing, .. } => Some(missing.clone()),
        _ => None,
    }));
    for change in &lists.changes {
        paths.extend(origins.of(&change.path));
        if let Before::Absent { missing, .. } = &change.before {
            paths.extend(origins.of(missing));
        }
        if let After::Moved { from, .. } = &change.after {
            paths.insert(from.clone());
        }
    }
    paths
}

fn is_unchanged(
    shared: &Shared,
    tree: &WorkingTree,
    view: &View,
    path: &TreePath,
    hidden: &mut BTreeMap<TreePath, String>,
) -> Result<bool, ClientError> {
    let seen = match tree.seen(path) {
        Some(seen) => seen,
        // Looked at for the first time: remembered for capture, and nothing to compare with.
        None => {
            tree.present(path)?;
            if let Sight::Hidden(reason) = view.look(path)? {
                hidden.insert(path.clone(), reason);
            }
            return Ok(true);
        }
    };
    match (seen, view.look(path)?) {
        (Seen::Absent, Sight::Absent) => Ok(true),
        (Seen::Absent, Sight::Hidden(reason)) => {
            hidden.insert(path.clone(), reason);
            Ok(true)
        }
        (Seen::Present(present), Sight::Visible(now)) => is_same(shared, path, &present, &now),
        _ => Ok(false),
    }
}

fn is_same(shared: &Shared, path: &TreePath, present: &Present, now: &Visible) -> Result<bool, ClientError> {
    let same_file = present.visible.found.signature == now.found.signature;
    match (&present.visible.node, &now.node) {
        (SourceNode::File { .. }, SourceNode::File { .. }) if present.own => Ok(true),
        (SourceNode::File { .. }, SourceNode::File { .. }) => {
            let looks_same = same_file || present.visible.node == now.node;
            if !looks_same || (same_file && !present.is_racy()) {
                return Ok(looks_same);
            }
            let Some(hash) = present.hash else { return Ok(true) };
            let found = hash_at(shared, path.as_str(), &now.found);
            Ok(found.map_err(ClientError::io(format!("reading '{path}'")))? == Some(hash))
        }
        (seen, now) => Ok(seen == now),
    }
}

/// The places that a run writes to.
struct Places<'a> {
    view: &'a View,
    shared: &'a Shared,
    looked_at: BTreeSet<TreePath>,
    /// What of that is there and was not shown, with the reason.
    hidden: BTreeMap<TreePath, String>,
    /// The folder that was last found to take files.
    writable: Option<TreePath>,
}

impl Places<'_> {
    /// Can the change be applied? Nothing that the world did not show may stand where it writes.
    fn check(&mut self, origins: &Origins<'_>, change: &Change) -> Result<(), ClientError> {
        if matches!(change.after, After::Metadata { .. }) {
            return Ok(());
        }
        let place = origins.of(&change.path).unwrap_or_else(|| change.path.clone());
        if matches!(change.before, Before::Absent { .. })
            && let Some(reason) = self.hidden_at(&place)?
        {
            let found = self.shared.root.stat(place.as_str());
            let found = found.map_err(ClientError::io(format!("looking at '{place}'")))?;
            let is_directory = found.is_some_and(|found| found.kind == Some(Kind::Directory));
            if !(is_directory && matches!(change.after, After::Directory { .. })) {
                return Err(ClientError::InTheWay { path: place, reason });
            }
        }
        let folder = place.parent();
        if folder.is_some() && self.writable == folder {
            return Ok(());
        }
        match self.shared.root.check_parent_writable(place.as_str()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied || is_read_only(&error) => {
                return Err(ClientError::ReadOnly { path: place, error });
            }
            // A folder that the run itself makes, or one that takes files.
            _ => self.writable = folder,
        }
        Ok(())
    }

    fn hidden_at(&self, place: &TreePath) -> Result<Option<String>, ClientError> {
        if self.looked_at.contains(place) {
            return Ok(self.hidden.get(place).cloned());
        }
        match self.view.look(place)? {
            Sight::Hidden(reason) => Ok(Some(reason)),
            _ => Ok(None),
        }
    }
}

fn is_read_only(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ReadOnlyFilesystem
}
