//! Deciding conflicts. What is decided is an ordinary change, recorded like any other: the history keeps both sides.

use super::Sync;
use super::put::{PutReport, State, made};
use crate::{ClientError, Conflict, ConflictCopy};
use opship_record::TreePath;
use opship_record::node::Node;

/// Which side of a conflict is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The copy's: it comes to the path.
    Mine,
    /// The one at the path: the copy goes.
    Theirs,
    /// Both: the copy stays under a name that no longer says that there is something to decide.
    Both,
}

impl Sync<'_> {
    /// Decides conflicts, all in one entry.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where `Mine` is asked for and there are several copies; [`ClientError`] from the network, if
    /// something is kept only by the server, or the disk.
    pub async fn resolve(
        mut self,
        conflicts: &[Conflict],
        keep: Keep,
        dry_run: bool,
    ) -> Result<PutReport, ClientError> {
        let _lock = self.lock().await?;
        self.copy.append_changes()?;
        let (mut states, mut decided) = (Vec::new(), Vec::new());
        for conflict in conflicts {
            if keep == Keep::Mine && conflict.copies.len() > 1 {
                let path = &conflict.path;
                return Err(ClientError::Refused(format!(
                    "'{path}' has several copies; name the one to keep, 'opship conflicts' lists them"
                )));
            }
            for copy in &conflict.copies {
                let more = self.decided(conflict, copy, keep, &states)?;
                states.extend(more);
                decided.extend(copy.entry.map(|entry| (entry, conflict.path.clone())));
            }
        }
        if dry_run {
            return Ok(PutReport { paths: states.into_iter().map(|(path, _)| path).collect(), ..PutReport::default() });
        }
        let report = self.put(states, "resolved conflicts").await?;
        self.copy.remove_undecided(&decided)?;
        Ok(report)
    }

    /// What a decision makes of a copy and its path; `given` is what it makes of those before.
    fn decided(
        &self,
        conflict: &Conflict,
        copy: &ConflictCopy,
        keep: Keep,
        given: &[State],
    ) -> Result<Vec<State>, ClientError> {
        let path = &conflict.path;
        let own = match (&copy.at, copy.entry) {
            (Some(at), _) => self.copy.node(at)?,
            (None, Some(entry)) if keep != Keep::Theirs => self.recorded(entry, path)?,
            (None, _) => None,
        };
        let mut states = Vec::new();
        states.extend(copy.at.iter().map(|at| (at.clone(), None)));
        match (keep, own) {
            (Keep::Theirs, _) => {}
            (Keep::Mine, Some(own)) => states.push((path.clone(), Some(own))),
            (Keep::Both, Some(own)) => {
                let taken = |to: &TreePath| given.iter().any(|(path, node)| path == to && node.is_some());
                states.push((self.copy.free_name(path, copy.at.as_ref(), &taken)?, Some(own)));
            }
            (Keep::Mine | Keep::Both, None) => {
                return Err(ClientError::Refused(format!(
                    "the copy of '{path}' is not here any more; nothing is left to decide"
                )));
            }
        }
        Ok(states)
    }

    /// What an entry that ended `rebased` had recorded of a path.
    fn recorded(&self, entry: u64, path: &TreePath) -> Result<Option<Node>, ClientError> {
        let now = self.copy.node(path)?;
        let changes = self.copy.lists(entry)?.changes;
        Ok(changes.iter().find(|change| change.path == *path).and_then(|change| made(change, now.as_ref())).flatten())
    }
}
