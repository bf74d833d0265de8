//! Changes applied to a tree: the new root costs what changed, not the size of the tree.

use super::trie::{Edits, update};
use super::verify::longest_path;
use super::{NodeStore, TreeEntry, TreeError, empty, find, lookup};
use crate::effect::{After, Change, Origins};
use crate::limits::MAX_PATH;
use crate::node::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, Kind, Node};
use crate::{Hash, TreePath};

/// Applies a sorted list of changes to the tree `root` and gives the new root. The states before are not checked: that
/// is the caller's business, under its lock.
///
/// What a directory holds that another is moved over goes without being listed, because a path below it is one of the
/// directory that came. The caller relies on the run's observations for it, or refuses such a list where there are none.
///
/// # Errors
/// [`TreeError::Unfit`] where a change has no directory to stand in, a moved directory is not there or would be in two
/// places, a directory would vanish with entries that the list does not remove, or a path becomes too long;
/// [`TreeError`] from the store.
pub fn apply<S: NodeStore>(store: &mut S, root: &Hash, changes: &[Change]) -> Result<Hash, TreeError<S::Error>> {
    let origins = Origins::new(changes);
    origins.check_moves().map_err(|(path, detail)| unfit(path, detail))?;
    let ordered = parents_next_to_children(changes);
    // A stack of our own: a path may have 2,048 components, and recursion that deep would overflow a thread's.
    let root_entry = TreeEntry::new("", Node::Directory { mode: DEFAULT_DIRECTORY_MODE });
    let whole = Item { own: None, below: &ordered };
    let mut open = vec![Open::new(TreePath::root(), *root, whole, Finish::Stays(root_entry))];
    loop {
        let Some(directory) = open.last_mut() else { return Ok(*root) };
        if let Some((path, item)) = directory.next() {
            let current = find(store, &directory.top, path.name().unwrap_or_default())?;
            // What was moved away as a whole is no longer here, whatever comes in its place.
            let current = current.filter(|_| item.own.is_none() || !origins.has_left(&path));
            match step(store, root, current, &path, item)? {
                Step::Done(next) => directory.put(store, &path, item.own, next)?,
                Step::Into(top, finish) => open.push(Open::new(path, top, item, finish)),
            }
        } else if let Some(done) = open.pop() {
            let top = if done.edits.is_empty() { done.top } else { update(store, &done.top, done.edits)? };
            let Some(above) = open.last_mut() else { return Ok(top) };
            let next = done.finish.with(top).map_err(|detail| unfit(&done.path, detail))?;
            above.put(store, &done.path, done.own, next)?;
        }
    }
}

fn unfit<E>(path: &TreePath, detail: &'static str) -> TreeError<E> {
    TreeError::Unfit { path: path.clone(), detail }
}

/// The changes with all those below a path directly behind it (by text alone, `a-b` stands between `a` and `a/b`).
fn parents_next_to_children(changes: &[Change]) -> Vec<&Change> {
    fn by_component(change: &Change) -> impl Iterator<Item = u8> {
        change.path.as_str().bytes().map(|byte| if byte == b'/' { 0 } else { byte })
    }
    let mut ordered: Vec<&Change> = changes.iter().collect();
    ordered.sort_by(|a, b| by_component(a).cmp(by_component(b)));
    ordered
}

/// What is to be done at one path and below it.
#[derive(Clone, Copy)]
struct Item<'w, 'a> {
    own: Option<&'a Change>,
    below: &'w [&'a Change],
}

/// A directory whose entries are being changed.
struct Open<'w, 'a> {
    path: TreePath,
    top: Hash,
    own: Option<&'a Change>,
    rest: &'w [&'a Change],
    edits: Edits,
    finish: Finish,
}

impl<'w, 'a> Open<'w, 'a> {
    fn new(path: TreePath, top: Hash, item: Item<'w, 'a>, finish: Finish) -> Open<'w, 'a> {
        Open { path, top, own: item.own, rest: item.below, edits: Edits::new(), finish }
    }

    /// The next path in this directory with something to be done at or below it.
    fn next(&mut self) -> Option<(TreePath, Item<'w, 'a>)> {
        let first = *self.rest.first()?;
        let path = first.path.ancestor_below(&self.path)?;
        let (group, rest) = self.rest.split_at(self.rest.partition_point(|c| c.path.starts_with(&path)));
        self.rest = rest;
        let own = (first.path == path).then_some(first);
        Some((path, Item { own, below: &group[usize::from(own.is_some())..] }))
    }

    /// Notes what becomes of a path in this directory.
    fn put<S: NodeStore>(
        &mut self,
        store: &S,
        path: &TreePath,
        own: Option<&Change>,
        next: Option<TreeEntry>,
    ) -> Result<(), TreeError<S::Error>> {
        if own.is_some_and(lengthens)
            && let Some(entry) = &next
        {
            check_length(store, path, &entry.children)?;
        }
        self.edits.insert(path.name().unwrap_or_default().to_owned(), next);
        Ok(())
    }
}

/// What becomes of a directory once its entries are changed.
enum Finish {
    /// It stays, as this entry.
    Stays(TreeEntry),
    /// It goes and this comes in its place, so that it must be empty by then.
    Goes(Option<TreeEntry>),
}

