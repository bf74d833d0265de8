//! Ignore rules: `.opshipignore` files with the semantics of `.gitignore`.

use super::rules::{self, FILE, RuleTrouble};
use crate::working_copy::Shared;
use ignore::Match;
use ignore::gitignore::Gitignore;
use opship_record::TreePath;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a folder that was looked at.
#[derive(Clone, Default)]
struct Folder {
    /// Is it ignored, by itself or with a folder above it?
    ignored: bool,
    /// The rules that count in it: the nearest last, each with the folder that it stands in.
    rules: Arc<Vec<(TreePath, Arc<Gitignore>)>>,
}

/// The folders looked at so far. Each is told from the one above it, so that deep trees cost no more than wide ones.
#[derive(Default)]
pub(super) struct Ignores(Mutex<Known>);

#[derive(Default)]
struct Known {
    folders: HashMap<TreePath, Folder>,
    /// Files of rules that are beyond what all may have together, once that was looked for.
    beyond: Option<BTreeSet<TreePath>>,
    troubles: BTreeSet<RuleTrouble>,
}

impl Ignores {
    /// Is the path ignored, by itself or with a folder above it?
    pub(super) fn is_ignored(&self, shared: &Shared, path: &TreePath, is_directory: bool) -> bool {
        let folder = self.folder(shared, &path.parent().unwrap_or_default());
        folder.ignored || matches(&folder, path, is_directory)
    }

    /// Reads the rules that count in a folder, so that what is wrong with them is known.
    pub(super) fn read(&self, shared: &Shared, folder: &TreePath) {
        self.folder(shared, folder);
    }

    /// What of the rules that were read does not count.
    pub(super) fn troubles(&self) -> Vec<RuleTrouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).troubles.iter().cloned().collect()
    }

    fn folder(&self, shared: &Shared, path: &TreePath) -> Folder {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unknown = Vec::new();
        let mut at = Some(path.clone());
        let mut folder = loop {
            match at {
                None => break Folder::default(),
                Some(next) => match known.folders.get(&next) {
                    Some(folder) => break folder.clone(),
                    None => {
                        at = next.parent();
                        unknown.push(next);
                    }
                },
            }
        };
        for next in unknown.into_iter().rev() {
            folder.ignored = folder.ignored || (!next.is_root() && matches(&folder, &next, true));
            if let Some(own) = known.read(shared, &next) {
                let mut rules = folder.rules.to_vec();
                rules.push((next.clone(), own));
                folder.rules = Arc::new(rules);
            }
            known.folders.insert(next, folder.clone());
        }
        folder
    }
}

impl Known {
    fn read(&mut self, shared: &Shared, folder: &TreePath) -> Option<Arc<Gitignore>> {
        let path = folder.join(FILE).ok()?;
        shared.root.stat(path.as_str()).ok()??;
        let beyond = self.beyond.get_or_insert_with(|| {
            rules::beyond(&shared.root, &shared.db.read()).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot look for files of ignore rules");
                BTreeSet::new()
            })
        });
        if beyond.contains(&path) {
            self.troubles.insert(rules::told_beyond(&path));
            return None;
        }
        let (rules, troubles) = rules::read(&shared.root, &path)?;
        self.troubles.extend(troubles);
        Some(Arc::new(rules))
    }
}

/// Do the rules name this very path? The nearest file of rules that says anything decides.
fn matches(folder: &Folder, path: &TreePath, is_directory: bool) -> bool {
    for (place, rules) in folder.rules.iter().rev() {
        let Some(below) = path.strip_prefix(place) else { continue };
        match rules.matched(below.as_str(), is_directory) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}
