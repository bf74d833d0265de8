//! Ignore rules: `.opshipignore` files with the semantics of `.gitignore`.

use crate::fs::Root;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use opship_record::TreePath;
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of a file of rules; it counts for its folder and all below.
const FILE: &str = ".opshipignore";
/// A larger file of rules is cut off here.
const MAX_BYTES: u64 = 4 << 20;

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
pub(super) struct Ignores(Mutex<HashMap<TreePath, Folder>>);

impl Ignores {
    /// Is the path ignored, by itself or with a folder above it?
    pub(super) fn is_ignored(&self, root: &Root, path: &TreePath, is_directory: bool) -> bool {
        let folder = self.folder(root, &path.parent().unwrap_or_default());
        folder.ignored || matches(&folder, path, is_directory)
    }

    fn folder(&self, root: &Root, path: &TreePath) -> Folder {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unknown = Vec::new();
        let mut at = Some(path.clone());
        let mut folder = loop {
            match at {
                None => break Folder::default(),
                Some(next) => match known.get(&next) {
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
            if let Some(own) = read(root, &next) {
                let mut rules = folder.rules.to_vec();
                rules.push((next.clone(), own));
                folder.rules = Arc::new(rules);
            }
            known.insert(next, folder.clone());
        }
        folder
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

fn read(root: &Root, folder: &TreePath) -> Option<Arc<Gitignore>> {
    let path = folder.join(FILE).ok()?;
    let file = root.open_file(path.as_str()).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).lines() {
        // A line that is no pattern counts as none, as in git.
        if let Err(error) = builder.add_line(None, line) {
            tracing::warn!(%path, line, %error, "this line of ignore rules is no pattern");
        }
    }
    builder.build().ok().map(Arc::new)
}
