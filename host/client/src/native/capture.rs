//! What a program may destroy, as it was before the program started.
//!
//! Copies are made of small inputs, since a program may write into a file in place; what is larger is held open, which
//! keeps the bytes of a file that is removed or replaced, and shows whether it was written into. Nothing of this has a name
//! on disk, so a process that is killed leaves nothing behind.

use super::words::{NativeCommand, below};
use crate::db::index::Row;
use crate::fs::{Signature, clock_nanos, copy_hashed, now_nanos};
use crate::staging::STAGING;
use crate::tree::{Sight, View, Visible};
use crate::working_copy::Shared;
use crate::{ClientError, WorkingCopy};
use minicbor::{Decode, Encode};
use opship_record::node::{Content, Kind, Node};
use opship_record::{Hash, TreePath};
use opship_world::SourceNode;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Most paths that are captured, those in named directories included.
pub(super) const MAX_PATHS: usize = 1024;
/// Most files of which copies or descriptors are held. Of the others the bytes are known while the program leaves them alone.
const MAX_HELD: usize = 256;
/// Most bytes of a file that is copied; also a copy that shares blocks is read for its hash.
const COPY_BYTES: u64 = 4 << 20;
/// Most bytes that are copied in all.
const COPY_ALL_BYTES: u64 = 16 << 20;

/// What was known before the program started.
#[derive(Debug)]
pub struct Before {
    pub(super) start: Start,
    pub(super) held: BTreeMap<TreePath, File>,
}

/// The part of it that can be written down.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct Start {
    /// When, as the file system's times are, in nanoseconds since 1970: what has an older ctime was not touched since.
    #[n(0)]
    pub time: i64,
    /// When, as people's clock says, in nanoseconds since 1970.
    #[n(1)]
    pub clock: i64,
    /// The current directory.
    #[n(2)]
    pub directory: TreePath,
    /// The file of the tree that standard input is, from its beginning.
    #[n(3)]
    pub stdin: Option<TreePath>,
    /// The file of the tree that standard output goes to, empty at the start.
    #[n(4)]
    pub stdout: Option<TreePath>,
    /// The captured paths, sorted.
    #[n(5)]
    pub states: Vec<Captured>,
}

/// A captured path.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct Captured {
    #[n(0)]
    pub path: TreePath,
    /// What was there. A file's hash may be unknown: then it is [`Hash::of_empty`], and `hashed` is `false`.
    #[n(1)]
    pub node: Option<Node>,
    #[n(2)]
    pub hashed: bool,
    /// Signature of what was there: device, inode, size, mtime, ctime.
    #[n(3)]
    pub signature: (u64, u64, u64, i64, i64),
    /// When it was looked at.
    #[n(4)]
    pub taken: i64,
    /// What the index held of it.
    #[n(5)]
    pub row: Option<Node>,
    /// Is what is held a copy? Otherwise it is the file itself.
    #[n(6)]
    pub copied: bool,
}

impl Captured {
    pub(super) fn signature(&self) -> Signature {
        let (device, inode, size, mtime, ctime) = self.signature;
        Signature { device, inode, size, mtime, ctime }
    }

    /// Kind and content, where they are known.
    pub(super) fn content(&self) -> Option<Content> {
        self.node.as_ref().map(Node::content)
    }

    /// The content's hash, of a file of which it is known.
    pub(super) fn hash(&self) -> Option<Hash> {
        match &self.node {
            Some(Node::File { hash, .. }) if self.hashed => Some(*hash),
            _ => None,
        }
    }
}

impl Before {
    /// Captures what a command may destroy: the paths that its arguments name, with all in directories, the files that
    /// standard input and output are, and what `patterns` (as in `.gitignore`) choose of the recorded files. At most
    /// [`MAX_PATHS`] paths; copies of 16 MiB in all.
    ///
    /// # Errors
    /// [`ClientError`] if nothing can be recorded; the program may run all the same.
    pub fn capture(copy: &WorkingCopy, command: &NativeCommand, patterns: &[String]) -> Result<Before, ClientError> {
        let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
        let place = Place {
            directory: command.tree_directory(copy)?,
            stdin: redirected(copy, stdin.as_fd(), Direction::In),
            stdout: redirected(copy, stdout.as_fd(), Direction::Out),
        };
        Before::gather(copy, place, &command.named(copy), patterns)
    }

    /// As [`Before::capture`], of paths that are known.
    pub(super) fn gather(
        copy: &WorkingCopy,
        place: Place,
        paths: &BTreeSet<TreePath>,
        patterns: &[String],
    ) -> Result<Before, ClientError> {
        // Whatever is written while this is gathered counts as written by the program.
        let (time, clock) = (now_nanos(), clock_nanos());
        let mut capture = Capture {
            shared: &copy.shared,
            view: View::new(&copy.shared),
            states: BTreeMap::new(),
            held: BTreeMap::new(),
            copied: 0,
        };
        let Place { directory, stdin, stdout } = place;
        // Not the output: the shell has emptied it already, and the log knows what it was.
        for path in paths.iter().chain(&stdin).filter(|path| Some(*path) != stdout.as_ref()) {
            capture.path(path)?;
        }
        capture.folders(&directory)?;
        if let Some(parent) = stdout.as_ref().and_then(TreePath::parent) {
            capture.folders(&parent)?;
        }
        super::config::chosen(&copy.shared, patterns, MAX_PATHS)?.iter().try_for_each(|path| capture.path(path))?;
        let Capture { states, held, .. } = capture;
        let start = Start { time, clock, directory, stdin, stdout, states: states.into_values().collect() };
        Ok(Before { start, held })
    }
}

