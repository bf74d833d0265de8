//! Bringing what others did into the folder. Local edits are never overwritten: such paths are left for later.

use crate::db::index::{self, Row};
use crate::db::intent::{self, Intent};
use crate::db::{remote, waits};
use crate::exchange::{Step, finish, hash_at};
use crate::fs::KeptContent;
use crate::log::Deferred;
use crate::release::release_displaced_if;
use crate::source::content_of;
use crate::stage::{Bytes, stage};
use crate::staging::Staging;
use crate::steps::{Expected, Planner, Standing};
use crate::tree::{Sight, View, Visible};
use crate::values::{absent, after, node_of};
use crate::{ClientError, WorkingCopy};
use opship_engine::failpoint;
use opship_record::effect::{After, Before, Change};
use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use opship_world::FileContent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempPath;

/// What the server holds of a path.
pub struct RemoteChange {
    /// The path.
    pub path: TreePath,
    /// Its state; `None`: gone.
    pub node: Option<Node>,
    /// The content of a file, if the caller has it; what is in the working copy already is found by its hash.
    pub content: Option<Arc<dyn FileContent>>,
}

/// A path that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The path.
    pub path: TreePath,
    /// Why.
    pub reason: String,
    /// Is only the content missing? Then the same change with its content will be applied.
    pub content_missing: bool,
}

impl WorkingCopy {
    /// Applies states of the server to the folder and the index, all in one exchange. A path with local edits, with
    /// entries that have no final verdict, or where something stands that is not synced, is skipped and remembered as
    /// deferred, and so is what depends on it.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Database`]; nothing was changed then, unless the error came from the exchange
    /// itself, which the next [`WorkingCopy::open`] finishes.
    pub fn apply_remote(&self, changes: Vec<RemoteChange>) -> Result<Vec<Skipped>, ClientError> {
        self.apply_downloaded(changes, Files::new(), &BTreeMap::new())
    }

    /// As [`WorkingCopy::apply_remote`], with downloaded contents, which are moved into place; the files that are displaced
    /// and whose contents are wanted `later` stay until [`WorkingCopy::release_left`].
    pub(crate) fn apply_downloaded(
        &self,
        changes: Vec<RemoteChange>,
        files: Files,
        later: &BTreeMap<Hash, usize>,
    ) -> Result<Vec<Skipped>, ClientError> {
        let staging = Arc::new(Staging::new(&self.shared)?);
        let _lock = self.lock()?;
        let mut pull = Pull { files, ..Pull::new(self, Whose::Others) };
        let mut wanted: BTreeMap<TreePath, RemoteChange> =
            changes.into_iter().map(|change| (change.path.clone(), change)).collect();
        let mut list = pull.select(&wanted)?;
        pull.drop_dependent(&mut list)?;
        let steps = pull.stage_and_plan(&staging, &list, &mut wanted)?;
        let intent = Intent { entry: 0, folder: staging.folder().to_owned(), steps, changes: list };
        let skipped = pull.skipped;
        let id = self.shared.db.write(|db| {
            for skip in skipped.iter().filter(|skip| !skip.content_missing) {
                let node = wanted.get(&skip.path).and_then(|change| change.node.clone());
                remote::defer(db, &Deferred { path: skip.path.clone(), node, reason: skip.reason.clone() })?;
            }
            let is_skipped = |path: &TreePath| skipped.iter().any(|skip| skip.path == *path);
            for path in wanted.keys().filter(|path| !is_skipped(path)) {
                remote::undefer(db, path)?;
            }
            if intent.changes.is_empty() { Ok(0) } else { intent::insert(db, &intent) }
        })?;
        failpoint::hit("intent");
        if !intent.changes.is_empty() {
            finish(&self.shared, id, &intent)?;
            release_displaced_if(&self.shared, 0, &|displaced| {
                displaced.hash.is_none_or(|hash| !later.contains_key(&hash))
            })?;
        }
        Ok(skipped)
    }

