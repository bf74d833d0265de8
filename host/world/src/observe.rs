//! What a run has seen of the tree before it.

use crate::store::Store;
use crate::{Fault, SourceNode, TreeSource};
use opship_record::node::Kind;
use opship_record::observation::{Observation, listing_digest};
use opship_record::{Hash, TreePath};
use std::collections::BTreeMap;

/// What was seen of one path that exists.
#[derive(Default)]
struct Seen {
    content: Option<Hash>,
    metadata: bool,
    listing: bool,
    target: bool,
}

impl Seen {
    fn is_existence_only(&self) -> bool {
        self.content.is_none() && !self.metadata && !self.listing && !self.target
    }
}

#[derive(Default)]
pub(crate) struct Observations {
    present: BTreeMap<TreePath, Seen>,
    absent: BTreeMap<TreePath, (TreePath, Kind)>,
    /// Bytes of memory that the paths took since they were last counted, about.
    grown: usize,
}

/// What an item takes besides its path.
const ITEM: usize = 128;

impl Observations {
    /// It is there. Of the root nobody needs to be told.
    pub(crate) fn exists(&mut self, path: &TreePath) {
        if !path.is_root() {
            self.seen(path);
        }
    }

    fn seen(&mut self, path: &TreePath) -> &mut Seen {
        if !self.present.contains_key(path) {
            self.grown += path.as_str().len() + ITEM;
        }
        self.present.entry(path.clone()).or_default()
    }

    /// Bytes of memory that it took since this was last asked, about.
    pub(crate) fn take_growth(&mut self) -> usize {
        std::mem::take(&mut self.grown)
    }

    pub(crate) fn content(&mut self, path: &TreePath, hash: Hash) {
        self.seen(path).content = Some(hash);
    }

    /// The root has none that could differ.
    pub(crate) fn metadata(&mut self, path: &TreePath) {
        if path.is_root() {
            return;
        }
        self.seen(path).metadata = true;
    }

    pub(crate) fn listing(&mut self, path: &TreePath) {
        self.seen(path).listing = true;
    }

    pub(crate) fn target(&mut self, path: &TreePath) {
        self.seen(path).target = true;
    }

    pub(crate) fn absent(&mut self, path: TreePath, missing: TreePath, above: Kind) {
        if !self.absent.contains_key(&path) {
            self.grown += path.as_str().len() + missing.as_str().len() + ITEM;
        }
        self.absent.entry(path).or_insert((missing, above));
    }

    /// The canonical list: sorted, each item once. That something exists is left out where another item of its path, or
    /// one below it, says so.
    pub(crate) fn finish(&self, source: &dyn TreeSource, store: &mut Store) -> Result<Vec<Observation>, Fault> {
        let mut list = Vec::new();
        for (path, seen) in &self.present {
            store.looked_up()?;
            let Some(node) = source.stat(path)? else { continue };
            if seen.is_existence_only() {
                if !self.is_implied(path) {
                    list.push(Observation::Exists { path: path.clone(), kind: node.kind() });
                }
                continue;
            }
            if let Some(hash) = seen.content {
                list.push(Observation::Content { path: path.clone(), hash });
            }
            if seen.metadata {
                list.push(metadata(path, &node));
            }
            if seen.listing {
                list.push(listing(path, source)?);
            }
            if let (true, SourceNode::Symlink { target, .. }) = (seen.target, node) {
                list.push(Observation::LinkTarget { path: path.clone(), target });
            }
        }
        list.extend(self.absent.iter().map(|(path, (missing, above))| Observation::Absent {
            path: path.clone(),
            missing: missing.clone(),
            above: *above,
        }));
        list.sort_unstable();
        Ok(list)
    }

    fn is_implied(&self, path: &TreePath) -> bool {
        let Ok(first_below) = TreePath::new(format!("{}/\u{1}", path.as_str())) else { return false };
        let is_below = |other: &TreePath| other != path && other.starts_with(path);
        self.present.range(&first_below..).next().is_some_and(|(other, _)| is_below(other))
            || self
                .absent
                .range(&first_below..)
                .take_while(|(other, _)| is_below(other))
                .any(|(_, (missing, _))| is_below(missing))
    }
}

fn metadata(path: &TreePath, node: &SourceNode) -> Observation {
    let (mode, mtime, size) = match node {
        SourceNode::File { mode, mtime, length } => (*mode, *mtime, *length),
        SourceNode::Directory { mode } => (*mode, 0, 0),
        SourceNode::Symlink { mtime, target } => (0o777, *mtime, target.len() as u64),
    };
    Observation::Metadata { path: path.clone(), kind: node.kind(), mode, mtime, size }
}

fn listing(path: &TreePath, source: &dyn TreeSource) -> Result<Observation, Fault> {
    let mut entries = source.list(path)?;
    // Whatever the source does: an order of its own must not reach a record.
    entries.sort_unstable();
    let digest = listing_digest(entries.iter().map(|(name, kind)| (name.as_str(), *kind)));
    Ok(Observation::Listing { path: path.clone(), digest })
}
