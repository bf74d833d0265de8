//! Versions and trees.

use super::{Result, Store};
use crate::sqlite::nodes::{ReadNodes, Upload};
use crate::sqlite::{nodes, versions};
use crate::{Role, Scope, StorageError, TreeView};
use opship_record::node::Node;
use opship_record::version::Version;
use opship_record::{Hash, TreePath, tree};

/// Hears of each path that differs, with what is there on either side.
pub type OnDifference<'a> = dyn FnMut(&TreePath, Option<&Node>, Option<&Node>) -> Result<()> + 'a;

impl Store {
    /// The newest version.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn head(&self, scope: &Scope) -> Result<Version> {
        self.0.database.read(|connection| versions::head(connection, scope.workspace))
    }

    /// The version of this number.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn version(&self, scope: &Scope, number: u64) -> Result<Option<Version>> {
        self.0.database.read(|connection| versions::by_number(connection, scope.workspace, number))
    }

    /// The version of this id.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn version_by_id(&self, scope: &Scope, id: &Hash) -> Result<Option<Version>> {
        self.0.database.read(|connection| versions::by_id(connection, scope.workspace, id))
    }

    /// Versions with numbers below `before`, newest first; at most 1,000.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn versions(&self, scope: &Scope, before: Option<u64>, limit: usize) -> Result<Vec<Version>> {
        self.0.database.read(|connection| versions::list(connection, scope.workspace, before, limit))
    }

    /// The tree with this root, if a version of the workspace that is not forgotten has it or it was uploaded through the
    /// workspace. What it holds is not collected as long as the view lives.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn tree(&self, scope: &Scope, root: &Hash) -> Result<Option<TreeView>> {
        let held = self.0.in_use.hold_root(scope.workspace, *root);
        let visible = self.0.database.read(|connection| {
            Ok(versions::has_root(connection, scope.workspace, root)?
                || nodes::is_visible(connection, scope.workspace, root)?)
        })?;
        Ok(visible.then(|| TreeView::new(self.0.clone(), scope.clone(), *root, held)))
    }

    /// The tree of a version.
    ///
    /// # Errors
    /// [`StorageError::Forgotten`] if retention has let it go.
    pub fn version_tree(&self, scope: &Scope, version: &Version) -> Result<TreeView> {
        self.tree(scope, &version.root)?.ok_or(StorageError::Forgotten { version: version.number })
    }

    /// Which of the versions `first..=last` retention has let go: they are listed, their trees are not to be had.
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn forgotten(&self, scope: &Scope, first: u64, last: u64) -> Result<Vec<u64>> {
        self.0.database.read(|connection| versions::forgotten(connection, scope.workspace, first, last))
    }

    /// Calls `found(path, in from, in to)` for each path whose entry differs between two trees, parents before what
    /// lies below them.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] for a tree that is not visible, and whatever `found` returns.
    pub fn diff(&self, scope: &Scope, from: &Hash, to: &Hash, found: &mut OnDifference<'_>) -> Result<()> {
        let view =
            |root: &Hash| self.tree(scope, root)?.ok_or_else(|| StorageError::not_found("tree", root.to_string()));
        let (_from, _to) = (view(from)?, view(to)?);
        tree::diff(&ReadNodes(&self.0.database), from, to, found)
    }

    /// Stores an uploaded tree (a mount): its nodes, children first, the root last. Nodes and blobs that they refer to
    /// must be in the upload or have come through the workspace before.
    ///
    /// # Errors
    /// [`StorageError::Incomplete`] names what is missing; [`StorageError::Unfit`] for bytes that are no node.
    pub fn put_tree(&self, scope: &Scope, nodes: Vec<Vec<u8>>) -> Result<Hash> {
        scope.needs(Role::Write)?;
        let upload = Upload::check(nodes)?;
        let (workspace, cache) = (scope.workspace, self.0.database.nodes.clone());
        self.0.database.write(move |connection| nodes::store_upload(connection, &cache, workspace, &upload))
    }

    /// Was this tree uploaded through the workspace, with all that is below it?
    ///
    /// # Errors
    /// [`StorageError`] if the database fails.
    pub fn has_tree(&self, scope: &Scope, hash: &Hash) -> Result<bool> {
        self.0.database.read(|connection| nodes::is_visible(connection, scope.workspace, hash))
    }
}
