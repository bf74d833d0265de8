//! Before a record is appended, what it names and the log does not hold becomes a value entry, and its bytes are kept.

use crate::ClientError;
use crate::check::touched;
use crate::db::{index, keep, waits};
use crate::fs::is_absent;
use crate::source::{Present, WorkingTree};
use crate::staging::{KEPT, kept_path};
use crate::tree::View;
use crate::values::{State, States, node_of, with_all_below};
use crate::working_copy::Shared;
use opship_record::effect::{After, Change, Origins};
use opship_record::node::Kind;
use opship_record::observation::Observation;
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a record needs besides itself.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// States of paths that the index does not hold as they are.
    pub states: States,
    /// Contents that are kept for the record.
    pub kept: BTreeSet<Hash>,
}

/// Gathers what a run saw and the log does not hold, and keeps its bytes, durably. `more`: further copies to keep, by
/// hash, with their paths below the root. The caller has the lock and has checked the run.
pub(crate) fn capture(
    shared: &Arc<Shared>,
    tree: &WorkingTree,
    lists: &Lists,
    more: &BTreeMap<Hash, String>,
) -> Result<Captured, ClientError> {
    let mut captured = Captured::default();
    let mut copies = more.clone();
    let displaced = displaced(lists);
    for path in paths(shared, lists)? {
        state_of(shared, tree, &path, displaced.contains(&path), &mut captured.states, &mut copies)?;
    }
    with_all_below(&shared.db.read(), &mut captured.states)?;
    for (hash, copy) in &copies {
        keep_copy(shared, hash, copy)?;
    }
    if !copies.is_empty() {
        shared.root.sync_directory(KEPT).map_err(ClientError::io("keeping copies in '.opship/kept'"))?;
    }
    captured.kept = copies.into_keys().collect();
    Ok(captured)
}

/// All paths that the record depends on, with what stands above them and what listings told.
fn paths(shared: &Arc<Shared>, lists: &Lists) -> Result<BTreeSet<TreePath>, ClientError> {
    let mut paths = touched(lists);
    let view = View::new(shared);
    for observation in &lists.observations {
        let Observation::Listing { path, .. } = observation else { continue };
        let mut rows: BTreeMap<String, Kind> = BTreeMap::new();
        for (child, row) in index::children(&shared.db.read(), path)? {
            if !row.synced && row.node.kind() == Kind::File {
                paths.insert(child.clone());
            }
            rows.insert(child.name().unwrap_or_default().to_owned(), row.node.kind());
        }
        for (name, kind) in view.list(path)?.names {
            if rows.remove(&name) != Some(kind) {
                paths.insert(path.join(&name).map_err(opship_record::Error::from)?);
            }
        }
        for name in rows.keys() {
            paths.insert(path.join(name).map_err(opship_record::Error::from)?);
        }
    }
    for change in &lists.changes {
        if let After::Moved { from, .. } = &change.after {
            let below = index::all_below(&shared.db.read(), from)?;
            paths.extend(below.into_iter().filter(|(_, row)| !row.synced).map(|(path, _)| path));
        }
    }
    let above: Vec<TreePath> =
        paths.iter().flat_map(|path| std::iter::successors(path.parent(), TreePath::parent)).collect();
    paths.extend(above);
    paths.remove(&TreePath::root());
    Ok(paths)
}

/// Files that the exchange takes away and holds until the verdict, so that they need no copy. Not those that the run
/// also observed: a program that has one open may still write to it.
fn displaced(lists: &Lists) -> BTreeSet<TreePath> {
    let origins = Origins::new(&lists.changes);
    let goes = |change: &&Change| !matches!(change.after, After::Metadata { .. } | After::Moved { .. });
    let mut paths: BTreeSet<TreePath> =
        lists.changes.iter().filter(goes).filter_map(|change| origins.of(&change.path)).collect();
    for observation in &lists.observations {
        paths.remove(observation.path());
    }
    paths
}

/// Is this a state that only unshipped values hold, read where it stands? An operation that uses it needs its bytes to
/// be kept: the file may be changed before its value entry is shipped, which can then not take another state.
fn is_only_in_values(shared: &Shared, present: &Present) -> Result<bool, ClientError> {
    let Some(row) = present.visible.row.as_ref().filter(|row| !row.synced) else { return Ok(false) };
    Ok(match row.hash() {
        // By the operation that made the state, or one before it: a later one may have made the same of these very bytes.
        Some(hash) => present.visible.trusted && !waits::is_produced(&shared.db.read(), &hash, row.entry + 1)?,
        None => false,
    })
}

fn state_of(
    shared: &Shared,
    tree: &WorkingTree,
    path: &TreePath,
    displaced: bool,
    states: &mut States,
    copies: &mut BTreeMap<Hash, String>,
) -> Result<(), ClientError> {
    let Some(mut present) = tree.present(path)? else {
        if index::get(&shared.db.read(), path)?.is_some() {
            states.insert(path.clone(), State { node: None, signature: None, racy: false });
        }
        return Ok(());
    };
    let is_file = present.visible.node.kind() == Kind::File;
    if is_file && (present.hash.is_none() || (!displaced && is_only_in_values(shared, &present)?)) {
        tree.content(path)?;
        present = tree.present(path)?.ok_or_else(|| ClientError::Changed { path: path.to_string() })?;
    }
    if let (Some(hash), Some(copy)) = (present.hash, &present.copy) {
        copies.insert(hash, copy.clone());
    }
    let node = node_of(&present.visible.node, present.hash);
    let known = present.visible.row.as_ref().is_some_and(|row| Some(&row.node) == node.as_ref());
    if present.visible.trusted || (known && !is_file) {
        return Ok(());
    }
    let signature = (is_file && !present.own).then_some(present.visible.found.signature);
    states.insert(path.clone(), State { node, signature, racy: present.is_racy() });
    Ok(())
}

/// Moves a copy from the staging folder to where contents are kept by hash.
pub(crate) fn keep_copy(shared: &Shared, hash: &Hash, copy: &str) -> Result<(), ClientError> {
    let keep = || -> std::io::Result<()> {
        let root = &shared.root;
        if root.stat(&kept_path(hash))?.is_some() {
            return Ok(());
        }
        let file = match root.open_file(copy) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        file.sync_all()?;
        root.rename(copy, &kept_path(hash))
    };
    keep().map_err(ClientError::io("keeping a copy in '.opship/kept'"))
}

/// Notes for which entries contents are kept.
pub(crate) fn note_kept(
    db: &Connection,
    captured: &Captured,
    value: Option<u64>,
    operation: u64,
) -> Result<(), ClientError> {
    for hash in &captured.kept {
        keep::keep(db, hash, operation)?;
        if let Some(value) = value {
            keep::keep(db, hash, value)?;
        }
    }
    Ok(())
}
