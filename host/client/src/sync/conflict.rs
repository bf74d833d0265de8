//! Conflicts: where another's change clashes with ours the head keeps the other's state, and our own stays beside it.
//! What does not clash stays in its place and travels as a value.

use super::overwritten::Staying;
use super::{PullReport, Sync, UNSETTLED};
use crate::ClientError;
use crate::db::conflicts::Undecided;
use crate::log::LogEntry;
use opship_engine::failpoint;
use opship_record::TreePath;
use opship_record::answer::Verdict;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::BodyKind;
use opship_record::node::{Content, DEFAULT_FILE_MODE, Kind, Node};
use std::collections::{BTreeMap, BTreeSet};

/// What the entries that are settled together did to a path.
struct Own {
    /// The state before the first of them.
    before: Before,
    /// The state after the last of them.
    after: After,
    /// The last of them.
    entry: u64,
    /// May our state stay in its place where nobody else changed the path? Not what an operation made of inputs that
    /// others have changed.
    in_place: bool,
}

/// What becomes of a path.
enum Fate {
    /// The server's state comes to the path.
    Theirs,
    /// Ours stays on disk and is a change of the server's state: the next scan ships it.
    Ours,
    /// Ours goes beside the path, theirs comes to it.
    Both,
}

impl Sync<'_> {
    /// Settles the entries that ended `conflicted` or `rejected`, and the values that wait for them: what people wrote must
    /// not wait for a decision about an operation. Interrupted, it is done again by the next sync. `true`: there were some.
    pub(super) async fn settle_conflicts(&mut self, report: &mut PullReport) -> Result<bool, ClientError> {
        let badly = |entry: &LogEntry| matches!(entry.verdict(), Some(Verdict::Conflicted | Verdict::Rejected));
        let mut entries: Vec<LogEntry> = self.copy.unreleased()?.into_iter().filter(badly).collect();
        let parked = |entry: &LogEntry| entry.kind == BodyKind::Value && entry.is_parked();
        entries.extend(self.copy.pending()?.into_iter().filter(parked));
        if entries.is_empty() {
            return Ok(false);
        }
        self.settle(entries, false, report).await?;
        Ok(true)
    }

    /// Takes entries out of the log: their results stay as ordinary changes of files.
    pub(super) async fn drop_entries(
        &mut self,
        entries: Vec<LogEntry>,
        report: &mut PullReport,
    ) -> Result<(), ClientError> {
        self.settle(entries, true, report).await
    }

    async fn settle(
        &mut self,
        mut entries: Vec<LogEntry>,
        all_in_place: bool,
        report: &mut PullReport,
    ) -> Result<(), ClientError> {
        entries.sort_by_key(|entry| entry.number);
        let numbers: BTreeSet<u64> = entries.iter().map(|entry| entry.number).collect();
        let mut own: BTreeMap<TreePath, Own> = BTreeMap::new();
        let mut moved = BTreeSet::new();
        for entry in &entries {
            // Nobody else's change stands against what was refused.
            let is_rejected = entry.verdict() == Some(Verdict::Rejected);
            let in_place = all_in_place || is_rejected || entry.kind == BodyKind::Value;
            for change in self.copy.lists(entry.number)?.changes {
                self.note_moved(&change, &mut moved)?;
                note(&mut own, change, entry.number, in_place);
            }
        }
        let paths: Vec<TreePath> = own.keys().chain(&moved).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let settled: BTreeSet<TreePath> = paths.iter().cloned().collect();
        let (mut apply, mut assume, mut staying) = (Vec::new(), Vec::new(), Staying::default());
        own.values().for_each(|own| staying.add(&own.before));
        self.ahead.extend(paths.iter().cloned());
        let above = own.keys().flat_map(above).filter(|path| !path.is_root());
        let asked: Vec<TreePath> = above.chain(paths.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect();
        let mut ahead =
            Ahead { theirs: self.api.nodes(&asked, None).await?.into_iter().collect(), own: BTreeSet::new() };
        // Folders before what is in them.
        for path in paths {
            let (theirs, ours) = (ahead.theirs.get(&path).cloned().flatten(), self.copy.node(&path)?);
            theirs.iter().for_each(|node| staying.add_content(&node.content()));
            let is_folder = ours.as_ref().is_some_and(|node| node.kind() == Kind::Directory);
            // A later entry that is not settled here speaks for the path now.
            let maker = self.copy.origin(&path)?.and_then(|origin| origin.entry);
            if maker.is_some_and(|number| !numbers.contains(&number)) {
                ahead.own.extend(is_folder.then_some(path));
                continue;
            }
            let fate = match own.get(&path) {
                Some(own) => fate(own, theirs.as_ref(), ours.as_ref(), ahead.lies_in_no_folder(&path)),
                None => Fate::Theirs,
            };
            if matches!(fate, Fate::Ours) && is_folder {
                ahead.own.insert(path.clone());
            }
            match (fate, own.get(&path)) {
                (Fate::Ours, _) => {
                    self.add_what_is_at(&path, ours.as_ref(), &mut staying);
                    assume.push((path, theirs));
                }
                (Fate::Both, Some(own)) => {
                    let copy = self.copy_beside(&path, &ahead.folder_of_both(&path), &own.after)?;
                    staying.add_after(&own.after);
                    report.conflict_copies.extend(copy.as_ref().map(TreePath::to_string));
                    // Without a copy it is the server that keeps the bytes, pinned by an entry that has ended.
                    if copy.is_some() || entries.iter().any(|e| e.number == own.entry && is_pinned(e)) {
                        self.copy.add_undecided(&Undecided { entry: own.entry, path: path.clone(), copy })?;
                    }
                    apply.push((path, theirs));
                }
                _ => apply.push((path, theirs)),
            }
        }
        self.keep_overwritten(&entries, &settled, (&ahead, &mut staying), report)?;
        failpoint::hit("settle-copied");
        self.copy.set_setting(UNSETTLED, "1")?;
        self.copy.assume_remote(&assume)?;
        failpoint::hit("settle-assumed");
        for entry in &entries {
            match entry.verdict() {
                Some(Verdict::Rejected) => {
                    self.copy.note_refused(entry)?;
                    self.copy.settle_conflict(entry.number)?;
                }
                Some(_) => {
                    self.copy.add_pinned(entry.number)?;
                    self.copy.settle_conflict(entry.number)?;
                }
                None => self.copy.empty_entry(entry.number)?,
            }
        }
        failpoint::hit("settle-noted");
        self.apply(apply, report).await?;
        for entry in entries.iter().filter(|entry| entry.verdict().is_some()) {
            let displaced = self.copy.release(entry.number)?;
            report.conflict_copies.extend(displaced.iter().map(TreePath::to_string));
        }
        Ok(())
    }

    /// All paths that a moved directory has taken with it, where they were and where they are.
    pub(super) fn note_moved(&self, change: &Change, moved: &mut BTreeSet<TreePath>) -> Result<(), ClientError> {
        let After::Moved { from, .. } = &change.after else { return Ok(()) };
        moved.extend([from.clone(), change.path.clone()]);
        for (path, _) in self.copy.nodes(&change.path)? {
            moved.extend(path.strip_prefix(&change.path).and_then(|below| from.append(&below).ok()));
            moved.insert(path);
        }
        Ok(())
    }

    /// What is at a path stays there; the index may say so of a file that was written to since.
    fn add_what_is_at(&self, path: &TreePath, ours: Option<&Node>, staying: &mut Staying) {
        let is_there = match ours {
            Some(Node::File { hash, .. }) => self.copy.content_at(path, hash).is_some(),
            _ => true,
        };
        ours.filter(|_| is_there).into_iter().for_each(|node| staying.add_content(&node.content()));
    }

    pub(super) fn copy_beside(
        &self,
        path: &TreePath,
        folder: &TreePath,
        after: &After,
    ) -> Result<Option<TreePath>, ClientError> {
        match after {
            After::File { hash, mode, mtime, .. } => {
                let mode = mode.unwrap_or(DEFAULT_FILE_MODE);
                self.copy.conflict_copy_of(path, folder, (hash, mode, *mtime))
            }
            After::Symlink { target, mtime } => self.copy.conflict_link(path, folder, (target, *mtime)).map(Some),
            _ => Ok(None),
        }
    }
}

