//! What an exchange does, planned from a list of changes.
//!
//! Changes are declarative and their states before are those of the tree before. So an exchange first takes moved
//! directories out, then takes away what goes (children first, where it is now), then puts in what comes (parents
//! first), and sets the modes of directories last, since a read-only one takes no children.

use crate::ClientError;
use crate::fs::Signature;
use minicbor::{Decode, Encode};
use opship_record::effect::{After, Before, Change, Origins};
use opship_record::{Hash, TreePath};
use std::collections::BTreeMap;

/// One step. Each can be done again after a crash: it knows from inode numbers whether it was done.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub(crate) enum Step {
    /// Takes a directory that moves out of the tree.
    #[n(0)]
    Hold {
        #[n(0)]
        from: String,
        #[n(1)]
        slot: String,
        #[n(2)]
        inode: u64,
        #[n(3)]
        to: TreePath,
    },
    /// Takes a file or link away.
    #[n(1)]
    Remove {
        #[n(0)]
        at: String,
        #[n(1)]
        path: TreePath,
        #[n(2)]
        slot: String,
        #[n(3)]
        expected: Expected,
    },
    /// Takes an empty directory away; one that still holds something stays, outside the version.
    #[n(2)]
    RemoveDirectory {
        #[n(0)]
        at: String,
    },
    /// Makes a directory.
    #[n(3)]
    Directory {
        #[n(0)]
        path: TreePath,
    },
    /// Puts a directory that was taken out in.
    #[n(4)]
    Unhold {
        #[n(0)]
        slot: String,
        #[n(1)]
        path: TreePath,
    },
    /// Puts a staged file or link in; what stood there goes into the slot.
    #[n(5)]
    Put {
        #[n(0)]
        slot: String,
        #[n(1)]
        path: TreePath,
        #[n(2)]
        inode: u64,
        #[n(3)]
        expected: Option<Expected>,
    },
    /// Sets mode and mtime of what is there.
    #[n(6)]
    Metadata {
        #[n(0)]
        path: TreePath,
        #[n(1)]
        mode: Option<u16>,
        #[n(2)]
        mtime: Option<i64>,
    },
}

/// What the run saw of a file or link that goes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Expected {
    /// Hash of the content, or of the link's target.
    #[n(0)]
    pub hash: Hash,
    #[n(1)]
    device: u64,
    #[n(2)]
    inode: u64,
    #[n(3)]
    size: u64,
    #[n(4)]
    mtime: i64,
    /// May it have been written to without that showing?
    #[n(5)]
    racy: bool,
}

impl Expected {
    pub(crate) fn new(hash: Hash, signature: &Signature, racy: bool) -> Expected {
        let Signature { device, inode, size, mtime, .. } = *signature;
        Expected { hash, device, inode, size, mtime, racy }
    }

    /// Does a signature prove that a displaced file is the one that the run saw?
    pub(crate) fn is_proved_by(&self, signature: &Signature) -> bool {
        let expected =
            Signature { device: self.device, inode: self.inode, size: self.size, mtime: self.mtime, ctime: 0 };
        !self.racy && expected.is_same_file(signature)
    }
}

/// A file or link that is ready in the staging folder.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    /// Where, below the root.
    pub slot: String,
    /// Its inode number.
    pub inode: u64,
}

/// What a plan is made from.
pub(crate) struct Planner<'a> {
    pub changes: &'a [Change],
    /// Staged files and links, by path.
    pub staged: &'a BTreeMap<TreePath, Staged>,
    /// What is on disk at a path of the tree before: what to expect of a file or link, or a directory's inode.
    pub standing: &'a dyn Fn(&TreePath) -> Result<Standing, ClientError>,
    /// A new name in the staging folder.
    pub new_slot: &'a dyn Fn() -> String,
}

/// What stands at a path.
pub(crate) enum Standing {
    /// A file or link.
    Leaf(Expected),
    /// A directory with this inode number.
    Directory(u64),
    /// Nothing, or nothing that may be touched.
    Nothing,
}

