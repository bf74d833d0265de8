//! The tree that a run sees: inodes made as they are looked up, over sources that do not change.

use crate::body::Body;
use crate::inode::{Accessed, DirectoryNode, FileNode, Inode, InodeId, Node, ROOT, Realm};
use crate::observe::Observations;
use crate::store::Store;
use crate::{Errno, Fault, FileContent, SourceNode, Trap, TreeSource, limits};
use opship_record::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind};
use opship_record::{PathError, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the scratch directory in the root.
const SCRATCH: &str = "tmp";
/// What an inode takes of the host's memory, and what a name in a directory does besides its bytes, about.
const INODE: usize = 320;
const NAME: usize = 96;

pub(crate) struct Tree {
    pub(crate) source: Arc<dyn TreeSource>,
    pub(crate) mounts: Vec<Arc<dyn TreeSource>>,
    pub(crate) inodes: Vec<Inode>,
    /// Directories of the source that were looked up, by their place there.
    pub(crate) directories: BTreeMap<TreePath, InodeId>,
    pub(crate) observations: Observations,
    pub(crate) store: Store,
    /// Names that resolve but are not listed: mounts, and what leads to them.
    hidden: BTreeMap<InodeId, BTreeMap<String, InodeId>>,
    scratch: InodeId,
    last_number: u64,
    limit: u64,
}

impl Tree {
    pub(crate) fn new(source: Arc<dyn TreeSource>, store: Store, limit: u64) -> Tree {
        // The root's bits are in no version, so they are the same everywhere.
        let mut root = new_inode(Realm::Tree, Node::Directory(DirectoryNode::default()), 0);
        (root.origin, root.names) = (Some(TreePath::root()), 1);
        let mut scratch = new_inode(Realm::Scratch, Node::Directory(DirectoryNode::default()), 0);
        scratch.names = 1;
        Tree {
            source,
            mounts: Vec::new(),
            inodes: vec![root, scratch],
            directories: BTreeMap::from([(TreePath::root(), ROOT)]),
            observations: Observations::default(),
            store,
            hidden: BTreeMap::new(),
            scratch: 1,
            last_number: 0,
            limit,
        }
    }

    pub(crate) fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id]
    }

    pub(crate) fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id]
    }

    pub(crate) fn source_of(&self, realm: Realm) -> &Arc<dyn TreeSource> {
        match realm {
            Realm::Mount(index) => self.mounts.get(index).unwrap_or(&self.source),
            Realm::Tree | Realm::Scratch => &self.source,
        }
    }

    /// Counts memory of the host, and ends a run that takes too much of it.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Fault> {
        self.store.hold(bytes as u64);
        self.store.check_held()
    }

    fn add(&mut self, inode: Inode) -> Result<InodeId, Fault> {
        if self.inodes.len() as u64 >= self.limit {
            return Err(Fault::Limit { what: "files, directories and links", limit: self.limit });
        }
        let target = if let Node::Symlink(target) = &inode.node { target.len() } else { 0 };
        let origin = inode.origin.as_ref().map_or(0, |origin| 2 * origin.as_str().len());
        self.hold(INODE + target + origin)?;
        self.inodes.push(inode);
        Ok(self.inodes.len() - 1)
    }

    /// The inode number that the guest sees; they count up in the order in which it sees them.
    pub(crate) fn number(&mut self, id: InodeId) -> u64 {
        if self.inodes[id].number == 0 {
            self.last_number += 1;
            self.inodes[id].number = self.last_number;
        }
        self.inodes[id].number
    }

    /// What `name` leads to in a directory. Links are not followed.
    pub(crate) fn lookup(&mut self, directory: InodeId, name: &str) -> Result<Option<InodeId>, Trap> {
        if let Some(id) = self.hidden.get(&directory).and_then(|names| names.get(name)) {
            return Ok(Some(*id));
        }
        let inode = &self.inodes[directory];
        if let Some(entry) = inode.directory().and_then(|d| d.entries.get(name)) {
            return Ok(*entry);
        }
        let Some(path) = inode.origin.as_ref().and_then(|origin| origin.join(name).ok()) else { return Ok(None) };
        let realm = inode.realm;
        match self.source_of(realm).stat(&path)? {
            Some(node) => Ok(Some(self.load(directory, name, path, node)?)),
            None if directory == ROOT && name == SCRATCH => {
                self.observations.absent(path.clone(), path, Kind::Directory);
                Ok(Some(self.scratch))
            }
            None => Ok(None),
        }
    }

    /// Makes the inode of something that the source holds.
    fn load(&mut self, directory: InodeId, name: &str, path: TreePath, node: SourceNode) -> Result<InodeId, Fault> {
        let realm = self.inodes[directory].realm;
        let (mode, mtime, node) = match node {
            SourceNode::File { mode, mtime, length } => {
                (mode, mtime, Node::File(FileNode { length, ..FileNode::default() }))
            }
            SourceNode::Directory { mode } => (
                mode,
                0,
                Node::Directory(DirectoryNode { parent: directory, name: name.to_owned(), ..DirectoryNode::default() }),
            ),
            SourceNode::Symlink { mtime, target } => (0o777, mtime, Node::Symlink(target)),
        };
        let mut inode = new_inode(realm, node, mtime);
        (inode.mode, inode.names) = (mode, 1);
        let is_tree_directory = realm == Realm::Tree && inode.kind() == Kind::Directory;
        inode.origin = Some(path.clone());
        let id = self.add(inode)?;
        if is_tree_directory {
            self.directories.insert(path, id);
        }
        self.store.hold((NAME + 2 * name.len()) as u64);
        if let Some(parent) = self.directory_mut(directory) {
            parent.entries.insert(name.to_owned(), Some(id));
            let number = parent.listed.remove(name);
            self.inodes[id].number = number.unwrap_or(0);
        }
        Ok(id)
    }

    pub(crate) fn directory_mut(&mut self, id: InodeId) -> Option<&mut DirectoryNode> {
        match &mut self.inodes[id].node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// The source's content of a file that the run has not written.
    pub(crate) fn content(&mut self, id: InodeId) -> Result<Option<Arc<dyn FileContent>>, Trap> {
        let inode = &self.inodes[id];
        let Some(file) = inode.file() else { return Ok(None) };
        if file.content.is_some() {
            return Ok(file.content.clone());
        }
        let Some(origin) = &inode.origin else { return Ok(None) };
        let content = self.source_of(inode.realm).open(origin)?;
        if let Node::File(file) = &mut self.inodes[id].node {
            file.content = Some(Arc::clone(&content));
        }
        Ok(Some(content))
    }

    /// Makes a file's bytes the run's own, the first `keep` of them copied.
    pub(crate) fn own(&mut self, id: InodeId, keep: u64) -> Result<(), Trap> {
        if self.inodes[id].file().is_none_or(|file| file.produced.is_some()) {
            return Ok(());
        }
        let body = match self.content(id)? {
            Some(content) if keep > 0 => Body::copy_of(&*content, keep, &mut self.store)?,
            _ => Body::new(),
        };
        if let Node::File(file) = &mut self.inodes[id].node {
            file.produced = Some(Box::new(body));
            file.content = None;
        }
        Ok(())
    }

    /// Names, kinds and inode numbers in a directory, in byte order of the names.
    pub(crate) fn list(&mut self, id: InodeId) -> Result<Vec<(String, Kind, u64)>, Trap> {
        let mut listed = self.names(id)?;
        for (name, _, number) in &mut listed {
            let known = self.inodes[id].directory().and_then(|d| d.entries.get(name.as_str()).copied()).flatten();
            *number = match known {
                Some(child) => self.number(child),
                None => self.listed_number(id, name),
            };
        }
        Ok(listed)
    }

    fn listed_number(&mut self, id: InodeId, name: &str) -> u64 {
        let next = self.last_number + 1;
        let Some(directory) = self.directory_mut(id) else { return 0 };
        if let Some(number) = directory.listed.get(name) {
            return *number;
        }
        directory.listed.insert(name.to_owned(), next);
        self.store.hold((NAME + name.len()) as u64);
        self.last_number = next;
        next
    }

    fn names(&mut self, id: InodeId) -> Result<Vec<(String, Kind, u64)>, Trap> {
        self.observe_listing(id);
        let inode = &self.inodes[id];
        let Some(directory) = inode.directory() else { return Err(Errno::Notdir.into()) };
        let below = match &inode.origin {
            Some(origin) => self.source_of(inode.realm).list(origin)?,
            None => Vec::new(),
        };
        let mut all: Vec<_> = below
            .into_iter()
            .filter(|(name, _)| !directory.entries.contains_key(name))
            .map(|(name, kind)| (name, kind, 0))
            .collect();
        let own = directory.entries.iter().filter_map(|(name, child)| Some((name, (*child)?)));
        all.extend(own.map(|(name, child)| (name.clone(), self.inodes[child].kind(), 0)));
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    fn is_empty(&mut self, id: InodeId) -> Result<bool, Trap> {
        Ok(self.names(id)?.is_empty())
    }

    /// Makes something new under a free name.
    pub(crate) fn create(&mut self, directory: InodeId, name: &str, node: Node, mtime: i64) -> Result<InodeId, Trap> {
        self.check_new_name(directory, name)?;
        let inode = new_inode(self.inodes[directory].realm, node, mtime);
        let id = self.add(inode)?;
        self.put(directory, name, id);
        Ok(id)
    }

    /// Can `name` be made in this directory?
    pub(crate) fn check_new_name(&self, directory: InodeId, name: &str) -> Result<(), Trap> {
        let inode = &self.inodes[directory];
        if matches!(inode.realm, Realm::Mount(_)) {
            return Err(Errno::Rofs.into());
        }
        self.store.check_held()?;
        // A directory that was removed while it was open takes nothing new.
        if inode.names == 0 {
            return Err(Errno::Noent.into());
        }
        match TreePath::root().join(name) {
            Ok(_) => {}
            Err(PathError::TooLong { .. }) => return Err(Errno::Nametoolong.into()),
            Err(_) => return Err(Errno::Perm.into()),
        }
        if self.depth_bytes(directory) + name.len() > opship_record::limits::MAX_PATH {
            return Err(Errno::Nametoolong.into());
        }
        Ok(())
    }

    /// Length of a directory's path with a slash behind it.
    fn depth_bytes(&self, directory: InodeId) -> usize {
        let names = self.ancestors(directory).into_iter().filter_map(|id| self.inodes[id].directory());
        names.map(|node| if node.name.is_empty() { 0 } else { node.name.len() + 1 }).sum()
    }

    /// A directory and those above it, the root last.
    pub(crate) fn ancestors(&self, directory: InodeId) -> Vec<InodeId> {
        let mut chain = vec![directory];
        let mut at = directory;
        while at != ROOT && at != self.scratch {
            let Some(node) = self.inodes[at].directory() else { break };
            at = node.parent;
            chain.push(at);
        }
        chain
    }

    /// Lets `name` lead to an inode.
    pub(crate) fn put(&mut self, directory: InodeId, name: &str, id: InodeId) {
        self.inodes[id].names += 1;
        // Names are never given back: one that was taken away is kept as such.
        self.store.hold((NAME + 2 * name.len()) as u64);
        if let Some(node) = self.directory_mut(directory) {
            node.entries.insert(name.to_owned(), Some(id));
        }
        if let Some(moved) = self.directory_mut(id) {
            moved.parent = directory;
            moved.name = name.to_owned();
        }
    }

    /// Takes a name away; what no name and no descriptor leads to is dropped.
    pub(crate) fn take(&mut self, directory: InodeId, name: &str) {
        let Some(node) = self.directory_mut(directory) else { return };
        if let Some(Some(id)) = node.entries.insert(name.to_owned(), None) {
            self.inodes[id].names = self.inodes[id].names.saturating_sub(1);
            self.drop_unused(id);
        }
    }

    /// A descriptor of it was closed: what only open files need is given back.
    pub(crate) fn closed(&mut self, id: InodeId) {
        let inode = &mut self.inodes[id];
        if inode.opens == 0
            && let Node::File(file) = &mut inode.node
        {
            file.content = None;
            if let Some(body) = &mut file.produced {
                body.settle(&mut self.store);
            }
        }
        self.drop_unused(id);
    }

    fn drop_unused(&mut self, id: InodeId) {
        let inode = &mut self.inodes[id];
        if inode.names > 0 || inode.opens > 0 {
            return;
        }
        if let Node::File(file) = &mut inode.node
            && let Some(body) = file.produced.take()
        {
            body.release(&mut self.store);
        }
    }

    /// Refuses to change what is a mount, leads to one or is the scratch directory itself.
    pub(crate) fn check_movable(&self, directory: InodeId, name: &str, id: InodeId) -> Result<(), Trap> {
        let is_hidden = self.hidden.get(&directory).is_some_and(|names| names.contains_key(name));
        if id == ROOT || id == self.scratch || is_hidden || self.hidden.contains_key(&id) {
            return Err(Errno::Busy.into());
        }
        match self.inodes[directory].realm {
            Realm::Mount(_) => Err(Errno::Rofs.into()),
            _ => Ok(()),
        }
    }

    /// Refuses to take away a directory that holds something.
    pub(crate) fn check_empty(&mut self, id: InodeId) -> Result<(), Trap> {
        if self.is_empty(id)? { Ok(()) } else { Err(Errno::Notempty.into()) }
    }

    /// Stands a read-only tree at a path where nothing is.
    pub(crate) fn mount(&mut self, path: &TreePath, source: Arc<dyn TreeSource>) -> Result<(), Trap> {
        let refuse = |detail: &str| Fault::Refused { detail: format!("mount '{path}': {detail}") };
        self.mounts.push(source);
        let realm = Realm::Mount(self.mounts.len() - 1);
        let names: Vec<&str> = path.components().collect();
        let mut at = ROOT;
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            // The scratch directory gives way to a mount.
            let found = self.lookup(at, name)?.filter(|id| *id != self.scratch);
            at = match found {
                Some(_) if is_last => return Err(refuse("the tree holds that path; mount elsewhere").into()),
                Some(id) if self.inodes[id].directory().is_some() => id,
                Some(_) => return Err(refuse("a file or link is in the way; mount elsewhere").into()),
                None => {
                    self.observe_missing(at, name, &names[index + 1..]);
                    let mut inode = new_inode(realm, Node::Directory(DirectoryNode::default()), 0);
                    inode.origin = is_last.then(TreePath::root);
                    inode.names = 1;
                    let id = self.add(inode)?;
                    if let Some(node) = self.directory_mut(id) {
                        node.parent = at;
                        node.name = (*name).to_owned();
                    }
                    self.hidden.entry(at).or_default().insert((*name).to_owned(), id);
                    id
                }
            };
        }
        Ok(())
    }

    /// Takes all mounts away.
    pub(crate) fn unmount_all(&mut self) {
        self.hidden.clear();
    }

    /// Directories that lead from the root to all that is left of the tree.
    pub(crate) fn reachable(&self) -> BTreeSet<InodeId> {
        let mut found = BTreeSet::from([ROOT]);
        let mut open = vec![ROOT];
        while let Some(id) = open.pop() {
            let Some(node) = self.inodes[id].directory() else { continue };
            for child in node.entries.values().flatten() {
                if self.inodes[*child].directory().is_some() && found.insert(*child) {
                    open.push(*child);
                }
            }
        }
        found
    }
}

/// The longest length that a file may have is checked where lengths come from the guest.
pub(crate) fn check_length(length: u64) -> Result<(), Trap> {
    if length > limits::FILE_SIZE { Err(Errno::Fbig.into()) } else { Ok(()) }
}

fn new_inode(realm: Realm, node: Node, mtime: i64) -> Inode {
    let mode = match node {
        Node::Directory(_) => DEFAULT_DIRECTORY_MODE,
        Node::File(_) => DEFAULT_FILE_MODE,
        Node::Symlink(_) => 0o777,
    };
    Inode {
        realm,
        origin: None,
        number: 0,
        names: 0,
        opens: 0,
        mode,
        mode_set: false,
        mtime,
        mtime_set: false,
        accessed: Accessed::Modified,
        node,
    }
}
