//! Finding what was changed by other means than an operation.

use crate::db::index::{self, Row};
use crate::exchange::hash_at;
use crate::fs::{is_racy, now_nanos};
use crate::tree::{Sight, View, Visible};
use crate::values::{self, State, States, node_of};
use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use opship_record::effect::Change;
use opship_record::node::{Kind, Node};
use std::collections::BTreeMap;
use std::io;

/// Something in the folder that cannot be synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// Its path for people; names that are not UTF-8 are shown with replacement characters.
    pub path: String,
    /// Why, and so what to do.
    pub reason: String,
}

/// How the folder differs from the index.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The differences, sorted by path, with the index's states before.
    pub changes: Vec<Change>,
    /// What cannot be synced.
    pub unsupported: Vec<Unsupported>,
    pub(crate) states: States,
}

/// Is this state of a path wanted?
pub(crate) type Takes<'a> = dyn FnMut(&TreePath, Option<&Node>) -> Result<bool, ClientError> + 'a;

impl WorkingCopy {
    /// Compares the folder with the index: size, times and inode first, by hash when in doubt.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn scan(&self) -> Result<Scan, ClientError> {
        let _lock = self.lock()?;
        let scan = self.walk(&TreePath::root())?;
        // What is as the index says is remembered by its new signature, so that it is not read again.
        self.shared.db.write(|db| {
            for (path, state) in &scan.states {
                if let (Some(signature), Some(row)) = (&state.signature, index::get(db, path)?)
                    && Some(&row.node) == state.node.as_ref()
                {
                    index::refresh(db, path, signature, state.racy)?;
                }
            }
            Ok::<_, ClientError>(())
        })?;
        Ok(scan)
    }

    /// Compares the folder with the index and makes a value entry of the differences. Gives its number; `None` if there
    /// are none. Differences that no other entry needs go into an unsent value entry that is there already.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`].
    pub fn append_changes(&self) -> Result<(Scan, Option<u64>), ClientError> {
        let _lock = self.lock()?;
        self.append_found()
    }

    /// As [`WorkingCopy::append_changes`], leaving alone what `takes` does not want: it stays a change of the folder.
    ///
    /// # Errors
    /// As [`WorkingCopy::append_changes`].
    pub(crate) fn append_changes_if(&self, takes: &mut Takes<'_>) -> Result<(), ClientError> {
        let _lock = self.lock()?;
        let mut states = States::new();
        for (path, state) in self.walk(&TreePath::root())?.states {
            if takes(&path, state.node.as_ref())? {
                states.insert(path, state);
            }
        }
        self.shared.db.write(|db| values::append(db, &states))?;
        Ok(())
    }

    /// As [`WorkingCopy::append_changes`]; the caller has the lock.
    pub(crate) fn append_found(&self) -> Result<(Scan, Option<u64>), ClientError> {
        let scan = self.walk(&TreePath::root())?;
        let number = self.shared.db.write(|db| values::append(db, &scan.states))?;
        Ok((scan, number))
    }

    fn walk(&self, from: &TreePath) -> Result<Scan, ClientError> {
        let rows: BTreeMap<TreePath, Row> = index::all_below(&self.shared.db.read(), from)?.into_iter().collect();
        let mut walk = Walk { copy: self, view: View::new(&self.shared), rows, scan: Scan::default() };
        walk.directory(from)?;
        let Walk { rows: gone, mut scan, .. } = walk;
        for path in gone.into_keys() {
            scan.states.insert(path, State { node: None, signature: None, racy: false });
        }
        let mut kept: Vec<TreePath> = Vec::new();
        for unsupported in &scan.unsupported {
            kept.extend(TreePath::new(unsupported.path.clone()).ok());
        }
        // What is in the version and cannot be read stays in it, with all below.
        scan.states.retain(|path, state| state.node.is_some() || !kept.iter().any(|kept| path.starts_with(kept)));
        scan.changes = values::changes(&self.shared.db.read(), &scan.states)?;
        Ok(scan)
    }
}

struct Walk<'a> {
    copy: &'a WorkingCopy,
    view: View,
    /// The rows not met so far.
    rows: BTreeMap<TreePath, Row>,
    scan: Scan,
}

impl Walk<'_> {
    fn directory(&mut self, path: &TreePath) -> Result<(), ClientError> {
        let listing = match self.view.list(path) {
            Ok(listing) => listing,
            Err(ClientError::Io { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unsupported(path, &format!("unreadable ({error})"));
                return Ok(());
            }
            Err(ClientError::Io { error, .. }) if crate::fs::is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for (path, reason) in listing.unsupported {
            self.scan.unsupported.push(Unsupported { path, reason });
        }
        for (name, _) in listing.names {
            let child = path.join(&name).map_err(opship_record::Error::from)?;
            self.path(&child)?;
        }
        Ok(())
    }

    fn path(&mut self, path: &TreePath) -> Result<(), ClientError> {
        let row = self.rows.remove(path);
        match self.view.look_with(path, row.clone())? {
            Sight::Visible(visible) => {
                let is_directory = visible.node.kind() == Kind::Directory;
                if !visible.trusted {
                    self.untrusted(path, &visible, row)?;
                }
                if is_directory {
                    self.directory(path)?;
                }
            }
            // In the index, so it was listed although it cannot be read; the listing has told why.
            Sight::Broken(reason) => self.unsupported(path, &reason),
            Sight::Absent | Sight::Hidden(_) => {
                if let Some(row) = row {
                    self.rows.insert(path.clone(), row);
                }
            }
        }
        Ok(())
    }

    fn unsupported(&mut self, path: &TreePath, reason: &str) {
        let item = Unsupported { path: path.to_string(), reason: reason.to_owned() };
        if !self.scan.unsupported.iter().any(|known| known.path == item.path) {
            self.scan.unsupported.push(item);
        }
    }

    fn untrusted(&mut self, path: &TreePath, visible: &Visible, row: Option<Row>) -> Result<(), ClientError> {
        let SourceState::Known(state) = self.state(path, visible)? else {
            self.unsupported(path, "it is being written to; it is taken up when it is quiet");
            return Ok(());
        };
        let is_file = matches!(state.node, Some(Node::File { .. }));
        if is_file || row.map(|row| row.node) != state.node {
            self.scan.states.insert(path.clone(), state);
        }
        Ok(())
    }

    /// The state of a path, the content hashed while it stays the same.
    fn state(&self, path: &TreePath, visible: &Visible) -> Result<SourceState, ClientError> {
        if visible.node.kind() != Kind::File {
            let node = node_of(&visible.node, None);
            return Ok(SourceState::Known(State { node, signature: None, racy: false }));
        }
        let failed = || ClientError::io(format!("reading '{path}'"));
        let shared = &self.copy.shared;
        for _ in 0..3 {
            let taken = now_nanos();
            let Some(before) = shared.root.stat(path.as_str()).map_err(failed())? else { break };
            let hash = match hash_at(shared, path.as_str(), &before) {
                Err(error) if crate::fs::is_absent(&error) => break,
                other => other.map_err(failed())?,
            };
            let after = shared.root.stat(path.as_str()).map_err(failed())?;
            if after != Some(before) || before.kind != Some(Kind::File) {
                continue;
            }
            let s = before.signature;
            let node = hash.map(|hash| Node::File { mode: before.mode, mtime: s.mtime, length: s.size, hash });
            return Ok(SourceState::Known(State { node, signature: Some(s), racy: is_racy(&s, taken) }));
        }
        Ok(SourceState::Busy)
    }
}

enum SourceState {
    Known(State),
    /// It changes while it is read.
    Busy,
}
