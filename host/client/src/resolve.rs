//! What is left to decide after conflicts: which files are copies of which, and what becomes of them.

use crate::conflict::{LABEL, free_beside, parse_name};
use crate::db::conflicts::{self, Undecided};
use crate::db::{index, log};
use crate::{ClientError, LogEntry, WorkingCopy};
use opship_record::TreePath;
use opship_record::node::Kind;
use std::collections::BTreeMap;

/// A path with states of it that somebody has to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path. The state that all have is there.
    pub path: TreePath,
    /// The others.
    pub copies: Vec<ConflictCopy>,
}

/// Another state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictCopy {
    /// Where it is; `None`: the server keeps it for the entry, which ended `rebased`.
    pub at: Option<TreePath>,
    /// Whose it is, as far as its name tells; `None`: this working copy's.
    pub who: Option<String>,
    /// The day of the conflict, if its name tells.
    pub day: Option<String>,
    /// The entry of this working copy that made it.
    pub entry: Option<u64>,
}

impl WorkingCopy {
    /// All conflicts: those of this working copy's entries, and those of others whose copies are here. A copy that was
    /// removed is decided.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn conflicts(&self) -> Result<Vec<Conflict>, ClientError> {
        let db = self.shared.db.read();
        let mut found: BTreeMap<TreePath, Vec<ConflictCopy>> = BTreeMap::new();
        let own = conflicts::all(&db)?;
        for Undecided { entry, path, copy } in &own {
            if let Some(copy) = copy
                && index::get(&db, copy)?.is_none()
            {
                continue;
            }
            let day = copy.as_ref().and_then(|copy| Some(parse_name(copy.name()?)?.day.to_owned()));
            let copy = ConflictCopy { at: copy.clone(), who: None, day, entry: Some(*entry) };
            found.entry(path.clone()).or_default().push(copy);
        }
        let mut folder: Option<TreePath> = None;
        for (at, kind) in index::paths_like(&db, LABEL)? {
            // What lies in a folder that is a copy is decided with it.
            if own.iter().any(|own| own.copy.as_ref() == Some(&at))
                || folder.as_ref().is_some_and(|folder| at.starts_with(folder))
            {
                continue;
            }
            let Some(named) = at.name().and_then(parse_name) else { continue };
            let Ok(path) = at.parent().unwrap_or_default().join(&named.original) else { continue };
            let (who, day) = (Some(named.who.to_owned()), Some(named.day.to_owned()));
            folder = if kind == Kind::Directory { Some(at.clone()) } else { folder };
            found.entry(path).or_default().push(ConflictCopy { at: Some(at), who, day, entry: None });
        }
        Ok(found.into_iter().map(|(path, copies)| Conflict { path, copies }).collect())
    }

    /// The entries that left something to decide, in order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn undecided_entries(&self) -> Result<Vec<LogEntry>, ClientError> {
        let mut numbers: Vec<u64> =
            self.conflicts()?.iter().flat_map(|c| &c.copies).filter_map(|copy| copy.entry).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| log::get(&self.shared.db.read(), number)).collect()
    }

    /// The paths about which an entry left something to decide.
    pub(crate) fn undecided_of(&self, number: u64) -> Result<Vec<TreePath>, ClientError> {
        let all = conflicts::all(&self.shared.db.read())?;
        Ok(all.into_iter().filter(|undecided| undecided.entry == number).map(|undecided| undecided.path).collect())
    }

    /// A path beside this one that nothing has, named as a conflict copy.
    pub(crate) fn free_beside(&self, path: &TreePath) -> Result<TreePath, ClientError> {
        free_beside(&self.shared, path, &path.parent().unwrap_or_default(), &|_| false)
    }

    /// A name for the copy of a path that stays: as the copy's, but without the word that makes it a conflict's; in `folder`
    /// where there is no copy. One that is `taken` is given to nobody else.
    pub(crate) fn free_name(
        &self,
        path: &TreePath,
        copy: Option<&TreePath>,
        folder: &TreePath,
        taken: &dyn Fn(&TreePath) -> bool,
    ) -> Result<TreePath, ClientError> {
        let is_taken = |to: &TreePath| taken(to) || plain(to).is_some_and(|to| taken(&to));
        let copy = match copy {
            Some(copy) => copy.clone(),
            None => free_beside(&self.shared, path, folder, &is_taken)?,
        };
        // Should that name be taken, the copy keeps its own.
        Ok(plain(&copy).filter(|to| !taken(to) && !self.is_on_disk(to)).unwrap_or(copy))
    }

    pub(crate) fn add_undecided(&self, undecided: &Undecided) -> Result<(), ClientError> {
        Ok(conflicts::add(&self.shared.db.read(), undecided)?)
    }

    /// An entry's states of these paths are decided.
    pub(crate) fn remove_undecided(&self, decided: &[(u64, TreePath)]) -> Result<(), ClientError> {
        self.shared
            .db
            .write(|db| Ok(decided.iter().try_for_each(|(entry, path)| conflicts::remove(db, *entry, path))?))
    }

    /// The server keeps what an entry had recorded until it is told that nothing is left to decide.
    pub(crate) fn add_pinned(&self, number: u64) -> Result<(), ClientError> {
        Ok(conflicts::add_pinned(&self.shared.db.read(), number)?)
    }

    /// Forgets what was decided by removing a copy, and gives the entries of which the server is to be told that nothing
    /// is left to decide.
    pub(crate) fn newly_resolved(&self) -> Result<Vec<LogEntry>, ClientError> {
        let numbers = self.shared.db.write(|db| {
            for Undecided { entry, path, copy } in conflicts::all(db)? {
                if let Some(copy) = copy
                    && index::get(db, &copy)?.is_none()
                    && !self.is_on_disk(&copy)
                {
                    conflicts::remove(db, entry, &path)?;
                }
            }
            conflicts::untold(db)
        })?;
        numbers.into_iter().map(|number| log::get(&self.shared.db.read(), number)).collect()
    }

    /// A copy that was made a moment ago is not in the index yet.
    fn is_on_disk(&self, path: &TreePath) -> bool {
        self.shared.root.stat(path.as_str()).is_ok_and(|found| found.is_some())
    }

    pub(crate) fn mark_told(&self, numbers: &[u64]) -> Result<(), ClientError> {
        self.shared.db.write(|db| Ok(numbers.iter().try_for_each(|number| conflicts::remove_pinned(db, *number))?))
    }
}

/// The name of a conflict copy without the word that makes it one.
fn plain(copy: &TreePath) -> Option<TreePath> {
    let (stem, rest) = copy.name()?.rsplit_once(LABEL)?;
    copy.parent().unwrap_or_default().join(&format!("{stem} ({rest}")).ok()
}