/// Does the server keep what an entry had recorded?
pub(super) fn is_pinned(entry: &LogEntry) -> bool {
    entry.verdict() == Some(Verdict::Conflicted)
}

fn note(own: &mut BTreeMap<TreePath, Own>, change: Change, entry: u64, in_place: bool) {
    let moved = matches!(change.after, After::Moved { .. });
    let in_place = in_place && !moved;
    match own.get_mut(&change.path) {
        None => drop(own.insert(change.path, Own { before: change.before, after: change.after, entry, in_place })),
        Some(known) => {
            // A change of mode or time alone leaves what an earlier one wrote.
            if !matches!(change.after, After::Metadata { .. }) {
                known.after = change.after;
            }
            (known.entry, known.in_place) = (entry, in_place);
        }
    }
}

/// All folders above a path, the nearest first.
fn above(path: &TreePath) -> impl Iterator<Item = TreePath> + use<> {
    std::iter::successors(path.parent(), TreePath::parent)
}

/// What the tree will be.
pub(super) struct Ahead {
    /// What the server holds, of the paths that are settled and of all folders above them.
    theirs: BTreeMap<TreePath, Option<Node>>,
    /// Folders of ours that stay, whatever the server holds there.
    own: BTreeSet<TreePath>,
}

impl Ahead {
    /// Will a file or link of theirs be in the place of a folder above the path?
    fn lies_in_no_folder(&self, path: &TreePath) -> bool {
        above(path).any(|above| {
            let theirs = self.theirs.get(&above).and_then(Option::as_ref);
            theirs.is_some_and(|node| node.kind() != Kind::Directory) && !self.own.contains(&above)
        })
    }

