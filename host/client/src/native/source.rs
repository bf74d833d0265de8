//! The tree that the module runs on: as it was when the program started, as far as the log and the capture tell.
//!
//! A captured path is as it was captured. Of any other, what was not touched since the start is as it is, and what was
//! touched is as the log has it. So the tree is the log's with some changes that no entry has yet, and these become a value
//! entry before the operation.

use super::capture::{Captured, Start};
use crate::db::index::{self, Row};
use crate::exchange::hash_at;
use crate::fs::{KeptContent, LiveContent, Signature, changed, is_racy, unreadable};
use crate::source::{content_of, signature_of};
use crate::tree::{Sight, View, Visible};
use crate::values::{State, node_of};
use crate::working_copy::Shared;
use crate::{ClientError, source};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind, Node};
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, SourceError, SourceNode, TreeSource};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// How much older than the start a file's last change must be: the kernel's clock for files ticks every 1 to 10 ms.
const GRANULARITY: i64 = 20_000_000;

/// The tree before a native run.
pub(super) struct NativeTree {
    shared: Arc<Shared>,
    view: View,
    time: i64,
    captured: BTreeMap<TreePath, Captured>,
    held: BTreeMap<TreePath, File>,
    shown: Mutex<Shown>,
}

/// What was shown, so that it stays as it was shown, and to be compared with the log afterwards.
#[derive(Default)]
struct Shown {
    paths: BTreeMap<TreePath, Seen>,
    /// The names that the index had in listed directories.
    listed: BTreeMap<TreePath, BTreeSet<TreePath>>,
}

/// What was shown of a path.
#[derive(Clone)]
pub(super) struct Seen {
    /// What was there before the run, hash included.
    pub node: Option<Node>,
    /// What the index held.
    pub row: Option<Row>,
    /// What no entry has yet.
    pub pending: Option<State>,
    bytes: Bytes,
}

/// Where the bytes of a file are.
#[derive(Clone, Copy)]
enum Bytes {
    /// Held since before the start.
    Held,
    /// In the folder, with this signature.
    Live(Signature),
    /// Wherever the log's contents are, if they are anywhere.
    Log,
}

impl NativeTree {
    pub(super) fn new(
        shared: &Arc<Shared>,
        start: &Start,
        held: &BTreeMap<TreePath, File>,
    ) -> Result<NativeTree, ClientError> {
        let copies = held.iter().map(|(path, file)| Ok((path.clone(), file.try_clone()?)));
        let held = copies.collect::<std::io::Result<_>>().map_err(ClientError::io("using what was captured"))?;
        Ok(NativeTree {
            shared: shared.clone(),
            view: View::new(shared),
            time: start.time,
            captured: start.states.iter().map(|state| (state.path.clone(), state.clone())).collect(),
            held,
            shown: Mutex::default(),
        })
    }

