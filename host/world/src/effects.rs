//! What a run did: its tree compared with the source's.

use crate::body::Made;
use crate::inode::{Inode, InodeId, Node, ROOT};
use crate::tree::Tree;
use crate::{Fault, Produced, SourceNode, Trap};
use opship_record::effect::{After, Before, Change};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind};
use opship_record::{Error, Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};

/// How often a change's paths and targets are held, about.
const COPIES: usize = 6;
/// What a change takes besides, about.
const CHANGE: usize = 128;

pub(crate) struct Effects {
    /// Sorted by path.
    pub(crate) changes: Vec<Change>,
    /// Written contents by final path.
    pub(crate) files: BTreeMap<TreePath, Produced>,
}

impl Effects {
    pub(crate) fn of(tree: &mut Tree) -> Result<Effects, Fault> {
        detach_own_descendants(tree)?;
        let alive = tree.reachable();
        let mut walk = Walk { tree, alive, changes: BTreeMap::new(), produced: BTreeMap::new() };
        walk.directory(ROOT, &TreePath::root(), &Below::Kept(TreePath::root()))?;
        let Walk { tree, changes, produced, .. } = walk;
        let mut files = BTreeMap::new();
        for (first, paths) in produced.into_values() {
            for path in paths {
                files.insert(path, tree.store.duplicate(&first.0)?);
            }
            files.insert(first.1, first.0.produced);
        }
        let changes = changes.into_iter().map(|(path, (before, after))| Change { path, before, after });
        Ok(Effects { changes: changes.collect(), files })
    }
}

/// A directory cannot be recorded as moved below its own old place (`mv a t; mkdir a; mv t a/b`). It becomes a new one
/// with all that it holds.
fn detach_own_descendants(tree: &mut Tree) -> Result<(), Fault> {
    let mut open = vec![(ROOT, TreePath::root())];
    while let Some((id, path)) = open.pop() {
        let Some(origin) = tree.inode(id).tree_origin().cloned() else {
            push_children(tree, id, &path, &mut open)?;
            continue;
        };
        if path != origin && path.starts_with(&origin) {
            for (name, _) in tree.source.list(&origin)? {
                tree.lookup(id, &name).map_err(fault)?;
            }
            tree.directories.remove(&origin);
            tree.inode_mut(id).origin = None;
        }
        push_children(tree, id, &path, &mut open)?;
    }
    Ok(())
}

fn push_children(
    tree: &mut Tree,
    id: InodeId,
    path: &TreePath,
    open: &mut Vec<(InodeId, TreePath)>,
) -> Result<(), Fault> {
    let Some(directory) = tree.inode(id).directory() else { return Ok(()) };
    let before = open.len();
    for (name, child) in &directory.entries {
        if let Some(child) = child.filter(|child| tree.inode(*child).directory().is_some()) {
            open.push((child, join(path, name)?));
        }
    }
    tree.hold(open[before..].iter().map(|(_, path)| path.as_str().len()).sum())
}

/// What the states before of a directory's children are compared with, as [`opship_record::effect::Origins`] maps them.
enum Below {
    /// The directory stands on the source's at this path.
    Kept(TreePath),
    /// It is new where the source had a directory that did not move: what that one held must go by name.
    Replaced(TreePath),
    /// Nothing was there: the first missing component and the kind of what stood above it.
    Missing(TreePath, Kind),
    /// Nothing was there, since something of this kind stood in its place.
    Under(Kind),
}

struct Walk<'a> {
    tree: &'a mut Tree,
    /// Directories that are still somewhere in the tree.
    alive: BTreeSet<InodeId>,
    changes: BTreeMap<TreePath, (Before, After)>,
    produced: BTreeMap<InodeId, ((Made, TreePath), Vec<TreePath>)>,
}

/// A name in a directory: where it is now, what the source held of it and where.
struct Spot<'a> {
    path: &'a TreePath,
    source: Option<(TreePath, SourceNode)>,
}

