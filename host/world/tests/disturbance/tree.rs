//! A tree of which every detail can be changed.

use crate::common::path;
use opship_record::TreePath;
use opship_record::node::Kind;
use opship_world::{FileContent, MemoryContent, SourceError, SourceNode, TreeSource};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Tree(pub(crate) BTreeMap<TreePath, (SourceNode, &'static str)>);

impl Tree {
    pub(crate) fn new() -> Tree {
        let directory = |tree: Tree, at| tree.with(at, SourceNode::Directory { mode: 0o755 }, "");
        let tree = ["", "d", "d/sub", "e"].into_iter().fold(Tree(BTreeMap::new()), directory);
        tree.file("d/f", "text").file("d/g", "other").file("d/sub/h", "deep").file("k", "kept").link("l", "d/f", 5)
    }

    pub(crate) fn with(mut self, at: &str, node: SourceNode, content: &'static str) -> Tree {
        self.0.insert(path(at), (node, content));
        self
    }

    pub(crate) fn file(self, at: &str, content: &'static str) -> Tree {
        self.file_with(at, content, 0o600, 7)
    }

    pub(crate) fn file_with(self, at: &str, content: &'static str, mode: u16, mtime: i64) -> Tree {
        self.with(at, SourceNode::File { mode, mtime, length: content.len() as u64 }, content)
    }

    pub(crate) fn directory(self, at: &str, mode: u16) -> Tree {
        self.with(at, SourceNode::Directory { mode }, "")
    }

    pub(crate) fn link(self, at: &str, target: &str, mtime: i64) -> Tree {
        self.with(at, SourceNode::Symlink { mtime, target: target.as_bytes().to_vec() }, "")
    }

    pub(crate) fn gone(mut self, at: &str) -> Tree {
        self.0.retain(|other, _| !other.starts_with(&path(at)));
        self
    }
}

impl TreeSource for Tree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        Ok(self.0.get(path).map(|(node, _)| node.clone()))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        let here = self.0.iter().filter(|(other, _)| other.parent().as_ref() == Some(path));
        let mut names: Vec<_> = here.map(|(at, (node, _))| (at.name().unwrap().to_owned(), node.kind())).collect();
        names.sort();
        Ok(names)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        Ok(Arc::new(MemoryContent::new(self.0[path].1.as_bytes())))
    }
}