/// Where a program runs in the tree.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub directory: TreePath,
    pub stdin: Option<TreePath>,
    pub stdout: Option<TreePath>,
}

struct Capture<'a> {
    shared: &'a Shared,
    view: View,
    states: BTreeMap<TreePath, Captured>,
    held: BTreeMap<TreePath, File>,
    copied: u64,
}

impl Capture<'_> {
    /// Captures a path with the folders above it and, of a directory, all below.
    fn path(&mut self, path: &TreePath) -> Result<(), ClientError> {
        if path.is_root() || self.states.contains_key(path) || self.states.len() >= MAX_PATHS {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folders(&parent)?;
        }
        let row = crate::db::index::get(&self.shared.db.read(), path)?;
        match self.view.look_with(path, row.clone())? {
            Sight::Visible(visible) => {
                let is_directory = visible.node.kind() == Kind::Directory;
                self.visible(path, &visible);
                if is_directory {
                    self.below(path)?;
                }
            }
            Sight::Absent => drop(self.states.insert(path.clone(), absent(path, row))),
            // Not in the tree, or not to be had: the module will not see it either.
            Sight::Hidden(_) | Sight::Broken(_) => {}
        }
        Ok(())
    }

    fn below(&mut self, path: &TreePath) -> Result<(), ClientError> {
        for (name, _) in self.view.list(path)?.names {
            self.path(&path.join(&name).map_err(opship_record::Error::from)?)?;
        }
        Ok(())
    }

    /// Captures folders that no entry has yet.
    fn folders(&mut self, path: &TreePath) -> Result<(), ClientError> {
        for folder in std::iter::successors(Some(path.clone()), TreePath::parent).filter(|path| !path.is_root()) {
            if self.states.contains_key(&folder) {
                break;
            }
            if let Sight::Visible(visible) = self.view.look(&folder)? {
                self.visible(&folder, &visible);
            }
        }
        Ok(())
    }

    fn visible(&mut self, path: &TreePath, visible: &Visible) {
        let known = visible.row.as_ref().filter(|_| visible.trusted).and_then(Row::hash);
        let mut hash = known;
        let mut copied = false;
        if visible.node.kind() == Kind::File
            && self.held.len() < MAX_HELD
            && let Some((file, copy)) = self.hold(path, visible)
        {
            self.held.insert(path.clone(), file);
            copied = copy.is_some();
            hash = copy.or(known);
        }
        let s = &visible.found.signature;
        let captured = Captured {
            path: path.clone(),
            node: crate::values::node_of(&visible.node, Some(hash.unwrap_or_else(Hash::of_empty))),
            hashed: hash.is_some(),
            signature: (s.device, s.inode, s.size, s.mtime, s.ctime),
            taken: visible.taken,
            row: visible.row.as_ref().map(|row| row.node.clone()),
            copied,
        };
        self.states.insert(path.clone(), captured);
    }

    /// A copy of a file, with the hash of it, or the file itself. `None` if it changes meanwhile or cannot be opened.
    fn hold(&mut self, path: &TreePath, visible: &Visible) -> Option<(File, Option<Hash>)> {
        let live = self.shared.root.open_file(path.as_str()).ok()?;
        let same = |file: &File| crate::source::signature_of(file).is_ok_and(|now| now == visible.found.signature);
        if !same(&live) {
            return None;
        }
        let SourceNode::File { length, .. } = visible.node else { return None };
        match self.copy(&live, length) {
            Some((copy, hash)) if same(&live) => Some((copy, Some(hash))),
            Some(_) => None,
            None => Some((live, None)),
        }
    }

    /// A copy without a name, sharing blocks with the original where the file system can do that.
    fn copy(&mut self, live: &File, length: u64) -> Option<(File, Hash)> {
        if length > COPY_BYTES || self.copied + length > COPY_ALL_BYTES {
            return None;
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let mut copy = File::from(self.shared.root.open_at(STAGING, flags, 0o600).ok()?);
        let (copied, hash) = copy_hashed(live, &mut copy, u64::MAX).ok()?;
        self.copied += copied;
        (copied == length).then_some((copy, hash))
    }
}

fn absent(path: &TreePath, row: Option<Row>) -> Captured {
    Captured {
        path: path.clone(),
        node: None,
        hashed: false,
        signature: Default::default(),
        taken: now_nanos(),
        row: row.map(|row| row.node),
        copied: false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// The file of the tree that a descriptor of this process is, where a record can say so: input from the beginning, output
/// into an empty file.
fn redirected(copy: &WorkingCopy, descriptor: BorrowedFd<'_>, direction: Direction) -> Option<TreePath> {
    use std::os::fd::AsRawFd;
    let stat = rustix::fs::fstat(descriptor).ok()?;
    let found = crate::fs::Found::of(&stat);
    if found.kind != Some(Kind::File) {
        return None;
    }
    let number = descriptor.as_raw_fd();
    let path = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    let path = below(copy, &path).filter(|path| !path.is_root())?;
    let there = copy.shared.root.stat(path.as_str()).ok()??;
    let same = (there.signature.device, there.signature.inode) == (found.signature.device, found.signature.inode);
    let position = rustix::fs::seek(descriptor, rustix::fs::SeekFrom::Current(0)).ok()?;
    let fits = match direction {
        Direction::In => position == 0,
        Direction::Out => {
            let flags = rustix::fs::fcntl_getfl(descriptor).ok()?;
            position == 0 && found.signature.size == 0 && !flags.contains(OFlags::APPEND)
        }
    };
    (same && fits && !Path::new(path.as_str()).starts_with(crate::fs::OPSHIP)).then_some(path)
}
