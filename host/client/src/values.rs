//! Value entries: changes by other means than an operation.

use crate::ClientError;
use crate::cut::Limits;
use crate::db::index::{self, Row};
use crate::db::log::{self, NewEntry};
use crate::db::waits;
use crate::fs::Signature;
use crate::identity::Identity;
use crate::left;
use crate::log::EntryState;
use opship_record::TreePath;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, BodyKind, Value};
use opship_record::node::{Kind, Node};
use opship_record::record::Lists;
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// The state; `None`: nothing.
    pub node: Option<Node>,
    /// The file's signature when it had this state; `None` if that is not known.
    pub signature: Option<Signature>,
    /// Was it taken too soon after the file's last change?
    pub racy: bool,
}

/// States by path.
pub(crate) type States = BTreeMap<TreePath, State>;

/// The changes that bring the index to these states, sorted. The states of a path that goes or becomes no directory
/// must name all rows below it too ([`with_all_below`]).
pub(crate) fn changes(db: &Connection, states: &States) -> Result<Vec<Change>, ClientError> {
    let mut changes = Vec::new();
    let mut folders = HashMap::new();
    for (path, state) in states {
        let row = index::get(db, path)?;
        let change = match (row, &state.node) {
            (None, None) => continue,
            (Some(row), Some(node)) if row.node == *node => continue,
            (Some(row), None) => Change { path: path.clone(), before: before(&row), after: After::Removed },
            (None, Some(node)) => {
                let before = absent_below(db, path, &mut folders)?;
                Change { path: path.clone(), before, after: after(node) }
            }
            (Some(row), Some(node)) if row.node.content() == node.content() => metadata(path, &row.node, node),
            (Some(row), Some(node)) => Change { path: path.clone(), before: before(&row), after: after(node) },
        };
        changes.push(change);
    }
    Ok(changes)
}

/// Adds the removal of every row below those paths that are no directories any more.
pub(crate) fn with_all_below(db: &Connection, states: &mut States) -> Result<(), ClientError> {
    let gone = |state: &State| !matches!(state.node, Some(Node::Directory { .. }));
    let gone: Vec<TreePath> = states.iter().filter(|(_, state)| gone(state)).map(|(path, _)| path.clone()).collect();
    for path in gone {
        for (below, _) in index::all_below(db, &path)? {
            states.insert(below, State { node: None, signature: None, racy: false });
        }
    }
    Ok(())
}

fn before(row: &Row) -> Before {
    Before::of(&row.node.content())
}

/// The state before of a path that the index does not hold.
pub(crate) fn absent(db: &Connection, path: &TreePath) -> Result<Before, ClientError> {
    absent_where(path, &mut |path| Ok(index::kind(db, path)?))
}

/// The state before of a path that the index holds, in the tree without it.
pub(crate) fn absent_but_for(db: &Connection, path: &TreePath) -> Result<Before, ClientError> {
    absent_below(db, path, &mut HashMap::new())
}

/// As [`absent`], for many paths: what is above them is asked for once.
fn absent_below(
    db: &Connection,
    path: &TreePath,
    folders: &mut HashMap<TreePath, Option<Kind>>,
) -> Result<Before, ClientError> {
    absent_where(path, &mut |at| {
        if at == path {
            return Ok(None);
        }
        if let Some(known) = folders.get(at) {
            return Ok(*known);
        }
        let kind = index::kind(db, at)?;
        folders.insert(at.clone(), kind);
        Ok(kind)
    })
}

/// The state before of a path that is not in the tree whose kinds `kind_at` tells.
fn absent_where(
    path: &TreePath,
    kind_at: &mut dyn FnMut(&TreePath) -> Result<Option<Kind>, ClientError>,
) -> Result<Before, ClientError> {
    let mut components: Vec<TreePath> = std::iter::successors(Some(path.clone()), TreePath::parent).collect();
    components.pop();
    let mut above = Kind::Directory;
    for path in components.iter().rev() {
        match kind_at(path)? {
            Some(kind) if above == Kind::Directory => above = kind,
            _ => return Ok(Before::Absent { missing: path.clone(), above }),
        }
    }
    Ok(Before::Absent { missing: path.clone(), above })
}