    /// Which of these states of the server would be left alone now, whatever their contents are, and why.
    pub(crate) fn left_alone(&self, states: &[(TreePath, Option<Node>)]) -> Result<Vec<Skipped>, ClientError> {
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut pull = Pull { contents_come: true, ..Pull::new(self, Whose::Others) };
        let change = |(path, node): &(TreePath, Option<Node>)| {
            (path.clone(), RemoteChange { path: path.clone(), node: node.clone(), content: None })
        };
        let mut list = pull.select(&states.iter().map(change).collect())?;
        pull.drop_dependent(&mut list)?;
        Ok(pull.skipped)
    }
}

/// Downloaded contents in files of opship's own.
pub(crate) type Files = BTreeMap<Hash, TempPath>;

/// Whose states are brought to the folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The server's. Own entries without a final verdict stand against them.
    Others,
    /// Ones that become an entry of our own, behind all that there are.
    Own,
}

pub(crate) struct Pull<'a> {
    copy: &'a WorkingCopy,
    whose: Whose,
    view: View,
    /// What stands at the paths that will change.
    standing: BTreeMap<TreePath, (Option<Expected>, Option<u64>)>,
    pub(crate) skipped: Vec<Skipped>,
    /// Contents that were downloaded.
    files: Files,
    /// Will all contents that are not here be downloaded?
    contents_come: bool,
}

