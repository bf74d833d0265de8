//! States that are put into the folder as changes of our own: what `undo`, `restore` and `resolve` bring back.
//!
//! They become one value entry behind all that the log has. What stood there before is in the log by then, and its bytes
//! are displaced and kept until the entry's verdict, so nothing is lost.

use crate::db::index;
use crate::db::intent::{self, Intent};
use crate::db::log::{self, NewEntry};
use crate::exchange::finish;
use crate::identity::Identity;
use crate::log::EntryState;
use crate::remote::{Pull, RemoteChange, Whose};
use crate::staging::Staging;
use crate::{ClientError, WorkingCopy, values};
use opship_engine::failpoint;
use opship_record::TreePath;
use opship_record::entry::{Body, Value};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind, Node};
use opship_record::record::Lists;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl WorkingCopy {
    /// Brings paths to these states, all in one exchange, as one value entry; gives its number, `None` if all was so
    /// already. Changed files of the folder are recorded before. Folders above are made; what lies below a path that is
    /// to be no folder goes. `command` says to people what the entry is.
    ///
    /// # Errors
    /// [`ClientError::InTheWay`] if something stands there that is not synced, [`ClientError::Changed`],
    /// [`ClientError::Io`], [`ClientError::Database`]. Nothing was put then, unless the error came from the exchange
    /// itself, which the next [`WorkingCopy::open`] finishes.
    pub fn put(&self, changes: Vec<RemoteChange>, command: &str) -> Result<Option<u64>, ClientError> {
        let staging = Arc::new(Staging::new(&self.shared)?);
        let _lock = self.lock()?;
        self.append_found()?;
        let mut wanted: BTreeMap<TreePath, RemoteChange> =
            changes.into_iter().map(|change| (change.path.clone(), change)).collect();
        self.with_parents(&mut wanted)?;
        self.without_what_was_below(&mut wanted)?;
        let mut pull = Pull::new(self, Whose::Own);
        let mut list = pull.select(&wanted)?;
        pull.drop_dependent(&mut list)?;
        if let Some(skipped) = pull.skipped.pop() {
            return Err(ClientError::InTheWay { path: skipped.path, reason: skipped.reason });
        }
        if list.is_empty() {
            return Ok(None);
        }
        let steps = pull.stage_and_plan(&staging, &list, &mut wanted)?;
        let lists = Lists { changes: list.clone(), ..Lists::default() };
        let (body, value_bytes) = (Body::Value(Value::new(&list)), values::value_bytes(&list));
        let (id, intent) = self.shared.db.write(|db| {
            let new = NewEntry {
                body: &body,
                lists: &lists,
                command,
                value_bytes,
                state: EntryState::Applying,
                run_micros: None,
            };
            let entry = log::append(db, &Identity::client(db)?, &new)?;
            let intent = Intent { entry, folder: staging.folder().to_owned(), steps, changes: list };
            Ok::<_, ClientError>((intent::insert(db, &intent)?, intent))
        })?;
        failpoint::hit("intent");
        finish(&self.shared, id, &intent)?;
        Ok(Some(intent.entry))
    }

    /// Adds the folders above that are not there.
    fn with_parents(&self, wanted: &mut BTreeMap<TreePath, RemoteChange>) -> Result<(), ClientError> {
        let made = wanted.values().filter(|change| change.node.is_some());
        let above: BTreeSet<TreePath> =
            made.flat_map(|change| std::iter::successors(change.path.parent(), TreePath::parent)).collect();
        for path in above.into_iter().filter(|path| !path.is_root()) {
            if wanted.contains_key(&path) || index::kind(&self.shared.db.read(), &path)? == Some(Kind::Directory) {
                continue;
            }
            let node = Some(Node::Directory { mode: DEFAULT_DIRECTORY_MODE });
            wanted.insert(path.clone(), RemoteChange { path, node, content: None });
        }
        Ok(())
    }

    /// Adds the removal of what lies below paths that are to be no folders.
    fn without_what_was_below(&self, wanted: &mut BTreeMap<TreePath, RemoteChange>) -> Result<(), ClientError> {
        let no_folder = |change: &&RemoteChange| !matches!(change.node, Some(Node::Directory { .. }));
        let paths: Vec<TreePath> = wanted.values().filter(no_folder).map(|change| change.path.clone()).collect();
        for path in paths {
            for (below, _) in index::all_below(&self.shared.db.read(), &path)? {
                let gone = RemoteChange { path: below.clone(), node: None, content: None };
                wanted.entry(below).or_insert(gone);
            }
        }
        Ok(())
    }
}