/// The state after, all metadata set.
pub(crate) fn after(node: &Node) -> After {
    match node {
        Node::File { mode, mtime, length, hash } => {
            After::File { length: *length, hash: *hash, mode: Some(*mode), mtime: *mtime }
        }
        Node::Directory { mode } => After::Directory { mode: Some(*mode) },
        Node::Symlink { mtime, target } => After::Symlink { target: target.clone(), mtime: *mtime },
    }
}

/// The change of mode and time from one state to another of the same content.
pub(crate) fn metadata(path: &TreePath, old: &Node, new: &Node) -> Change {
    let kind = new.kind();
    let parts = |node: &Node| match node {
        Node::File { mode, mtime, .. } => (Some(*mode), Some(*mtime)),
        Node::Directory { mode } => (Some(*mode), None),
        Node::Symlink { mtime, .. } => (None, Some(*mtime)),
    };
    let ((old_mode, old_mtime), (mode, mtime)) = (parts(old), parts(new));
    let (mode, mtime) = (mode.filter(|m| Some(*m) != old_mode), mtime.filter(|m| Some(*m) != old_mtime));
    Change { path: path.clone(), before: Before::Kind { kind }, after: After::Metadata { kind, mode, mtime } }
}

/// Brings the index to these states by one value entry, whatever their number, and gives its number; `None` if there is
/// nothing to change. An unsent value entry that nobody waits for takes the changes in, where nothing in between stands
/// against it and it stays within the limits of [`crate::cut`].
pub(crate) fn append(db: &Connection, states: &States) -> Result<Option<u64>, ClientError> {
    let new = changes(db, states)?;
    let number = match new.is_empty() {
        true => None,
        false => Some(match mergeable(db, &new)? {
            Some((number, merged)) => {
                log::rewrite_value(db, number, &merged, &summary(&merged), value_bytes(&merged), None)?;
                number
            }
            None => insert(db, &new)?,
        }),
    };
    for (path, state) in states {
        update_row(db, path, state, number)?;
    }
    Ok(number)
}

/// A new value entry of these changes; gives its number.
pub(crate) fn insert(db: &Connection, changes: &[Change]) -> Result<u64, ClientError> {
    let lists = Lists { changes: changes.to_vec(), ..Lists::default() };
    let entry = NewEntry {
        body: &Body::Value(Value::new(changes)),
        lists: &lists,
        command: &summary(changes),
        value_bytes: value_bytes(changes),
        state: EntryState::Pending,
        run_micros: None,
    };
    log::append(db, &Identity::client(db)?, &entry)
}

fn update_row(db: &Connection, path: &TreePath, state: &State, number: Option<u64>) -> Result<(), ClientError> {
    let Some(node) = &state.node else { return Ok(index::remove(db, path)?) };
    let known = index::get(db, path)?.filter(|row| row.node == *node);
    let (synced, entry) = match (&known, number) {
        (Some(row), _) => (row.synced, row.entry),
        (None, number) => (false, number.unwrap_or(0)),
    };
    let row = Row { node: node.clone(), signature: state.signature, racy: state.racy, synced, entry };
    Ok(index::put(db, path, &row)?)
}

/// The newest value entry, with its changes and these together, if it may still be changed.
fn mergeable(db: &Connection, new: &[Change]) -> Result<Option<(u64, Vec<Change>)>, ClientError> {
    let Some(candidate) = log::newest_pending(db, BodyKind::Value)? else { return Ok(None) };
    if candidate.sent
        || candidate.is_parked()
        || candidate.reason_of_value()?.is_some()
        || candidate.client != Identity::client(db)?
        || waits::is_waited_for(db, candidate.number)?
    {
        return Ok(None);
    }
    let lists = Lists { changes: new.to_vec(), ..Lists::default() };
    if waits::newest_wait(db, &lists, candidate.number)?.is_some_and(|waited| waited > candidate.number) {
        return Ok(None);
    }
    // All may cancel out: then the entry stays, empty, since its number is taken.
    let old = log::lists(db, candidate.number)?.changes;
    if !left::may_take(db, &candidate, &old, new)? {
        return Ok(None);
    }
    let paths = old.len();
    let merged = merge(db, old, new)?;
    // A file that is written again and again stays one change, however large it is.
    let fits = merged.len() <= paths || Limits::of(db)?.allow(&merged);
    Ok(fits.then_some((candidate.number, merged)))
}

