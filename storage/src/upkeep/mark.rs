//! Finding all that is kept.

use super::retain::beyond;
use super::{DAY, OnProgress, Progress};
use crate::sqlite::upkeep::{self, Named};
use crate::sqlite::{self, Result, nodes};
use crate::store::Inner;
use crate::{Settings, StorageError};
use opship_record::version::Version;
use opship_record::{Hash, tree};
use std::collections::HashSet;
use std::sync::Arc;

/// Nodes and blobs that are reached.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) nodes: HashSet<Hash>,
    pub(super) blobs: HashSet<Hash>,
}

impl Marks {
    /// Marks a tree.
    pub(super) fn tree(&mut self, root: &Hash, load: &mut dyn FnMut(&Hash) -> Result<Option<Vec<u8>>>) -> Result<()> {
        let mut work = vec![*root];
        while let Some(hash) = work.pop() {
            if hash == tree::empty() || !self.nodes.insert(hash) {
                continue;
            }
            let bytes = load(&hash)?.filter(|bytes| tree::hash_of(bytes) == hash);
            let bytes = bytes.ok_or_else(|| StorageError::damaged(format!("tree node {hash}")))?;
            let below = tree::references(&bytes).map_err(StorageError::damaged)?;
            work.extend(below.nodes);
            self.blobs.extend(below.blobs.into_iter().map(|(hash, _)| hash));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, other: Marks) {
        self.nodes.extend(other.nodes);
        self.blobs.extend(other.blobs);
    }
}

/// A workspace that is being collected.
pub(super) struct Workspace {
    pub(super) id: i64,
    /// Versions that go.
    pub(super) beyond: Vec<u64>,
    settings: Settings,
}

/// What each workspace forgets, as things are `now`.
pub(super) fn workspaces(inner: &Inner, now: u64) -> Result<Vec<Workspace>> {
    inner.database.read(|connection| {
        let mut found = Vec::new();
        for (id, _) in upkeep::workspaces(connection)? {
            let settings = sqlite::settings::of(connection, id)?;
            let (mut times, mut forgotten) = (Vec::new(), HashSet::new());
            for (kept, bytes) in upkeep::versions(connection, id)? {
                let version = Version::decode(&bytes).map_err(StorageError::damaged)?;
                times.push((kept.number, version.time));
                if kept.is_forgotten {
                    forgotten.insert(kept.number);
                }
            }
            let needed = upkeep::unresolved_versions(connection, id)?;
            let mut beyond = beyond(&times, &settings, &needed, now);
            beyond.retain(|number| !forgotten.contains(number));
            found.push(Workspace { id, beyond, settings });
        }
        Ok(found)
    })
}

/// Marks what is kept of a workspace: trees of its versions, what its modules and newer entries name, what somebody looks
/// at, and what was uploaded since `cutoff`.
pub(super) fn mark(
    inner: &Arc<Inner>,
    workspace: &Workspace,
    (now, cutoff): (u64, u64),
    progress: &mut OnProgress<'_>,
) -> Result<Marks> {
    let since = now.saturating_sub(u64::from(workspace.settings.retention_all_days) * DAY);
    let (versions, Named { blobs, trees }) = inner.database.read(|connection| {
        let versions = upkeep::versions(connection, workspace.id)?;
        Ok((versions, upkeep::named(connection, workspace.id, since, cutoff)?))
    })?;
    let gone: HashSet<u64> = workspace.beyond.iter().copied().collect();
    let kept = versions.iter().filter(|(v, _)| !v.is_forgotten && !gone.contains(&v.number)).map(|(v, _)| v.root);
    let roots: Vec<Hash> = kept.chain(trees).collect();
    let mut marks = Marks::default();
    marks.blobs.extend(blobs);
    let mut load = |hash: &Hash| inner.database.read(|connection| nodes::load(connection, hash));
    let total = roots.len() as u64;
    for (done, root) in (0..).zip(roots) {
        progress(Progress { step: "finding what is kept", done, total });
        marks.tree(&root, &mut load)?;
    }
    let held = inner.in_use.lock().roots(workspace.id);
    for root in held {
        // One that is not here is only being asked for.
        if load(&root)?.is_some() {
            marks.tree(&root, &mut load)?;
        }
    }
    Ok(marks)
}