impl Walk<'_> {
    fn directory(&mut self, id: InodeId, path: &TreePath, below: &Below) -> Result<(), Fault> {
        let Some(directory) = self.tree.inode(id).directory() else { return Ok(()) };
        let mut names: BTreeMap<String, Option<InodeId>> = directory.entries.clone();
        if let Below::Replaced(origin) = below {
            for (name, _) in self.tree.source.list(origin)? {
                names.entry(name).or_insert(None);
            }
        }
        for (name, child) in names {
            let child_path = join(path, &name);
            let source = match below {
                Below::Kept(origin) | Below::Replaced(origin) => self.source(origin, &name)?,
                Below::Missing(..) | Below::Under(_) => None,
            };
            // A name that cannot be recorded does not matter if there is nothing.
            if source.is_none() && child.is_none() {
                continue;
            }
            let child_path = child_path?;
            let spot = Spot { path: &child_path, source };
            match child {
                None => self.removed(&spot)?,
                Some(child) => self.present(child, &spot, below)?,
            }
        }
        Ok(())
    }

    fn source(&mut self, origin: &TreePath, name: &str) -> Result<Option<(TreePath, SourceNode)>, Fault> {
        self.tree.store.looked_up()?;
        let Ok(path) = origin.join(name) else { return Ok(None) };
        Ok(self.tree.source.stat(&path)?.map(|node| (path, node)))
    }

    /// Is the source's directory at `origin` now at another place?
    fn has_left(&self, origin: &TreePath) -> bool {
        self.tree.directories.get(origin).is_some_and(|id| self.alive.contains(id))
    }

    fn removed(&mut self, spot: &Spot<'_>) -> Result<(), Fault> {
        let before = self.before(spot, None)?;
        self.put(spot.path.clone(), before, After::Removed)?;
        self.removed_below(spot)
    }

    /// What a directory of the source held that is no more, each by name.
    fn removed_below(&mut self, spot: &Spot<'_>) -> Result<(), Fault> {
        for (path, source, node) in self.gone_below(spot)? {
            let gone = Spot { path: &path, source: Some((source, node)) };
            let before = self.before(&gone, None)?;
            self.put(path, before, After::Removed)?;
        }
        Ok(())
    }

    /// All paths below a directory of the source that did not move: where they would be now, and where they were.
    fn gone_below(&mut self, spot: &Spot<'_>) -> Result<Vec<(TreePath, TreePath, SourceNode)>, Fault> {
        let mut gone = Vec::new();
        let mut open = Vec::new();
        if let Some((origin, SourceNode::Directory { .. })) = &spot.source
            && !self.has_left(origin)
        {
            open.push((spot.path.clone(), origin.clone()));
        }
        while let Some((path, origin)) = open.pop() {
            for (name, _) in self.tree.source.list(&origin)? {
                let Some((origin, node)) = self.source(&origin, &name)? else { continue };
                let path = join(&path, &name)?;
                if node.kind() == Kind::Directory && !self.has_left(&origin) {
                    open.push((path.clone(), origin.clone()));
                }
                gone.push((path, origin, node));
            }
        }
        Ok(gone)
    }

    /// Where another directory was moved over this one, what it held cannot be named as removed: its paths now mean what
    /// came. That it was there is kept as observations.
    fn observe_below(&mut self, spot: &Spot<'_>) -> Result<(), Fault> {
        for (_, origin, node) in self.gone_below(spot)? {
            match node {
                SourceNode::File { .. } => {
                    let hash = self.source_hash(&origin)?;
                    self.tree.observations.content(&origin, hash);
                }
                SourceNode::Directory { .. } => self.tree.observations.exists(&origin),
                SourceNode::Symlink { .. } => self.tree.observations.target(&origin),
            }
        }
        Ok(())
    }

    fn present(&mut self, id: InodeId, spot: &Spot<'_>, below: &Below) -> Result<(), Fault> {
        let inode = self.tree.inode(id);
        let in_place = match (&spot.source, inode.tree_origin()) {
            (Some((source, _)), Some(origin)) => source == origin,
            _ => false,
        };
        match &inode.node {
            Node::Directory(_) => return self.present_directory(id, spot, below, in_place),
            Node::File(file) if !in_place || file.produced.is_some() || self.produced.contains_key(&id) => {
                let after = self.file_after(id, spot)?;
                self.changed(spot, below, after)?;
            }
            Node::Symlink(target) if !in_place => {
                let after = After::Symlink { target: target.clone(), mtime: inode.mtime };
                self.changed(spot, below, after)?;
            }
            Node::File(_) | Node::Symlink(_) => {
                if let Some(after) = metadata(inode) {
                    let before = Before::Kind { kind: inode.kind() };
                    self.put(spot.path.clone(), before, after)?;
                }
                return Ok(());
            }
        }
        if in_place { Ok(()) } else { self.removed_below(spot) }
    }

    fn put(&mut self, path: TreePath, before: Before, after: After) -> Result<(), Fault> {
        self.tree.hold(change_bytes(&path, &before, &after))?;
        self.changes.insert(path, (before, after));
        Ok(())
    }

    fn changed(&mut self, spot: &Spot<'_>, below: &Below, after: After) -> Result<(), Fault> {
        let before = self.before(spot, Some(below))?;
        self.put(spot.path.clone(), before, after)
    }

    fn present_directory(&mut self, id: InodeId, spot: &Spot<'_>, below: &Below, in_place: bool) -> Result<(), Fault> {
        let inode = self.tree.inode(id);
        if in_place {
            if let Some(after) = metadata(inode) {
                let before = Before::Kind { kind: Kind::Directory };
                self.put(spot.path.clone(), before, after)?;
            }
            let origin = spot.source.as_ref().map(|(origin, _)| origin.clone()).unwrap_or_default();
            return self.directory(id, spot.path, &Below::Kept(origin));
        }
        if let Some(from) = inode.tree_origin().cloned() {
            let mode = inode.mode_set.then_some(inode.mode);
            self.changed(spot, below, After::Moved { from: from.clone(), mode })?;
            self.observe_below(spot)?;
            return self.directory(id, spot.path, &Below::Kept(from));
        }
        let mode = explicit_mode(inode, spot.source.as_ref());
        let next = match &spot.source {
            Some((origin, SourceNode::Directory { .. })) if !self.has_left(origin) => {
                // Removed and made again.
                self.changed(spot, below, After::Directory { mode })?;
                return self.directory(id, spot.path, &Below::Replaced(origin.clone()));
            }
            Some((_, node)) => Below::Under(node.kind()),
            None => match self.before(spot, Some(below))? {
                Before::Absent { missing, above } => Below::Missing(missing, above),
                _ => Below::Under(Kind::Directory),
            },
        };
        self.changed(spot, below, After::Directory { mode })?;
        self.directory(id, spot.path, &next)
    }

    /// The state before. Without `below` there was something.
    fn before(&self, spot: &Spot<'_>, below: Option<&Below>) -> Result<Before, Fault> {
        Ok(match (&spot.source, below) {
            (Some((origin, SourceNode::File { .. })), _) => Before::File { hash: self.source_hash(origin)? },
            (Some((_, SourceNode::Directory { .. })), _) => Before::Directory,
            (Some((_, SourceNode::Symlink { target, .. })), _) => Before::Symlink { target: target.clone() },
            (None, Some(Below::Missing(missing, above))) => Before::Absent { missing: missing.clone(), above: *above },
            (None, Some(Below::Under(above))) => Before::Absent { missing: spot.path.clone(), above: *above },
            (None, _) => Before::Absent { missing: spot.path.clone(), above: Kind::Directory },
        })
    }

    fn source_hash(&self, origin: &TreePath) -> Result<Hash, Fault> {
        Ok(self.tree.source.open(origin)?.hash()?)
    }

    fn file_after(&mut self, id: InodeId, spot: &Spot<'_>) -> Result<After, Fault> {
        let inode = self.tree.inode_mut(id);
        let (mode, mtime) = (explicit_mode(inode, spot.source.as_ref()), inode.mtime);
        if let Node::File(file) = &mut inode.node
            && let Some(body) = file.produced.take()
        {
            let made = body.finish(&mut self.tree.store)?;
            let Produced { length, hash, .. } = made.produced;
            self.produced.insert(id, ((made, spot.path.clone()), Vec::new()));
            return Ok(After::File { length, hash, mode, mtime });
        }
        if let Some(((made, _), paths)) = self.produced.get_mut(&id) {
            let after = After::File { length: made.produced.length, hash: made.produced.hash, mode, mtime };
            paths.push(spot.path.clone());
            return Ok(after);
        }
        let length = inode.length();
        let inode = self.tree.inode(id);
        // Opened and closed again: there may be more such files than descriptors.
        let hash = match &inode.origin {
            Some(origin) => self.tree.source_of(inode.realm).open(origin)?.hash()?,
            None => Hash::of_empty(),
        };
        Ok(After::File { length, hash, mode, mtime })
    }
}

