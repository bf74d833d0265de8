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

/// The rules of the folders looked at so far; `None`: the folder has none.
#[derive(Default)]
pub(super) struct Ignores(Mutex<HashMap<TreePath, Option<Arc<Gitignore>>>>);

impl Ignores {
    /// Is the path ignored, by itself or with a folder above it?
    pub(super) fn is_ignored(&self, root: &Root, path: &TreePath, is_directory: bool) -> bool {
        let mut above: Vec<TreePath> = std::iter::successors(path.parent(), TreePath::parent).collect();
        above.pop();
        above.iter().rev().any(|folder| self.matches(root, folder, true)) || self.matches(root, path, is_directory)
    }

    /// Do the rules name this very path? The nearest file of rules that says anything decides.
    fn matches(&self, root: &Root, path: &TreePath, is_directory: bool) -> bool {
        for folder in std::iter::successors(path.parent(), TreePath::parent) {
            let Some(rules) = self.rules(root, &folder) else { continue };
            let Some(below) = path.strip_prefix(&folder) else { continue };
            match rules.matched(below.as_str(), is_directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }

    fn rules(&self, root: &Root, folder: &TreePath) -> Option<Arc<Gitignore>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(folder.clone()).or_insert_with(|| read(root, folder)).clone()
    }
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