/// Two lists of changes, one after the other, as one. Neither has moves.
fn merge(db: &Connection, old: Vec<Change>, new: &[Change]) -> Result<Vec<Change>, ClientError> {
    let mut merged: BTreeMap<TreePath, Change> = old.into_iter().map(|c| (c.path.clone(), c)).collect();
    let earlier = merged.clone();
    for change in new {
        let next = match earlier.get(&change.path) {
            None => Change { before: before_first(db, &earlier, change)?, ..change.clone() },
            Some(first) => one_after_other(first, change),
        };
        match (&next.before, &next.after) {
            (Before::Absent { .. }, After::Removed) => merged.remove(&next.path),
            _ => merged.insert(next.path.clone(), next),
        };
    }
    Ok(merged.into_values().collect())
}

/// Two changes of one path as one.
pub(crate) fn one_after_other(first: &Change, second: &Change) -> Change {
    let before = match &first.before {
        // Its content was left alone, so what the second saw was there before the first too.
        Before::Kind { .. } => second.before.clone(),
        before => before.clone(),
    };
    let after = match (&first.after, &second.after) {
        (After::File { length, hash, mode, mtime }, After::Metadata { mode: m, mtime: t, .. }) => {
            After::File { length: *length, hash: *hash, mode: m.or(*mode), mtime: t.unwrap_or(*mtime) }
        }
        (After::Directory { mode }, After::Metadata { mode: m, .. }) => After::Directory { mode: m.or(*mode) },
        (After::Symlink { target, mtime }, After::Metadata { mtime: t, .. }) => {
            After::Symlink { target: target.clone(), mtime: t.unwrap_or(*mtime) }
        }
        (After::Metadata { mode, mtime, .. }, After::Metadata { kind, mode: m, mtime: t }) => {
            After::Metadata { kind: *kind, mode: m.or(*mode), mtime: t.or(*mtime) }
        }
        (_, after) => after.clone(),
    };
    Change { path: first.path.clone(), before, after }
}

/// The state before of a path that only the second list names, in the tree before the first.
fn before_first(db: &Connection, earlier: &BTreeMap<TreePath, Change>, change: &Change) -> Result<Before, ClientError> {
    if !matches!(change.before, Before::Absent { .. }) {
        return Ok(change.before.clone());
    }
    absent_where(&change.path, &mut |path| match earlier.get(path).map(|c| &c.before) {
        Some(Before::Absent { .. }) => Ok(None),
        Some(Before::File { .. }) => Ok(Some(Kind::File)),
        Some(Before::Symlink { .. }) => Ok(Some(Kind::Symlink)),
        Some(Before::Directory) => Ok(Some(Kind::Directory)),
        Some(Before::Kind { kind }) => Ok(Some(*kind)),
        None => Ok(index::kind(db, path)?),
    })
}

/// The content bytes that a list writes.
pub(crate) fn value_bytes(changes: &[Change]) -> u64 {
    changes.iter().filter_map(|change| change.after.blob()).map(|(length, _)| length).sum()
}

/// For people: what a list changes.
pub(crate) fn summary(changes: &[Change]) -> String {
    match changes {
        [only] => format!("changed {}", only.path),
        [first, rest @ ..] => format!("changed {} and {} more", first.path, rest.len()),
        [] => "no changes".to_owned(),
    }
}

/// The node that a found path has, with its hash where it is a file.
pub(crate) fn node_of(source: &opship_world::SourceNode, hash: Option<opship_record::Hash>) -> Option<Node> {
    use opship_world::SourceNode;
    Some(match source {
        SourceNode::File { mode, mtime, length } => {
            Node::File { mode: *mode, mtime: *mtime, length: *length, hash: hash? }
        }
        SourceNode::Directory { mode } => Node::Directory { mode: *mode },
        SourceNode::Symlink { mtime, target } => Node::Symlink { mtime: *mtime, target: target.clone() },
    })
}