    /// The nearest folder above a path that both will have: what is put there stays there.
    pub(super) fn folder_of_both(&self, path: &TreePath) -> TreePath {
        let is_folder = |above: &TreePath| {
            let theirs = self.theirs.get(above).and_then(Option::as_ref);
            theirs.is_some_and(|node| node.kind() == Kind::Directory) || self.own.contains(above)
        };
        above(path).find(is_folder).unwrap_or_default()
    }
}

fn fate(own: &Own, theirs: Option<&Node>, ours: Option<&Node>, lies_in_no_folder: bool) -> Fate {
    let theirs_content = theirs.map(Node::content);
    if theirs_content == ours.map(Node::content) {
        // The same on both sides; only mode or time may differ, and ours is the newer where nobody else changed it.
        return if own.in_place && theirs.is_some() { Fate::Ours } else { Fate::Theirs };
    }
    if lies_in_no_folder {
        return if matches!(own.after, After::File { .. } | After::Symlink { .. }) { Fate::Both } else { Fate::Theirs };
    }
    // A folder may have been moved away with what an earlier entry made.
    let is_here = ours.is_some() || own.after == After::Removed;
    if own.in_place && is_here && stands(&own.before, theirs_content.as_ref()) {
        return Fate::Ours;
    }
    match own.after {
        After::File { .. } | After::Symlink { .. } => Fate::Both,
        // A directory that they do not have stays: it may hold what only we have.
        After::Directory { .. } if theirs.is_none() => Fate::Ours,
        _ => Fate::Theirs,
    }
}

/// Is the server's state still the one that our change began with?
fn stands(before: &Before, theirs: Option<&Content>) -> bool {
    match (before, theirs) {
        (Before::Absent { .. }, None) => true,
        // The content is not ours to speak of: it would have been equal above.
        (Before::Kind { .. }, _) => false,
        (before, Some(theirs)) => *before == Before::of(theirs),
        _ => false,
    }
}