/// Bytes of the host's memory that a change takes, about: its paths and targets are held several times over, here, in the
/// lists and by whoever applies them.
fn change_bytes(path: &TreePath, before: &Before, after: &After) -> usize {
    let before = match before {
        Before::Absent { missing, .. } => missing.as_str().len(),
        Before::Symlink { target } => target.len(),
        _ => 0,
    };
    let after = match after {
        After::Symlink { target, .. } => target.len(),
        After::Moved { from, .. } => from.as_str().len(),
        _ => 0,
    };
    COPIES * (path.as_str().len() + before + after + CHANGE)
}

/// What was set of something whose content is untouched.
fn metadata(inode: &Inode) -> Option<After> {
    let mode = inode.mode_set.then_some(inode.mode);
    let mtime = (inode.mtime_set && inode.kind() != Kind::Directory).then_some(inode.mtime);
    (mode.is_some() || mtime.is_some()).then(|| After::Metadata { kind: inode.kind(), mode, mtime })
}

/// The mode to record: none where the run set none and what stood at the path is still there, or where something new has
/// the default. What takes another's place says its mode even if that one's is the same, since nobody looked at it.
fn explicit_mode(inode: &Inode, source: Option<&(TreePath, SourceNode)>) -> Option<u16> {
    let replaced = source.filter(|(_, node)| node.kind() == inode.kind());
    let is_kept = match replaced {
        Some((origin, _)) => inode.tree_origin() == Some(origin),
        None if inode.kind() == Kind::Directory => inode.mode == DEFAULT_DIRECTORY_MODE,
        None => inode.mode == DEFAULT_FILE_MODE,
    };
    (inode.mode_set || !is_kept).then_some(inode.mode)
}

fn join(path: &TreePath, name: &str) -> Result<TreePath, Fault> {
    path.join(name).map_err(|error| Fault::Record(Error::Path(error)))
}

/// What a call would have told the guest ends the run: there is no guest any more.
fn fault(trap: Trap) -> Fault {
    match trap {
        Trap::Fault(fault) => fault,
        Trap::Errno(_) | Trap::Exit(_) => Fault::Refused { detail: "the tree changed while it was read".to_owned() },
    }
}