    /// All that was shown, by path.
    pub(super) fn shown(&self) -> BTreeMap<TreePath, Seen> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).paths.clone()
    }

    /// The names that the index had in the directories that were listed.
    pub(super) fn listed(&self) -> BTreeMap<TreePath, BTreeSet<TreePath>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).listed.clone()
    }

    /// What was at a path before the run.
    pub(super) fn seen(&self, path: &TreePath) -> Result<Seen, SourceError> {
        if let Some(seen) = self.shown.lock().unwrap_or_else(PoisonError::into_inner).paths.get(path) {
            return Ok(seen.clone());
        }
        let row = if path.is_root() { None } else { self.row(path)? };
        let nothing = |row| Seen { node: None, row, pending: None, bytes: Bytes::Log };
        let seen = match path.parent() {
            None => Seen { node: Some(Node::Directory { mode: DEFAULT_DIRECTORY_MODE }), ..nothing(None) },
            Some(parent) if !matches!(self.seen(&parent)?.node, Some(Node::Directory { .. })) => nothing(row),
            Some(_) => match self.captured.get(path) {
                Some(captured) => self.captured(path, captured, row)?,
                None => self.uncaptured(path, row)?,
            },
        };
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).paths.insert(path.clone(), seen.clone());
        Ok(seen)
    }

    fn row(&self, path: &TreePath) -> Result<Option<Row>, SourceError> {
        index::get(&self.shared.db.read(), path).map_err(|error| failed(path, &error))
    }

    fn captured(&self, path: &TreePath, captured: &Captured, row: Option<Row>) -> Result<Seen, SourceError> {
        let bytes = if self.held.contains_key(path) { Bytes::Held } else { Bytes::Live(captured.signature()) };
        let node = match &captured.node {
            Some(Node::File { mode, mtime, length, .. }) => {
                let hash = match captured.hash() {
                    Some(hash) => hash,
                    None => self.hash_now(path, captured)?,
                };
                Some(Node::File { mode: *mode, mtime: *mtime, length: *length, hash })
            }
            other => other.clone(),
        };
        let in_log = row.as_ref().map(|row| &row.node);
        if node.as_ref() == in_log {
            return Ok(Seen { node, row, pending: None, bytes });
        }
        // Otherwise somebody recorded another state meanwhile.
        if captured.row.as_ref() != in_log {
            return Err(changed(path.as_str()));
        }
        let is_file = matches!(node, Some(Node::File { .. }));
        let signature = captured.signature();
        let racy = is_racy(&signature, captured.taken);
        let pending = State { node: node.clone(), signature: is_file.then_some(signature), racy };
        Ok(Seen { node, row, pending: Some(pending), bytes })
    }

    /// The hash of a file that was too large to be copied at the start.
    fn hash_now(&self, path: &TreePath, captured: &Captured) -> Result<Hash, SourceError> {
        let file = self.original(path, captured)?;
        let hashed = source::hash_file(&file).map_err(|error| unreadable(path.as_str(), &error))?;
        self.original(path, captured).map(|_| hashed.1)
    }

    /// The file itself, unwritten since it was captured.
    fn original(&self, path: &TreePath, captured: &Captured) -> Result<File, SourceError> {
        let file = match self.held.get(path) {
            Some(held) => held.try_clone(),
            None => self.shared.root.open_file(path.as_str()),
        };
        let file = file.map_err(|error| lost(path, &error))?;
        let now = signature_of(&file).map_err(|error| unreadable(path.as_str(), &error))?;
        match now.is_same_file(&captured.signature()) {
            true => Ok(file),
            false => Err(lost(path, &"it was written into in place, and is too large to be copied before each run")),
        }
    }

    fn uncaptured(&self, path: &TreePath, row: Option<Row>) -> Result<Seen, SourceError> {
        let as_logged = |row: Option<Row>, bytes| Seen {
            node: row.as_ref().map(|row| row.node.clone()),
            row,
            pending: None,
            bytes,
        };
        let sight = self.view.look_with(path, row.clone()).map_err(|error| failed(path, &error))?;
        match sight {
            Sight::Visible(visible) if visible.trusted => Ok(as_logged(row, Bytes::Live(visible.found.signature))),
            Sight::Visible(visible) if visible.found.signature.ctime.saturating_add(GRANULARITY) < self.time => {
                self.untouched(path, &visible, row)
            }
            Sight::Broken(reason) => Err(lost(path, &reason)),
            Sight::Visible(_) | Sight::Absent | Sight::Hidden(_) => Ok(as_logged(row, Bytes::Log)),
        }
    }

    /// A path that the program left alone and that the index does not prove.
    fn untouched(&self, path: &TreePath, visible: &Visible, row: Option<Row>) -> Result<Seen, SourceError> {
        let signature = visible.found.signature;
        let is_file = visible.node.kind() == Kind::File;
        let hash = match is_file {
            true => hash_at(&self.shared, path.as_str(), &visible.found)
                .map_err(|error| unreadable(path.as_str(), &error))?,
            false => None,
        };
        let node = node_of(&visible.node, hash);
        let known = node.as_ref() == row.as_ref().map(|row| &row.node);
        let state = State {
            node: node.clone(),
            signature: is_file.then_some(signature),
            racy: is_racy(&signature, visible.taken),
        };
        Ok(Seen { node, row, pending: (!known).then_some(state), bytes: Bytes::Live(signature) })
    }

    /// The content of a file as it was before the run.
    pub(super) fn content(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let seen = self.seen(path)?;
        let Some(Node::File { length, hash, .. }) = seen.node else {
            return Err(failed(path, &"it is no file"));
        };
        let shown = path.to_string();
        match seen.bytes {
            Bytes::Held => {
                let captured = self.captured.get(path).ok_or_else(|| failed(path, &"it was not captured"))?;
                let file = match (captured.copied, self.held.get(path)) {
                    (true, Some(copy)) => copy.try_clone().map_err(|error| unreadable(&shown, &error))?,
                    _ => self.original(path, captured)?,
                };
                Ok(Arc::new(KeptContent { file, length, hash, path: shown }))
            }
            Bytes::Live(signature) => {
                let file = self.shared.root.open_file(path.as_str()).map_err(|error| lost(path, &error))?;
                let now = signature_of(&file).map_err(|error| unreadable(&shown, &error))?;
                // A file that was only renamed away is not here; one that was linked or renamed back has another ctime.
                match now.is_same_file(&signature) {
                    true => Ok(Arc::new(LiveContent { file, signature: now, hash, path: shown })),
                    false => Err(lost(path, &"the program wrote to it, and too much was to be captured before")),
                }
            }
            Bytes::Log => {
                let here = content_of(&self.shared, &hash).map_err(|error| failed(path, &error))?;
                Ok(here.unwrap_or_else(|| Arc::new(Lost { path: path.clone(), length, hash })))
            }
        }
    }
}

impl TreeSource for NativeTree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        Ok(self.seen(path)?.node.map(SourceNode::from))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let children = index::children(&self.shared.db.read(), path).map_err(|error| failed(path, &error))?;
        let logged: BTreeSet<TreePath> = children.into_iter().map(|(child, _)| child).collect();
        let mut all = logged.clone();
        all.extend(self.captured.keys().filter(|child| child.parent().as_ref() == Some(path)).cloned());
        // A directory that is gone has what the log and the capture say.
        for (name, _) in self.view.list(path).map(|listing| listing.names).unwrap_or_default() {
            all.extend(path.join(&name));
        }
        let mut names = Vec::new();
        for child in all {
            if let (Some(node), Some(name)) = (self.seen(&child)?.node, child.name()) {
                names.push((name.to_owned(), node.kind()));
            }
        }
        names.sort_unstable();
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).listed.insert(path.clone(), logged);
        Ok(names)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        self.content(path)
    }
}

/// A content of which only the hash is known: enough for a file that is overwritten unread.
struct Lost {
    path: TreePath,
    length: u64,
    hash: Hash,
}

impl FileContent for Lost {
    fn length(&self) -> u64 {
        self.length
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(self.hash)
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize, SourceError> {
        Err(lost(&self.path, &"the program changed it, and no argument names it; name it among the program's 'inputs'"))
    }
}

fn failed(path: &TreePath, detail: &dyn std::fmt::Display) -> SourceError {
    SourceError { path: path.to_string(), detail: detail.to_string(), changed: false }
}

/// What was there before the run is not at hand.
fn lost(path: &TreePath, why: &dyn std::fmt::Display) -> SourceError {
    let detail = format!("what it was before the program ran is gone: {why}");
    SourceError { path: path.to_string(), detail, changed: false }
}