impl Finish {
    fn with(self, top: Hash) -> Result<Option<TreeEntry>, &'static str> {
        match self {
            Finish::Stays(entry) => Ok(Some(TreeEntry { children: top, ..entry })),
            Finish::Goes(next) if top == empty() => Ok(next),
            Finish::Goes(_) => Err("a directory that goes still holds something"),
        }
    }
}

enum Step {
    Done(Option<TreeEntry>),
    Into(Hash, Finish),
}

/// What becomes of one path: the entry after, or the directory whose entries come first.
fn step<S: NodeStore>(
    store: &S,
    root: &Hash,
    current: Option<TreeEntry>,
    path: &TreePath,
    item: Item<'_, '_>,
) -> Result<Step, TreeError<S::Error>> {
    let next = match item.own {
        Some(change) => entry_after(store, root, current.as_ref(), change)?,
        None => current.clone(),
    };
    let goes = item.own.is_some_and(|change| removes_directory(&change.after));
    // What the directory held must be gone by the list itself, so that nothing unseen vanishes with it.
    if goes && let Some(TreeEntry { node: Node::Directory { .. }, children, .. }) = current {
        return Ok(Step::Into(children, Finish::Goes(next)));
    }
    match next {
        next if item.below.is_empty() => Ok(Step::Done(next)),
        Some(entry) if entry.node.kind() == Kind::Directory => Ok(Step::Into(entry.children, Finish::Stays(entry))),
        _ => Err(unfit(path, "it has no directory to stand in")),
    }
}

fn moved_directory<S: NodeStore>(
    store: &S,
    root: &Hash,
    from: &TreePath,
    path: &TreePath,
) -> Result<TreeEntry, TreeError<S::Error>> {
    match lookup(store, root, from)? {
        Some(entry) if entry.node.kind() == Kind::Directory => Ok(entry),
        _ => Err(unfit(path, "the moved directory is not there")),
    }
}

/// Does a directory that was there go? (Where another is moved over it, the run has seen its listing and what it held,
/// and the list speaks of what came.)
fn removes_directory(after: &After) -> bool {
    matches!(after, After::Removed | After::File { .. } | After::Symlink { .. })
}

/// Do paths become longer because a directory was moved?
fn lengthens(change: &Change) -> bool {
    matches!(&change.after, After::Moved { from, .. } if from.as_str().len() < change.path.as_str().len())
}

fn check_length<S: NodeStore>(store: &S, path: &TreePath, children: &Hash) -> Result<(), TreeError<S::Error>> {
    match longest_path(store, children)? {
        longest if longest > 0 && path.as_str().len() + 1 + longest > MAX_PATH => {
            Err(TreeError::Unfit { path: path.clone(), detail: "a path below the moved directory becomes too long" })
        }
        _ => Ok(()),
    }
}

fn entry_after<S: NodeStore>(
    store: &S,
    root: &Hash,
    current: Option<&TreeEntry>,
    change: &Change,
) -> Result<Option<TreeEntry>, TreeError<S::Error>> {
    let name = change.path.name().unwrap_or_default();
    let kept = |kind: Kind, default: u16| match current.map(|c| &c.node) {
        Some(Node::File { mode, .. }) if kind == Kind::File => *mode,
        Some(Node::Directory { mode }) if kind == Kind::Directory => *mode,
        _ => default,
    };
    let entry = match &change.after {
        After::Removed => return Ok(None),
        After::File { length, hash, mode, mtime } => {
            let mode = mode.unwrap_or_else(|| kept(Kind::File, DEFAULT_FILE_MODE));
            TreeEntry::new(name, Node::File { mode, mtime: *mtime, length: *length, hash: *hash })
        }
        After::Directory { mode } => {
            let mode = mode.unwrap_or_else(|| kept(Kind::Directory, DEFAULT_DIRECTORY_MODE));
            let mut entry = TreeEntry::new(name, Node::Directory { mode });
            if let Some(TreeEntry { node: Node::Directory { .. }, children, .. }) = current {
                entry.children = *children;
            }
            entry
        }
        After::Symlink { target, mtime } => {
            TreeEntry::new(name, Node::Symlink { mtime: *mtime, target: target.clone() })
        }
        After::Moved { from, mode } => {
            let mut entry = TreeEntry { name: name.to_owned(), ..moved_directory(store, root, from, &change.path)? };
            if let (Some(new), Node::Directory { mode }) = (mode, &mut entry.node) {
                *mode = *new;
            }
            entry
        }
        After::Metadata { kind, mode, mtime } => {
            with_metadata(current, *kind, *mode, *mtime).map_err(|detail| unfit(&change.path, detail))?
        }
    };
    Ok(Some(entry))
}

fn with_metadata(
    current: Option<&TreeEntry>,
    kind: Kind,
    new_mode: Option<u16>,
    new_mtime: Option<i64>,
) -> Result<TreeEntry, &'static str> {
    let mut entry = current.ok_or("nothing is there whose metadata could change")?.clone();
    if entry.node.kind() != kind {
        return Err("what is there is of another kind than the change of its metadata says");
    }
    match &mut entry.node {
        Node::File { mode, mtime, .. } => {
            *mode = new_mode.unwrap_or(*mode);
            *mtime = new_mtime.unwrap_or(*mtime);
        }
        Node::Directory { mode } => *mode = new_mode.unwrap_or(*mode),
        Node::Symlink { mtime, .. } => *mtime = new_mtime.unwrap_or(*mtime),
    }
    Ok(entry)
}
