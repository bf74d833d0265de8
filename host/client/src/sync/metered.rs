//! What goes over a metered link: operations, and values that are small, or have priority, or are free since the server has
//! them. The rest waits where it is: changed files in the folder, entries in the log, the server's states as deferred.

use super::Sync;
use super::pull::State;
use crate::budget::{Link, LinkChoice, Size, link_to};
use crate::log::{Deferred, LogEntry};
use crate::scan::Scan;
use crate::{ClientError, WorkingCopy};
use opship_record::answer::Need;
use opship_record::effect::{Before, Change};
use opship_record::entry::BodyKind;
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};

/// Something that waits for another link, or for a new budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The entry, for what is in the log.
    pub entry: Option<u64>,
    /// The path, or the entry's command.
    pub what: String,
    /// Bytes that it would cost, at most.
    pub bytes: u64,
    /// Why it waits.
    pub reason: String,
}

/// What waits on a link, of the changes that a scan found and of the log.
///
/// # Errors
/// [`ClientError::Database`].
pub fn waiting(copy: &WorkingCopy, link: &Link, scan: &Scan) -> Result<Vec<Waiting>, ClientError> {
    let mut found = Vec::new();
    let mut taking = Taking::new(copy, link)?;
    for change in &scan.changes {
        let Some((bytes, hash)) = change.after.blob() else { continue };
        if let Some(reason) = taking.refuses(&change.path, bytes, &hash)? {
            found.push(Waiting { entry: None, what: change.path.to_string(), bytes, reason });
        }
    }
    for (entry, bytes, reason) in held(copy, link)? {
        found.push(Waiting { entry: Some(entry.number), what: entry.command, bytes, reason });
    }
    Ok(found)
}

