//! Trees as the worlds of a check see them.

use opship_record::TreePath;
use opship_record::node::Kind;
use opship_world::{FileContent, SourceError, SourceNode, TreeSource};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tree that stands still: what it showed once it shows to every run, whatever happens to the folder. Else a change by
/// another program would look like the module's doing.
pub(super) struct Still {
    tree: Arc<dyn TreeSource>,
    nodes: Mutex<BTreeMap<TreePath, Option<SourceNode>>>,
    listings: Mutex<BTreeMap<TreePath, Vec<(String, Kind)>>>,
}

impl Still {
    pub(super) fn new(tree: Arc<dyn TreeSource>) -> Still {
        Still { tree, nodes: Mutex::default(), listings: Mutex::default() }
    }
}

impl TreeSource for Still {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        remembered(&self.nodes, path, || self.tree.stat(path))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        remembered(&self.listings, path, || self.tree.list(path))
    }

    /// Contents are opened anew. One that has changed since it was first looked at ends the check.
    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let node = self.stat(path)?;
        let content = self.tree.open(path)?;
        if self.tree.stat(path)? != node {
            let detail = "another program changed it; check again when it is quiet".to_owned();
            return Err(SourceError { path: path.to_string(), detail, changed: true });
        }
        Ok(content)
    }
}

fn remembered<T: Clone>(
    known: &Mutex<BTreeMap<TreePath, T>>,
    path: &TreePath,
    ask: impl FnOnce() -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    if let Some(answer) = lock(known).get(path) {
        return Ok(answer.clone());
    }
    let answer = ask()?;
    Ok(lock(known).entry(path.clone()).or_insert(answer).clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same tree, from a file system that lists names in another order.
pub(super) struct Reversed(pub Arc<Still>);

impl TreeSource for Reversed {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        self.0.stat(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let mut names = self.0.list(path)?;
        names.reverse();
        Ok(names)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        self.0.open(path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::FolderTree;

    #[test]
    fn names_that_come_later_are_not_seen_and_other_contents_end_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "a").unwrap();
        let tree = Still::new(Arc::new(FolderTree::open(folder.path()).unwrap()));
        let path: TreePath = "a".parse().unwrap();
        let first = tree.list(&TreePath::root()).unwrap();
        assert!(tree.open(&path).is_ok());
        std::fs::write(at("b"), "b").unwrap();
        std::fs::write(at("a"), "other").unwrap();
        assert_eq!(tree.list(&TreePath::root()).unwrap(), first);
        assert!(tree.open(&path).is_err_and(|error| error.changed));
    }
}
