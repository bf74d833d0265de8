//! Deciding conflicts. What is decided is an ordinary change, recorded like any other: the history keeps both sides.

use super::Sync;
use super::put::{PutReport, State, made};
use crate::{ClientError, Conflict, ConflictCopy};
use opship_record::TreePath;
use opship_record::node::{Kind, Node};

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
        let own = self.own(path, copy, keep)?;
        let mut states: Vec<State> = copy.at.iter().map(|at| (at.clone(), None)).collect();
        if let Some(at) = &copy.at {
            for (below, _) in &own {
                states.push((at.append(below).map_err(opship_record::Error::from)?, None));
            }
        }
        if keep == Keep::Theirs {
            return Ok(states);
        }
        if own.is_empty() {
            return Err(ClientError::Refused(format!(
                "the copy of '{path}' is not here any more; nothing is left to decide"
            )));
        }
        // What another decision puts in the place of a folder above it stays; this one then goes beside.
        let to = match keep {
            Keep::Mine if folder_left(path, given) == path.parent().unwrap_or_default() => path.clone(),
            _ => self.kept_at(path, copy, given)?,
        };
        for (below, node) in own {
            states.push((to.append(&below).map_err(opship_record::Error::from)?, Some(node)));
        }
        Ok(states)
    }

    /// Where a copy that stays goes; `given` is what was decided before.
    fn kept_at(&self, path: &TreePath, copy: &ConflictCopy, given: &[State]) -> Result<TreePath, ClientError> {
        let taken = |to: &TreePath| given.iter().any(|(path, node)| path == to && node.is_some());
        let stays = |at: &&TreePath| folder_left(at, given) == at.parent().unwrap_or_default();
        self.copy.free_name(path, copy.at.as_ref().filter(stays), &folder_left(path, given), &taken)
    }

    /// The state that is to be decided about, with all that is below it: paths from it on.
    fn own(&self, path: &TreePath, copy: &ConflictCopy, keep: Keep) -> Result<Vec<(TreePath, Node)>, ClientError> {
        let Some(at) = &copy.at else {
            let recorded = match copy.entry.filter(|_| keep != Keep::Theirs) {
                Some(entry) => self.recorded(entry, path)?,
                None => None,
            };
            return Ok(recorded.map(|node| (TreePath::root(), node)).into_iter().collect());
        };
        let itself = self.copy.node(at)?.map(|node| (at.clone(), node));
        let all = itself.into_iter().chain(self.copy.nodes(at)?);
        Ok(all.filter_map(|(path, node)| Some((path.strip_prefix(at)?, node))).collect())
    }

    /// What an entry that ended `rebased` had recorded of a path.
    fn recorded(&self, entry: u64, path: &TreePath) -> Result<Option<Node>, ClientError> {
        let now = self.copy.node(path)?;
        let changes = self.copy.lists(entry)?.changes;
        Ok(changes.iter().find(|change| change.path == *path).and_then(|change| made(change, now.as_ref())).flatten())
    }
}

/// The nearest folder above a path that is not `given` to be a file or link.
fn folder_left(path: &TreePath, given: &[State]) -> TreePath {
    let above = || std::iter::successors(path.parent(), TreePath::parent);
    let is_no_folder = |above: &TreePath| {
        given.iter().any(|(path, node)| path == above && node.as_ref().is_some_and(|n| n.kind() != Kind::Directory))
    };
    // The highest that is none decides: nothing below it is left.
    let highest = above().filter(is_no_folder).last();
    highest.as_ref().unwrap_or(path).parent().unwrap_or_default()
}