impl<'a> Pull<'a> {
    pub(crate) fn new(copy: &'a WorkingCopy, whose: Whose) -> Pull<'a> {
        let view = View::new(&copy.shared);
        let (standing, skipped, files) = (BTreeMap::new(), Vec::new(), Files::new());
        Pull { copy, whose, view, standing, skipped, files, contents_come: false }
    }

    /// Makes the files of a list ready and plans the exchange.
    pub(crate) fn stage_and_plan(
        &mut self,
        staging: &Staging,
        list: &[Change],
        wanted: &mut BTreeMap<TreePath, RemoteChange>,
    ) -> Result<Vec<Step>, ClientError> {
        let shared = &self.copy.shared;
        let mut uses: BTreeMap<Hash, usize> = BTreeMap::new();
        for (_, hash) in list.iter().filter_map(|change| change.after.blob()) {
            *uses.entry(hash).or_default() += 1;
        }
        let files = &mut self.files;
        let staged = stage(shared, staging, list, &mut |path, hash| {
            let given = wanted.get_mut(path).and_then(|change| change.content.take());
            let left = uses.entry(*hash).or_default();
            *left = left.saturating_sub(1);
            // The last that wants a downloaded file has it.
            if *left == 0
                && let Some(file) = files.remove(hash)
            {
                return Ok(Bytes::Finished(file));
            }
            let content = match (given, files.get(hash)) {
                (Some(content), _) => Some(content),
                (None, Some(file)) => Some(KeptContent::downloaded(file, *hash)?),
                (None, None) => content_of(shared, hash)?,
            };
            let missing = || ClientError::Refused(format!("the content of '{path}' was not fetched; sync again"));
            content.map(Bytes::Content).ok_or_else(missing)
        })?;
        failpoint::hit("staged");
        let planner = Planner {
            changes: list,
            staged: &staged,
            standing: &|path| Ok(self.standing(path)),
            new_slot: &|| staging.new_path(),
        };
        planner.plan()
    }

    /// The changes that can be made, sorted.
    pub(crate) fn select(&mut self, wanted: &BTreeMap<TreePath, RemoteChange>) -> Result<Vec<Change>, ClientError> {
        let mut list = Vec::new();
        for (path, change) in wanted.iter().filter(|(path, _)| !path.is_root()) {
            let row = index::get(&self.copy.shared.db.read(), path)?;
            if row.as_ref().map(|row| &row.node) == change.node.as_ref() {
                if let Some(row) = row.filter(|_| self.whose == Whose::Others) {
                    index::put(&self.copy.shared.db.read(), path, &Row { synced: true, ..row })?;
                }
                continue;
            }
            match self.obstacle(path, row.as_ref(), change)? {
                None => list.push(self.change(path, row.as_ref(), change.node.as_ref())?),
                Some((reason, content_missing)) => {
                    self.skipped.push(Skipped { path: path.clone(), reason, content_missing });
                }
            }
        }
        self.leave_out_what_has_no_folder(&mut list)?;
        Ok(list)
    }

    /// A list that puts something below what is to be no folder is no tree's: that part of it is left out.
    fn leave_out_what_has_no_folder(&mut self, list: &mut Vec<Change>) -> Result<(), ClientError> {
        let mut after: BTreeMap<TreePath, Option<Kind>> = BTreeMap::new();
        let all = std::mem::take(list);
        for change in all {
            let parent = change.path.parent().unwrap_or_default();
            let above = match after.get(&parent).copied() {
                Some(kind) => kind,
                None => {
                    let kind = index::kind(&self.copy.shared.db.read(), &parent)?;
                    after.insert(parent, kind);
                    kind
                }
            };
            let kind = match &change.after {
                After::Removed => None,
                After::File { .. } => Some(Kind::File),
                After::Symlink { .. } => Some(Kind::Symlink),
                After::Directory { .. } | After::Moved { .. } => Some(Kind::Directory),
                After::Metadata { kind, .. } => Some(*kind),
            };
            if kind.is_some() && above != Some(Kind::Directory) {
                self.skip(&change, "what it is to lie in is no folder on the server");
                continue;
            }
            after.insert(change.path.clone(), kind);
            list.push(change);
        }
        Ok(())
    }

    fn change(&self, path: &TreePath, row: Option<&Row>, node: Option<&Node>) -> Result<Change, ClientError> {
        let before = match row {
            Some(row) => Before::of(&row.node.content()),
            None => absent(&self.copy.shared.db.read(), path)?,
        };
        let same_content = row.zip(node).is_some_and(|(row, node)| row.node.content() == node.content());
        let after = match node {
            None => After::Removed,
            Some(node) if same_content => {
                let (mode, mtime) = match node {
                    Node::File { mode, mtime, .. } => (Some(*mode), Some(*mtime)),
                    Node::Directory { mode } => (Some(*mode), None),
                    Node::Symlink { mtime, .. } => (None, Some(*mtime)),
                };
                After::Metadata { kind: node.kind(), mode, mtime }
            }
            Some(node) => after(node),
        };
        let before = match (&after, node) {
            (After::Metadata { .. }, Some(node)) => Before::Kind { kind: node.kind() },
            _ => before,
        };
        Ok(Change { path: path.clone(), before, after })
    }

    /// Why a path cannot be changed now, and whether only its content is missing.
    fn obstacle(
        &mut self,
        path: &TreePath,
        row: Option<&Row>,
        change: &RemoteChange,
    ) -> Result<Option<(String, bool)>, ClientError> {
        let blocked = |reason: &str| Ok(Some((reason.to_owned(), false)));
        if self.whose == Whose::Others && waits::is_written(&self.copy.shared.db.read(), path)? {
            return blocked("it has entries without a final verdict");
        }
        match (self.view.look_with(path, row.cloned())?, row) {
            (Sight::Absent, None) => {}
            (Sight::Absent, Some(_)) => return blocked("it was removed here"),
            (Sight::Hidden(reason), _) => {
                let found = self.copy.shared.root.stat(path.as_str()).ok().flatten();
                let is_directory = found.is_some_and(|found| found.kind == Some(Kind::Directory));
                if !(is_directory && matches!(change.node, Some(Node::Directory { .. }))) {
                    return blocked(&format!("something stands there that is not synced ({reason})"));
                }
            }
            (Sight::Broken(reason), _) => return blocked(&reason),
            (Sight::Visible(_), None) => return blocked("it was made here"),
            (Sight::Visible(visible), Some(row)) => {
                if !self.is_as_indexed(path, &visible, row)? {
                    return blocked("it was changed here");
                }
            }
        }
        if let Some(Node::File { hash, .. }) = &change.node
            && row.and_then(Row::hash) != Some(*hash)
            && change.content.is_none()
            && !self.contents_come
            && !self.files.contains_key(hash)
            && content_of(&self.copy.shared, hash)?.is_none()
        {
            return Ok(Some(("its content was not fetched".to_owned(), true)));
        }
        Ok(None)
    }

    /// Is the path on disk as the index says? Remembers what stands there.
    fn is_as_indexed(&mut self, path: &TreePath, visible: &Visible, row: &Row) -> Result<bool, ClientError> {
        let failed = ClientError::io(format!("reading '{path}'"));
        let found = &visible.found;
        if visible.node.kind() == Kind::Directory {
            self.standing.insert(path.clone(), (None, Some(found.signature.inode)));
            return Ok(matches!(&row.node, Node::Directory { mode } if *mode == found.mode));
        }
        let hash = match row.hash().filter(|_| visible.trusted) {
            Some(hash) => Some(hash),
            None => hash_at(&self.copy.shared, path.as_str(), found).map_err(failed)?,
        };
        let Some(hash) = hash else { return Ok(false) };
        let racy = crate::fs::is_racy(&found.signature, visible.taken);
        self.standing.insert(path.clone(), (Some(Expected::new(hash, &found.signature, racy)), None));
        let content = matches!(visible.node.kind(), Kind::File).then_some(hash);
        Ok(node_of(&visible.node, content).as_ref() == Some(&row.node))
    }

    fn standing(&self, path: &TreePath) -> Standing {
        match self.standing.get(path) {
            Some((Some(expected), _)) => Standing::Leaf(expected.clone()),
            Some((None, Some(inode))) => Standing::Directory(*inode),
            _ => Standing::Nothing,
        }
    }

    /// Leaves out what depends on a path that was skipped: what lies below it, and directories that would have to go
    /// while something of the index stays in them.
    pub(crate) fn drop_dependent(&mut self, list: &mut Vec<Change>) -> Result<(), ClientError> {
        let skipped: BTreeSet<TreePath> = self.skipped.iter().map(|skip| skip.path.clone()).collect();
        let depends = |path: &TreePath| {
            std::iter::successors(path.parent(), TreePath::parent).any(|above| skipped.contains(&above))
        };
        let (dependent, mut rest): (Vec<Change>, Vec<Change>) =
            list.drain(..).partition(|change| depends(&change.path));
        dependent.iter().for_each(|change| self.skip(change, "a folder above it was left alone"));
        // Deepest first: a directory that stays makes those above it stay.
        let mut going: BTreeSet<TreePath> =
            rest.iter().filter(|c| c.after == After::Removed).map(|c| c.path.clone()).collect();
        let mut stays = BTreeSet::new();
        for change in rest.iter().rev().filter(|change| goes_as_directory(change)) {
            let rows = index::all_below(&self.copy.shared.db.read(), &change.path)?;
            if rows.iter().any(|(path, _)| !going.contains(path)) {
                going.remove(&change.path);
                stays.insert(change.path.clone());
            }
        }
        rest.retain(|change| {
            let stay = stays.contains(&change.path);
            if stay {
                self.skip(change, "something below it was left alone");
            }
            !stay
        });
        *list = rest;
        Ok(())
    }

    fn skip(&mut self, change: &Change, reason: &str) {
        self.skipped.push(Skipped { path: change.path.clone(), reason: reason.to_owned(), content_missing: false });
    }
}

fn goes_as_directory(change: &Change) -> bool {
    change.before == Before::Directory && !matches!(change.after, After::Directory { .. } | After::Metadata { .. })
}
