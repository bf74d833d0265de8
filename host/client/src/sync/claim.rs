//! What a bundle said of a version, until the server has been asked; and what a bundle may have brought to the server.

use super::{PullReport, Sync, UNSETTLED};
use crate::bundle::Claim;
use crate::{ClientError, WorkingCopy};
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The named value that holds the [`Unconfirmed`] version.
const CLAIM: &str = "net.claim";
/// The named value that holds the number of the newest entry that a bundle has taken along.
pub(crate) const BUNDLED: &str = "net.bundled";

/// A version that came by disk, and of which the server has not confirmed that it is so.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Unconfirmed {
    number: u64,
    /// Hash of its tree, in hexadecimal; `None` where the bundle did not know all paths.
    root: Option<String>,
    /// Was the working copy between two versions before the bundle was applied?
    unsettled: bool,
}

impl Unconfirmed {
    /// Remembers, before anything of a bundle is applied, whose word it is.
    pub(crate) fn begin(copy: &WorkingCopy, claim: &Claim) -> Result<Unconfirmed, ClientError> {
        let mut begun = Unconfirmed {
            number: claim.number,
            root: claim.root.map(|root| root.to_string()),
            unsettled: copy.setting(UNSETTLED)?.is_some_and(|mark| !mark.is_empty()),
        };
        // The same bundle again, after it was cut off: it is what left the mark.
        if let Some(before) = Unconfirmed::of(copy)?
            && (before.number, &before.root) == (begun.number, &begun.root)
        {
            begun.unsettled = before.unsettled;
        }
        begun.keep(copy)?;
        copy.set_setting(UNSETTLED, "1")?;
        Ok(begun)
    }

    /// All of the bundle is applied: the working copy stands on its version.
    pub(crate) fn finish(&self, copy: &WorkingCopy, claim: &Claim, unknown: bool) -> Result<(), ClientError> {
        copy.set_base(claim.number, claim.mark.map(Into::into))?;
        if !self.unsettled && !unknown {
            copy.set_setting(UNSETTLED, "")?;
        }
        Ok(())
    }

    fn of(copy: &WorkingCopy) -> Result<Option<Unconfirmed>, ClientError> {
        let text = copy.setting(CLAIM)?.filter(|text| !text.is_empty());
        let damaged = |error: serde_json::Error| ClientError::Damaged {
            file: ".opship/state.db".into(),
            detail: format!("{CLAIM}: {error}"),
        };
        text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
    }

    fn keep(&self, copy: &WorkingCopy) -> Result<(), ClientError> {
        let text = serde_json::to_string(self).map_err(|error| ClientError::Refused(error.to_string()))?;
        copy.set_setting(CLAIM, &text)
    }
}

impl Sync<'_> {
    /// Asks the server whether the version that came by disk is as the bundle said. Where it is not, what the bundle brought is
    /// no state of the server's: it counts as files that were made here. So none of it is lost, and nobody's state gives way.
    pub(super) async fn confirm_bundle(&mut self, report: &mut PullReport) -> Result<(), ClientError> {
        let Some(claim) = Unconfirmed::of(self.copy)? else { return Ok(()) };
        let root = self.api.version_hashes(claim.number).await?.map(|version| version.root);
        if root.is_none() || root != claim.root {
            self.take_apart(&claim, root.is_some(), report).await?;
        }
        self.copy.set_setting(CLAIM, "")
    }

    /// Compares what came by disk path by path with the server's version, and lets go of what is not in it.
    async fn take_apart(
        &mut self,
        claim: &Unconfirmed,
        known: bool,
        report: &mut PullReport,
    ) -> Result<(), ClientError> {
        // What was changed here meanwhile is an entry before the index loses sight of what it changed.
        self.append_changes()?;
        let theirs = if known { self.states_of(claim.number).await? } else { BTreeMap::new() };
        let mut others = BTreeSet::new();
        for path in self.copy.settled_paths()? {
            let here = self.copy.node(&path)?;
            let same = theirs.get(&path).map(Node::content) == here.as_ref().map(Node::content);
            if !same {
                others.insert(path);
            }
        }
        self.copy.set_setting(UNSETTLED, "1")?;
        self.interrupted = true;
        if !known {
            self.copy.set_base(0, None)?;
        }
        if others.is_empty() && known {
            return Ok(());
        }
        let number = claim.number;
        let what = if known { "is another than the bundle said" } else { "is not known to the server" };
        report.notes.push(format!(
            "version {number}, which came by a bundle, {what}: {} paths that it brought count as made here and are shipped as \
             such; where the workspace holds another state, yours goes beside it",
            others.len()
        ));
        self.copy.disown(&others)?;
        let here = self.copy.unindexed()?;
        self.adopting = Some(here).filter(|here| !here.is_empty());
        self.pull(report).await.map(drop)
    }

    /// The states of all paths of a version of the server's; none where it has let them go.
    async fn states_of(&mut self, number: u64) -> Result<BTreeMap<TreePath, Node>, ClientError> {
        let changes = self.api.changes_between(0, number, &TreePath::root()).await;
        let mut changes = match changes {
            Err(ClientError::Problem { status: 404 | 410, .. }) => return Ok(BTreeMap::new()),
            changes => changes?.1,
        };
        let mut states = BTreeMap::new();
        while let Some((path, node)) = changes.next().await? {
            states.extend(node.map(|node| (path, node)));
        }
        Ok(states)
    }

    /// Ids of the bodies of entries that a bundle took along and that the server holds by now, by their plain hash: their
    /// contents need not go again. Nothing is asked where there was no bundle, or all that it took along has ended.
    pub(super) async fn brought_by_bundle(&mut self) -> Result<BTreeSet<Hash>, ClientError> {
        let newest = self.copy.setting(BUNDLED)?.and_then(|text| text.parse::<u64>().ok());
        let Some(newest) = newest else { return Ok(BTreeSet::new()) };
        let pending = self.copy.pending()?;
        let taken: Vec<_> = pending.into_iter().filter(|entry| entry.number <= newest && entry.sent).collect();
        if taken.is_empty() {
            self.copy.set_setting(BUNDLED, "")?;
            return Ok(BTreeSet::new());
        }
        let mut held = BTreeSet::new();
        for (entry, state) in taken.iter().zip(self.held_states(&taken).await?) {
            if state == crate::net::HeldState::Same {
                held.insert(Hash::of(&entry.body));
            }
        }
        Ok(held)
    }
}
