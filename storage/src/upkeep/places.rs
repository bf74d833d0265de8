//! Where something damaged is used.

use crate::ModuleInfo;
use crate::sqlite::Result;
use crate::sqlite::nodes::ReadNodes;
use crate::store::Inner;
use opship_record::node::Node;
use opship_record::tree::{self, TreeEntry, TreeError};
use opship_record::{Hash, TreePath};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::vec::IntoIter;

/// Most places that are named for one finding.
const NAMED: usize = 20;

/// A place that damage reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Affected {
    /// The workspace.
    pub workspace: String,
    /// A path, or `module NAME`.
    pub place: String,
    /// The first and the last version in which the path is damaged; `None` for a module.
    pub versions: Option<(u64, u64)>,
}

/// Damaged things, each with the number of its finding.
#[derive(Debug, Default)]
pub(super) struct Bad {
    pub(super) nodes: HashMap<Hash, usize>,
    pub(super) blobs: HashMap<Hash, usize>,
}

/// Something that trees name and that is not as they say, found while walking them.
pub(super) enum Lack {
    Node(Hash),
    Blob(Hash),
    Length(Hash),
}

/// A directory that is being walked.
struct Directory {
    root: Hash,
    path: TreePath,
    entries: IntoIter<TreeEntry>,
    is_clean: bool,
}

/// Walks the trees of a workspace's versions.
pub(super) struct Walk<'a> {
    inner: &'a Inner,
    bad: &'a mut Bad,
    /// Says which finding a new lack is.
    found: &'a mut dyn FnMut(Lack) -> usize,
    /// Of the workspace's blobs.
    lengths: HashMap<Hash, u64>,
    /// Directories with nothing damaged below them.
    clean: HashSet<Hash>,
    places: BTreeMap<(usize, TreePath), (u64, u64)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        inner: &'a Inner,
        lengths: HashMap<Hash, u64>,
        bad: &'a mut Bad,
        found: &'a mut dyn FnMut(Lack) -> usize,
    ) -> Walk<'a> {
        Walk { inner, bad, found, lengths, clean: HashSet::new(), places: BTreeMap::new() }
    }

    /// Walks the tree of a version. With a stack of its own: a path may have 2,048 components.
    pub(super) fn version(&mut self, number: u64, root: &Hash) -> Result<()> {
        let mut open = Vec::new();
        open.extend(self.open(number, *root, TreePath::root())?);
        while let Some(directory) = open.last_mut() {
            let Some(entry) = directory.entries.next() else {
                if directory.is_clean {
                    self.clean.insert(directory.root);
                }
                let is_clean = directory.is_clean;
                open.pop();
                if let Some(above) = open.last_mut() {
                    above.is_clean &= is_clean;
                }
                continue;
            };
            let Ok(at) = directory.path.join(&entry.name) else { continue };
            match &entry.node {
                Node::File { hash, length, .. } => directory.is_clean &= self.file(number, hash, *length, &at),
                Node::Directory { .. } if !self.clean.contains(&entry.children) => {
                    match self.open(number, entry.children, at)? {
                        Some(below) => open.push(below),
                        None => directory.is_clean = false,
                    }
                }
                Node::Directory { .. } | Node::Symlink { .. } => {}
            }
        }
        Ok(())
    }

    /// Lists a directory. `None`: it cannot be read, which is noted.
    fn open(&mut self, version: u64, root: Hash, path: TreePath) -> Result<Option<Directory>> {
        let bad = match tree::list(&ReadNodes(&self.inner.database), &root) {
            Ok(entries) => {
                return Ok(Some(Directory { root, path, entries: entries.into_iter(), is_clean: true }));
            }
            Err(TreeError::Store(error)) if error.is_damage() => root,
            Err(TreeError::Store(error)) => return Err(error),
            Err(TreeError::Missing(hash) | TreeError::Damaged(hash, _)) => hash,
            Err(TreeError::Unfit { .. }) => root,
        };
        let finding = self.finding_of_node(bad);
        self.place(finding, &path, version);
        Ok(None)
    }

    fn file(&mut self, version: u64, hash: &Hash, length: u64, path: &TreePath) -> bool {
        let finding = match (self.bad.blobs.get(hash), self.lengths.get(hash)) {
            (Some(finding), _) => *finding,
            (None, Some(found)) if *found == length => return true,
            (None, found) => {
                let lack = if found.is_some() { Lack::Length(*hash) } else { Lack::Blob(*hash) };
                let finding = (self.found)(lack);
                self.bad.blobs.insert(*hash, finding);
                finding
            }
        };
        self.place(finding, path, version);
        false
    }

    fn finding_of_node(&mut self, hash: Hash) -> usize {
        if let Some(finding) = self.bad.nodes.get(&hash) {
            return *finding;
        }
        let finding = (self.found)(Lack::Node(hash));
        self.bad.nodes.insert(hash, finding);
        finding
    }

    fn place(&mut self, finding: usize, path: &TreePath, version: u64) {
        let versions = self.places.entry((finding, path.clone())).or_insert((version, version));
        versions.1 = version;
    }

    /// The places of each finding: at most twenty, and how many more there are.
    pub(super) fn places(self, workspace: &str) -> BTreeMap<usize, (Vec<Affected>, u64)> {
        let mut all: BTreeMap<usize, (Vec<Affected>, u64)> = BTreeMap::new();
        for ((finding, path), versions) in self.places {
            let (named, more) = all.entry(finding).or_default();
            if named.len() == NAMED {
                *more += 1;
                continue;
            }
            let place = if path.is_root() { "/".to_owned() } else { path.to_string() };
            named.push(Affected { workspace: workspace.to_owned(), place, versions: Some(versions) });
        }
        all
    }
}

/// Modules of a workspace that are damaged, each with its finding.
pub(super) fn modules(workspace: &str, modules: &[ModuleInfo], bad: &Bad) -> Vec<(usize, Affected)> {
    let damaged = modules.iter().filter_map(|module| {
        let finding = *bad.blobs.get(&module.hash)?;
        let place = format!("module {}", module.name);
        Some((finding, Affected { workspace: workspace.to_owned(), place, versions: None }))
    });
    damaged.collect()
}
