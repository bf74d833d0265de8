//! The work of a scan: folders and pieces of folders, shared by a few threads.

use crate::db::index::Row;
use opship_record::TreePath;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One piece of work.
pub(super) enum Task {
    /// List a folder.
    Folder(TreePath),
    /// Look at some of the names in a folder.
    Names(Names),
}

/// Names of one folder that are to be looked at.
pub(super) struct Names {
    pub folder: TreePath,
    pub directory: Arc<OwnedFd>,
    /// Each name with its row in the index.
    pub names: Vec<(CString, Option<(TreePath, Row)>)>,
}

/// The rows of the index by the folder that they are in, each folder's in byte order. What a scan has met is taken out.
pub(super) struct Rows(Mutex<HashMap<TreePath, Vec<(TreePath, Row)>>>);

impl Rows {
    pub(super) fn new(rows: HashMap<TreePath, Vec<(TreePath, Row)>>) -> Rows {
        Rows(Mutex::new(rows))
    }

    /// The rows in a folder.
    pub(super) fn take(&self, folder: &TreePath) -> Vec<(TreePath, Row)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(folder).unwrap_or_default()
    }

    /// The paths in folders that were not met.
    pub(super) fn into_rest(self) -> impl Iterator<Item = TreePath> {
        let rest = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        rest.into_values().flatten().map(|(path, _)| path)
    }
}

/// What is to be done. It ends when nothing is left and nobody works on what could bring more.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    tasks: Vec<Task>,
    working: usize,
    stopped: bool,
}

impl Queue {
    pub(super) fn new(first: Task) -> Queue {
        Queue { state: Mutex::new(State { tasks: vec![first], working: 0, stopped: false }), changed: Condvar::new() }
    }

    /// Adds work.
    pub(super) fn add(&self, task: Task) {
        self.locked().tasks.push(task);
        self.changed.notify_one();
    }

    /// Ends all: somebody failed.
    pub(super) fn stop(&self) {
        self.locked().stopped = true;
        self.changed.notify_all();
    }

    /// The next task, to be ended by [`Queue::done`]; `None` at the end.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.locked();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A task has ended.
    pub(super) fn done(&self) {
        let mut state = self.locked();
        state.working -= 1;
        if state.working == 0 && state.tasks.is_empty() {
            self.changed.notify_all();
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
