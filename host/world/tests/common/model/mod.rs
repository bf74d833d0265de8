//! A world as simple as it can be: inodes, names, and descriptors with a position. What it gives, a world must give.

use super::*;
use opship_record::Hash;
use opship_record::node::{Kind, Node};

mod files;
mod ops;
mod paths;

pub use ops::Op;

/// What a call gives: its errno, or what the guest finds in its memory, as bytes that can be compared.
pub type Given = Outcome1<Vec<u8>>;

pub const ALL: u64 = u64::MAX;
pub const FBIG: u64 = opship_world::limits::FILE_SIZE;

type Id = usize;

#[derive(Debug, Clone)]
enum Body {
    File(Vec<u8>),
    Directory { entries: BTreeMap<String, Id>, parent: Id },
    Symlink(String),
}

#[derive(Debug, Clone)]
struct Inode {
    body: Body,
    mode: u16,
    mtime: i64,
    names: u64,
    /// What the guest knows it by; 0 if it has not seen it.
    number: u64,
}

#[derive(Debug, Clone)]
enum Open {
    Stdin,
    /// Standard output or standard error.
    Stream(usize),
    File {
        id: Id,
        position: u64,
        read: bool,
        write: bool,
    },
    /// With the listing that is being read.
    Directory {
        id: Id,
        listing: Option<Vec<(String, u8, u64)>>,
    },
}

#[derive(Debug, Clone)]
struct Descriptor {
    open: Open,
    flags: u16,
}

/// The state of the run.
#[derive(Debug, Clone)]
pub struct Model {
    inodes: Vec<Inode>,
    descriptors: BTreeMap<u32, Descriptor>,
    pub streams: [Vec<u8>; 2],
    numbers: u64,
    now: i64,
}

impl Model {
    /// An empty tree, with the descriptors that a step starts with.
    pub fn new() -> Model {
        let root = Body::Directory { entries: BTreeMap::new(), parent: 0 };
        let inodes = vec![Inode { body: root, mode: 0o755, mtime: 0, names: 1, number: 0 }];
        let opened = [Open::Stdin, Open::Stream(0), Open::Stream(1), Open::Directory { id: 0, listing: None }];
        let opened = opened.map(|open| Descriptor { open, flags: 0 });
        Model {
            inodes,
            descriptors: (0..).zip(opened).collect(),
            streams: [Vec::new(), Vec::new()],
            numbers: 0,
            now: START as i64,
        }
    }

    /// A new run on what this one left.
    pub fn again(&self) -> (MemoryTree, Model) {
        let mut next = Model::new();
        let mut source = MemoryTree::new();
        for (path, id) in self.names() {
            let Inode { body, mode, mtime, .. } = self.inodes[id].clone();
            source = match &body {
                Body::File(bytes) => source.file_with(path.as_str(), bytes, mode, mtime),
                Body::Directory { .. } => source.directory(path.as_str()),
                Body::Symlink(target) => source.symlink(path.as_str(), target),
            };
            let mode = if matches!(body, Body::Directory { .. }) { 0o755 } else { mode };
            let mtime = if matches!(body, Body::Symlink(_)) { 0 } else { mtime };
            let body = match body {
                Body::Directory { .. } => Body::Directory { entries: BTreeMap::new(), parent: 0 },
                other => other,
            };
            let (above, name) = (path.parent().unwrap(), path.name().unwrap().to_owned());
            let above = above.components().fold(0, |at, name| next.child(at, name).unwrap());
            next.make(above, name, Inode { body, mode, mtime, names: 0, number: 0 });
        }
        (source, next)
    }

    /// Everything in the tree, a directory before what it holds.
    fn names(&self) -> Vec<(TreePath, Id)> {
        let (mut all, mut open) = (Vec::new(), vec![(TreePath::root(), 0)]);
        while let Some((at, id)) = open.pop() {
            let Body::Directory { entries, .. } = &self.inodes[id].body else { continue };
            for (name, id) in entries {
                let path = at.join(name).unwrap();
                all.push((path.clone(), *id));
                open.push((path, *id));
            }
        }
        all
    }

    /// The tree as a version keeps it.
    pub fn tree(&self) -> BTreeMap<TreePath, Node> {
        let node = |inode: &Inode| match &inode.body {
            Body::File(bytes) => {
                Node::File { mode: inode.mode, mtime: inode.mtime, length: bytes.len() as u64, hash: Hash::of(bytes) }
            }
            Body::Directory { .. } => Node::Directory { mode: inode.mode },
            Body::Symlink(target) => Node::Symlink { mtime: inode.mtime, target: target.clone().into_bytes() },
        };
        self.names().into_iter().map(|(path, id)| (path, node(&self.inodes[id]))).collect()
    }

    fn child(&self, directory: Id, name: &str) -> Option<Id> {
        match &self.inodes[directory].body {
            Body::Directory { entries, .. } => entries.get(name).copied(),
            _ => None,
        }
    }

    fn kind(&self, id: Id) -> Kind {
        match self.inodes[id].body {
            Body::File(_) => Kind::File,
            Body::Directory { .. } => Kind::Directory,
            Body::Symlink(_) => Kind::Symlink,
        }
    }

    fn file_type(&self, id: Id) -> u8 {
        match self.kind(id) {
            Kind::Directory => 3,
            Kind::File => 4,
            Kind::Symlink => 7,
        }
    }

    fn make(&mut self, directory: Id, name: String, inode: Inode) -> Id {
        self.inodes.push(inode);
        let id = self.inodes.len() - 1;
        self.put(directory, name, id);
        id
    }

    fn put(&mut self, directory: Id, name: String, id: Id) {
        self.inodes[id].names += 1;
        if let Body::Directory { parent, .. } = &mut self.inodes[id].body {
            *parent = directory;
        }
        if let Body::Directory { entries, .. } = &mut self.inodes[directory].body {
            entries.insert(name, id);
        }
    }

    fn take(&mut self, directory: Id, name: &str) {
        if let Body::Directory { entries, .. } = &mut self.inodes[directory].body
            && let Some(id) = entries.remove(name)
        {
            self.inodes[id].names -= 1;
        }
    }

    fn number(&mut self, id: Id) -> u64 {
        if self.inodes[id].number == 0 {
            self.numbers += 1;
            self.inodes[id].number = self.numbers;
        }
        self.inodes[id].number
    }

    /// What stat shows: type, links, size, number, modification time.
    fn stat(&mut self, id: Id) -> Vec<u8> {
        let number = self.number(id);
        let inode = &self.inodes[id];
        let (links, size, time) = match &inode.body {
            Body::File(bytes) => (inode.names, bytes.len() as u64, inode.mtime as u64),
            Body::Directory { .. } => (1, 0, START),
            Body::Symlink(target) => (inode.names, target.len() as u64, inode.mtime as u64),
        };
        stat_bytes(self.file_type(id), links, size, number, time)
    }
}

/// A stat as bytes that can be compared.
fn stat_bytes(file_type: u8, links: u64, size: u64, number: u64, time: u64) -> Vec<u8> {
    let numbers = [u64::from(file_type), links, size, number, time];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
