//! What differs between two versions, or between a version and the folder.

use super::Sync;
use crate::ClientError;
use opship_record::node::{Content, Node};
use opship_record::{Hash, TreePath};
use opship_world::FileContent;
use std::collections::BTreeMap;

/// Longest file, in bytes, of which the text is compared.
const TEXT_BYTES: u64 = 1 << 20;
/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDifference {
    /// The path.
    pub path: TreePath,
    /// What was there; `None`: nothing.
    pub old: Option<Node>,
    /// What is there; `None`: nothing.
    pub new: Option<Node>,
    /// The differing lines of two text files, in the unified format.
    pub text: Option<String>,
}

impl TreeDifference {
    /// The kind of change, in a word.
    pub fn word(&self) -> &'static str {
        match (&self.old, &self.new) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(old), Some(new)) if old.content() == new.content() => "metadata",
            (Some(old), Some(new)) if old.kind() != new.kind() => "kind",
            _ => "changed",
        }
    }

    /// Do two states hold the same, mode and time aside?
    pub(crate) fn same(a: Option<&Node>, b: Option<&Node>) -> bool {
        a.map(Node::content) == b.map(Node::content)
    }
}

/// What to compare.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// The first version; `None`: the one that the working copy stands on.
    pub from: Option<u64>,
    /// The second version; `None`: the folder as it is.
    pub to: Option<u64>,
    /// Only what is at and below this path.
    pub below: TreePath,
    /// Compare the lines of text files too.
    pub text: bool,
}

impl Sync<'_> {
    /// Compares; gives what differs, in the order of the paths. Nothing is changed, here or on the server.
    ///
    /// # Errors
    /// [`ClientError`] from the network or the disk.
    pub async fn diff(mut self, options: &DiffOptions) -> Result<Vec<TreeDifference>, ClientError> {
        let (base, _) = self.copy.base()?;
        let from = options.from.unwrap_or(base);
        let mut new: BTreeMap<TreePath, Option<Node>> = BTreeMap::new();
        if from != options.to.unwrap_or(base) {
            let (_, mut changes) = self.api.changes_between(from, options.to.unwrap_or(base), &options.below).await?;
            while let Some((path, node)) = changes.next().await? {
                new.insert(path, node);
            }
        }
        if options.to.is_none() {
            // What is here may differ from the base wherever the log or the folder has something newer.
            for (path, node) in self.copy.local_states(new.keys())? {
                if path.starts_with(&options.below) {
                    new.insert(path, node);
                }
            }
        }
        let paths: Vec<TreePath> = new.keys().cloned().collect();
        let old: BTreeMap<TreePath, Option<Node>> = match paths.is_empty() {
            true => BTreeMap::new(),
            false => self.api.nodes(&paths, Some(from)).await?.into_iter().collect(),
        };
        let mut found = Vec::new();
        for (path, new) in new {
            let old = old.get(&path).cloned().flatten();
            if old == new {
                continue;
            }
            let mut difference = TreeDifference { path, old, new, text: None };
            if options.text {
                difference.text = self.text(&difference, options.to.is_none()).await?;
            }
            found.push(difference);
        }
        Ok(found)
    }

    /// The differing lines, if both sides are text and not too long.
    async fn text(&mut self, difference: &TreeDifference, live: bool) -> Result<Option<String>, ClientError> {
        if TreeDifference::same(difference.old.as_ref(), difference.new.as_ref()) {
            return Ok(None);
        }
        let path = &difference.path;
        let Some(old) = self.side(difference.old.as_ref(), None).await? else { return Ok(None) };
        let Some(new) = self.side(difference.new.as_ref(), live.then_some(path)).await? else { return Ok(None) };
        let lines = similar::TextDiff::from_lines(&old, &new);
        let unified = lines
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string();
        Ok((!unified.is_empty()).then_some(unified))
    }

    /// One side as text; nothing counts as an empty one. `live`: the path of the folder that has it.
    async fn side(&mut self, node: Option<&Node>, live: Option<&TreePath>) -> Result<Option<String>, ClientError> {
        let (length, hash) = match node.map(Node::content) {
            None => return Ok(Some(String::new())),
            Some(Content::File { length, hash }) if length <= TEXT_BYTES => (length, hash),
            Some(_) => return Ok(None),
        };
        let bytes = match self.copy.blob_source(&hash)? {
            Some(content) => read(&*content)?,
            None => match live {
                Some(path) => self.copy.live_bytes(path, length)?,
                None => self.fetch(&hash, length).await?,
            },
        };
        let is_text = !bytes.contains(&0);
        Ok(String::from_utf8(bytes).ok().filter(|_| is_text))
    }

    async fn fetch(&mut self, hash: &Hash, length: u64) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        self.api.get_blob(hash, length, &mut bytes).await?;
        Ok(bytes)
    }
}

fn read(content: &dyn FileContent) -> Result<Vec<u8>, ClientError> {
    let mut bytes = vec![0; usize::try_from(content.length().min(TEXT_BYTES)).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match content.read_at(filled as u64, &mut bytes[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
