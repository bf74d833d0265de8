//! What the folder holds that the version under it does not.

use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use opship_record::node::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

impl WorkingCopy {
    /// What is at the paths where the folder may differ from the version that the working copy stands on, and at `more`:
    /// entries that are no part of it, and changes that no entry has yet.
    pub(crate) fn local_states<'p>(
        &self,
        more: impl Iterator<Item = &'p TreePath>,
    ) -> Result<BTreeMap<TreePath, Option<Node>>, ClientError> {
        let scan = self.scan()?;
        let mut paths: BTreeSet<TreePath> = more.cloned().collect();
        for entry in self.pending()?.into_iter().chain(self.unreleased()?) {
            paths.extend(self.lists(entry.number)?.changes.into_iter().map(|change| change.path));
        }
        paths.extend(self.unsynced_paths()?);
        let mut states = BTreeMap::new();
        for path in paths {
            let node = self.node(&path)?;
            states.insert(path, node);
        }
        states.extend(scan.states.into_iter().map(|(path, state)| (path, state.node)));
        Ok(states)
    }

    /// The bytes of a file of the folder, at most `length`.
    pub(crate) fn live_bytes(&self, path: &TreePath, length: u64) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        let file = self.shared.root.open_file(path.as_str()).map(|file| file.take(length));
        let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(ClientError::io(format!("reading '{path}'")))?;
        Ok(bytes)
    }
}