impl Planner<'_> {
    /// The steps of the exchange.
    pub(crate) fn plan(&self) -> Result<Vec<Step>, ClientError> {
        let origins = Origins::new(self.changes);
        let mut steps = Vec::new();
        let held = self.hold(&mut steps)?;
        for change in self.changes.iter().rev() {
            self.take_away(change, &origins, &held, &mut steps)?;
        }
        for change in self.changes {
            self.put_in(change, &origins, &held, &mut steps)?;
        }
        for change in self.changes.iter().rev() {
            if let (After::Directory { mode: Some(_) } | After::Moved { mode: Some(_), .. }, mode) =
                (&change.after, change.after.mode())
            {
                steps.push(Step::Metadata { path: change.path.clone(), mode, mtime: None });
            }
        }
        Ok(steps)
    }

    /// Takes moved directories out, the deepest first; gives their slots by old path.
    fn hold(&self, steps: &mut Vec<Step>) -> Result<BTreeMap<TreePath, String>, ClientError> {
        let mut moves: Vec<(&TreePath, &TreePath)> = Vec::new();
        for change in self.changes {
            if let After::Moved { from, .. } = &change.after {
                moves.push((from, &change.path));
            }
        }
        moves.sort_by(|a, b| b.0.cmp(a.0));
        let mut held = BTreeMap::new();
        for (from, to) in moves {
            let Standing::Directory(inode) = (self.standing)(from)? else {
                return Err(ClientError::Changed { path: from.to_string() });
            };
            let slot = (self.new_slot)();
            steps.push(Step::Hold { from: from.as_str().to_owned(), slot: slot.clone(), inode, to: to.clone() });
            held.insert(from.clone(), slot);
        }
        Ok(held)
    }

    fn take_away(
        &self,
        change: &Change,
        origins: &Origins<'_>,
        held: &BTreeMap<TreePath, String>,
        steps: &mut Vec<Step>,
    ) -> Result<(), ClientError> {
        let goes = match (&change.before, &change.after) {
            (Before::Absent { .. } | Before::Kind { .. }, _) | (_, After::Metadata { .. }) => false,
            (_, After::Removed | After::Moved { .. }) => true,
            // A file or link in the place of one is exchanged in one step.
            (before, After::File { .. } | After::Symlink { .. }) => *before == Before::Directory,
            (before, After::Directory { .. }) => *before != Before::Directory,
        };
        let Some(origin) = origins.of(&change.path) else { return Ok(()) };
        if !goes || held.contains_key(&origin) {
            return Ok(());
        }
        let at = place(&origin, held);
        match (self.standing)(&origin)? {
            Standing::Leaf(expected) => {
                steps.push(Step::Remove { at, path: change.path.clone(), slot: (self.new_slot)(), expected });
            }
            Standing::Directory(_) => steps.push(Step::RemoveDirectory { at }),
            Standing::Nothing => {}
        }
        Ok(())
    }

    fn put_in(
        &self,
        change: &Change,
        origins: &Origins<'_>,
        held: &BTreeMap<TreePath, String>,
        steps: &mut Vec<Step>,
    ) -> Result<(), ClientError> {
        let path = change.path.clone();
        match &change.after {
            After::Removed => {}
            After::Directory { .. } => steps.push(Step::Directory { path }),
            After::Moved { from, .. } => {
                let slot = held.get(from).cloned().ok_or_else(|| ClientError::Changed { path: from.to_string() })?;
                steps.push(Step::Unhold { slot, path });
            }
            After::Metadata { mode, mtime, .. } => {
                steps.push(Step::Metadata { path, mode: *mode, mtime: *mtime });
            }
            After::File { .. } | After::Symlink { .. } => {
                let missing = || ClientError::Refused(format!("the content of '{path}' was not staged"));
                let staged = self.staged.get(&path).cloned().ok_or_else(missing)?;
                let origin = origins.of(&path).filter(|origin| !held.contains_key(origin));
                let expected = match origin.map(|origin| (self.standing)(&origin)).transpose()? {
                    Some(Standing::Leaf(expected)) if !matches!(change.before, Before::Absent { .. }) => Some(expected),
                    _ => None,
                };
                steps.push(Step::Put { slot: staged.slot, path, inode: staged.inode, expected });
            }
        }
        Ok(())
    }
}

/// Where what was at `origin` is once moved directories were taken out.
fn place(origin: &TreePath, held: &BTreeMap<TreePath, String>) -> String {
    for ancestor in std::iter::successors(Some(origin.clone()), TreePath::parent) {
        if let (Some(slot), Some(rest)) = (held.get(&ancestor), origin.strip_prefix(&ancestor)) {
            return if rest.is_root() { slot.clone() } else { format!("{slot}/{rest}") };
        }
    }
    origin.as_str().to_owned()
}