/// Is there something that a sync would ship? `look`: also among changes of the folder, which takes a scan.
pub(crate) fn has_work(copy: &WorkingCopy, choice: &LinkChoice, look: bool) -> Result<bool, ClientError> {
    let link = link_to(&copy.config().server.parse()?, choice)?.filter(Link::is_limited);
    let held = match &link {
        Some(link) => held(copy, link)?.into_iter().map(|(entry, ..)| entry.number).collect(),
        None => BTreeSet::new(),
    };
    if copy.pending()?.iter().any(|entry| !entry.is_parked() && !held.contains(&entry.number)) {
        return Ok(true);
    }
    if !look {
        return Ok(false);
    }
    let changes = copy.scan()?.changes;
    let Some(link) = link else { return Ok(!changes.is_empty()) };
    let mut taking = Taking::new(copy, &link)?;
    for change in changes {
        let taken = match change.after.blob() {
            Some((bytes, hash)) => taking.refuses(&change.path, bytes, &hash)?.is_none(),
            None => true,
        };
        if taken {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Goes through contents and takes what the link allows and the budget has room for.
struct Taking<'a> {
    copy: &'a WorkingCopy,
    link: &'a Link,
    left: Option<u64>,
}

impl<'a> Taking<'a> {
    fn new(copy: &'a WorkingCopy, link: &'a Link) -> Result<Taking<'a>, ClientError> {
        Ok(Taking { copy, link, left: left_for_contents(link)? })
    }

    /// Why a content has to wait; `None`: it goes, and the budget is charged with it.
    fn refuses(&mut self, path: &TreePath, bytes: u64, hash: &Hash) -> Result<Option<String>, ClientError> {
        if self.copy.is_with_server(hash)? {
            return Ok(None);
        }
        if !self.link.takes(path, bytes) {
            return Ok(Some(format!("it is too large for link '{}'", self.link.name())));
        }
        Ok(self.overdraws(bytes))
    }

    fn overdraws(&mut self, bytes: u64) -> Option<String> {
        let (left, price) = (self.left.filter(|_| bytes > 0)?, price(bytes));
        if price > left {
            return Some(format!("it is more than what is left of the budget of link '{}'", self.link.name()));
        }
        self.left = Some(left - price);
        None
    }
}

/// The entries that wait for another link or a new budget, with bytes and reason. An operation takes along the values that
/// it needs; if the budget has no room for those, it waits with them.
fn held(copy: &WorkingCopy, link: &Link) -> Result<Vec<(LogEntry, u64, String)>, ClientError> {
    if !link.is_limited() {
        return Ok(Vec::new());
    }
    let pending = copy.pending()?;
    let needed = needed_by_operations(&pending);
    let mut taking = Taking::new(copy, link)?;
    let mut held: Vec<(LogEntry, u64, String)> = Vec::new();
    for entry in pending {
        let waits_for = held.iter().find(|(other, ..)| entry.waits.contains(&other.sequence));
        if let Some((other, bytes, _)) = waits_for {
            let reason = format!("it needs entry {}, which waits", other.number);
            let bytes = *bytes;
            held.push((entry, bytes, reason));
            continue;
        }
        if entry.kind == BodyKind::Operation {
            continue;
        }
        let (mut bytes, mut paths, mut reason) = (0, 0, None);
        let changes = copy.lists(entry.number)?.changes;
        let replaced: BTreeSet<Hash> = changes.iter().filter_map(replaced).collect();
        for change in changes {
            let Some((length, hash)) = change.after.blob() else { continue };
            // What was moved is no longer in the index where it was.
            if replaced.contains(&hash) || copy.is_with_server(&hash)? {
                continue;
            }
            bytes += length;
            paths += 1;
            if !link.takes(&change.path, length) && !needed.contains(&entry.sequence) {
                reason = Some(format!("'{}' is too large for link '{}'", change.path, link.name()));
            }
        }
        if let Some(reason) = reason.or_else(|| taking.overdraws(bytes + paths * FOR_A_PATH)) {
            held.push((entry, bytes, reason));
        }
    }
    Ok(held)
}

/// The content that a change takes away.
fn replaced(change: &Change) -> Option<Hash> {
    match change.before {
        Before::File { hash } => Some(hash),
        _ => None,
    }
}

/// The sequence numbers of what operations wait for, directly or through others.
fn needed_by_operations(pending: &[LogEntry]) -> BTreeSet<u64> {
    let by_sequence: BTreeMap<u64, &LogEntry> = pending.iter().map(|entry| (entry.sequence, entry)).collect();
    let operations = pending.iter().filter(|entry| entry.kind == BodyKind::Operation);
    let mut work: Vec<u64> = operations.flat_map(|entry| entry.waits.iter().copied()).collect();
    let mut needed = BTreeSet::new();
    while let Some(sequence) = work.pop() {
        if needed.insert(sequence) {
            work.extend(by_sequence.get(&sequence).into_iter().flat_map(|entry| entry.waits.iter().copied()));
        }
    }
    needed
}

impl Sync<'_> {
    pub(super) fn limited_link(&self) -> Option<&Link> {
        self.link.as_ref().filter(|link| link.is_limited())
    }

    /// Makes an entry of the changes that may go over the link.
    pub(super) fn append_changes(&self) -> Result<(), ClientError> {
        self.copy.bound_entries(self.limited_link().and_then(bytes_of_an_entry))?;
        let Some(link) = self.limited_link() else { return self.copy.append_changes().map(drop) };
        if let Some(last) = self.held()?.last() {
            self.copy.note_left(*last)?;
        }
        let mut taking = Taking::new(self.copy, link)?;
        self.copy.append_changes_if(&mut |path, node| match node {
            Some(Node::File { length, hash, .. }) => Ok(taking.refuses(path, *length, hash)?.is_none()),
            _ => Ok(true),
        })
    }

    /// The entries that this sync leaves alone for the link's sake.
    pub(super) fn held(&self) -> Result<BTreeSet<u64>, ClientError> {
        let Some(link) = self.limited_link() else { return Ok(BTreeSet::new()) };
        Ok(held(self.copy, link)?.into_iter().map(|(entry, ..)| entry.number).collect())
    }

    /// Why what the server wants for an entry has to wait; `None`: it goes.
    pub(super) fn too_dear(&self, entry: &LogEntry, needs: &[Need]) -> Result<Option<String>, ClientError> {
        let Some(link) = self.limited_link() else { return Ok(None) };
        let all = needs.contains(&Need::Values);
        let mut taking = Taking::new(self.copy, link)?;
        for change in self.copy.lists(entry.number)?.changes {
            let Some((bytes, hash)) = change.after.blob() else { continue };
            let asked = all || needs.contains(&Need::Blob { hash });
            if asked && let Some(reason) = taking.refuses(&change.path, bytes, &hash)? {
                return Ok(Some(format!(
                    "the server asks for '{}' by value ({bytes} bytes), and {reason}",
                    change.path
                )));
            }
        }
        Ok(None)
    }

    /// What of the server's states may come over the link; the rest is deferred.
    pub(super) fn affordable(&self, batch: Vec<State>) -> Result<Vec<State>, ClientError> {
        let mut left = self.left_for_contents()?;
        let (mut taken, mut deferred) = (Vec::new(), Vec::new());
        for (path, node) in batch {
            match self.refuses(&mut left, &path, node.as_ref())? {
                None => taken.push((path, node)),
                Some(reason) => deferred.push(Deferred { path, node, reason }),
            }
        }
        self.copy.defer(&deferred)?;
        Ok(taken)
    }

    /// Bytes of the budget that contents may have; `None`: there is no budget.
    pub(super) fn left_for_contents(&self) -> Result<Option<u64>, ClientError> {
        match self.limited_link() {
            Some(link) => left_for_contents(link),
            None => Ok(None),
        }
    }

    /// Why a state of the server may not come over the link; `None`: it comes, and `left` is charged with its content.
    pub(super) fn refuses(
        &self,
        left: &mut Option<u64>,
        path: &TreePath,
        node: Option<&Node>,
    ) -> Result<Option<String>, ClientError> {
        let (Some(link), Some(Node::File { hash, length, .. })) = (self.limited_link(), node) else { return Ok(None) };
        if self.is_here(hash)? {
            return Ok(None);
        }
        let fits = left.is_none_or(|left| price(*length) <= left);
        if link.takes(path, *length) && fits {
            *left = left.map(|left| left - price(*length));
            return Ok(None);
        }
        let why = if fits { "is too large for" } else { "is more than what is left of the budget of" };
        Ok(Some(format!("its content, {length} bytes, {why} link '{}'", link.name())))
    }
}

/// Set aside of a budget for what a sync takes besides contents: heads of requests, lists, answers.
const FOR_REQUESTS: u64 = 8 << 10;
/// What a path takes in lists and heads, at most.
const FOR_A_PATH: u64 = 200;

/// Bytes of contents that an entry may have so that the budget of one day, or else of one month, holds it.
fn bytes_of_an_entry(link: &Link) -> Option<u64> {
    let budget = link.profile().budget;
    let bytes = budget.day.into_iter().chain(budget.month).map(Size::bytes).min()?;
    Some(bytes.saturating_sub(FOR_REQUESTS) / 4 * 3)
}

/// Bytes of a budget that contents may have.
fn left_for_contents(link: &Link) -> Result<Option<u64>, ClientError> {
    Ok(link.left()?.map(|left| left.saturating_sub(FOR_REQUESTS)))
}

/// What a content may take with all that goes with it.
fn price(length: u64) -> u64 {
    length.saturating_add(length / 10).saturating_add(FOR_A_PATH)
}
