//! What goes into a bundle of a working copy.

use super::create::CreateOptions;
use super::format::{BundledEntry, Claim, FORMAT, Head, MAX_ENTRY, MAX_PATHS, State};
use super::read::root_of;
use crate::db::{index, keep, refused, remote, waits};
use crate::log::LogEntry;
use crate::modules::ModuleBook;
use crate::mounts::Closure;
use crate::sync::UNSETTLED;
use crate::{ClientError, WorkingCopy};
use opship_record::entry::{Body, BodyKind};
use opship_record::node::Node;
use opship_record::plan::Stdin;
use opship_record::{Hash, TreePath, codec, effect, observation, record, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A content, and where its bytes are.
pub(super) enum Source {
    /// Found by its hash in the working copy.
    Copy,
    /// A module.
    Bytes(Vec<u8>),
    /// A file of a module's mount.
    File(PathBuf),
}

/// A content, its length, and where its bytes are.
pub(super) type Planned = (Hash, u64, Source);

/// All that goes into a bundle.
pub(super) struct Plan {
    pub head: Head,
    pub states: Vec<State>,
    pub entries: Vec<BundledEntry>,
    /// The log's numbers of the entries.
    pub numbers: Vec<u64>,
    /// Nodes of mounts' trees.
    pub nodes: Vec<Vec<u8>>,
    /// Each content with its length, in the order in which they are read.
    pub contents: Vec<Planned>,
}

/// What an earlier version holds.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// The paths that it has in another state, or not, or that it alone has.
    pub differing: BTreeSet<TreePath>,
    /// The contents that it has at these paths.
    pub contents: BTreeSet<Hash>,
}

/// Gathers what goes into a bundle. Unless it is only to be told, entries that go into it count as sent from here on.
pub(super) fn plan(
    copy: &WorkingCopy,
    book: &ModuleBook,
    options: CreateOptions,
    left_out: Option<LeftOut>,
) -> Result<Plan, ClientError> {
    // Index and log as they are at one moment.
    let lock = copy.lock()?;
    let pending = copy.pending()?;
    let states = if between_versions(copy)? { None } else { Some(states(copy)?) };
    let paths = states.as_ref().map_or(0, Vec::len);
    if paths as u64 > MAX_PATHS {
        let most = format!("the workspace has {paths} paths; a bundle takes {MAX_PATHS} at most");
        return Err(ClientError::Refused(most));
    }
    let mut entries = Vec::new();
    for entry in &pending {
        entries.push(bundled(copy, entry)?);
    }
    let numbers: Vec<u64> = pending.iter().map(|entry| entry.number).collect();
    if !options.dry_run {
        // The server may come to hold them, so they stay as they are.
        copy.mark_sent(&numbers)?;
    }
    drop(lock);
    let (contents, seen) = (BTreeMap::new(), BTreeSet::new());
    let mut gathered = Gathered { copy, book, contents, order: Vec::new(), nodes: Vec::new(), seen };
    gathered.of_version(states.as_deref().unwrap_or_default(), left_out);
    for (entry, bundled) in pending.iter().zip(&entries) {
        gathered.of_entry(entry, bundled)?;
    }
    let (base, mark) = copy.base()?;
    let root =
        states.as_ref().map(|states| root_of(states)).transpose().map_err(ClientError::io("reading the index"))?;
    let version = root.map(|root| Claim { number: base, mark: mark.map(Into::into), root });
    let states = states.unwrap_or_default();
    let (contents, nodes) = gathered.finish();
    let head = Head {
        format: FORMAT,
        server: copy.config().server.clone(),
        workspace: copy.config().workspace.clone(),
        since: options.since.filter(|_| version.is_some()),
        version,
        paths: states.len() as u64,
        entries: entries.len() as u64,
        contents: contents.len() as u64,
        made: crate::db::log::now_millis(),
    };
    Ok(Plan { head, states, entries, numbers, nodes, contents })
}

/// Was a sync cut off, so that the index is partly of a newer version?
fn between_versions(copy: &WorkingCopy) -> Result<bool, ClientError> {
    Ok(copy.setting(UNSETTLED)?.is_some_and(|mark| !mark.is_empty()))
}

/// The states of the version that the working copy stands on, as far as they are known: where entries without a final verdict,
/// or ones that ended since, wrote, and where a pull left something alone, the index holds others.
fn states(copy: &WorkingCopy) -> Result<Vec<State>, ClientError> {
    let db = copy.shared.db.read();
    let mut states: BTreeMap<TreePath, Option<Node>> = BTreeMap::new();
    for (path, row) in index::all_below(&db, &TreePath::root())? {
        states.insert(path, Some(row.node).filter(|_| row.synced));
    }
    let mut unknown = waits::written(&db)?;
    unknown.extend(remote::deferred(&db)?.into_iter().map(|deferred| deferred.path));
    // Something else stands there than the version has.
    unknown.extend(refused::all(&db)?.into_iter().map(|refused| refused.path));
    drop(db);
    unknown.extend(copy.paths_ahead()?);
    states.extend(unknown.into_iter().filter(|path| !path.is_root()).map(|path| (path, None)));
    Ok(states.into_iter().collect())
}

fn bundled(copy: &WorkingCopy, entry: &LogEntry) -> Result<BundledEntry, ClientError> {
    let lists = copy.lists(entry.number)?;
    let operation = entry.kind == BodyKind::Operation;
    let bundled = BundledEntry {
        client: entry.client,
        sequence: entry.sequence,
        kind: entry.kind,
        waits: entry.waits.clone(),
        command: entry.command.clone(),
        body: entry.body.clone().into(),
        changes: effect::encode_list(&lists.changes).into(),
        observations: operation.then(|| observation::encode_list(&lists.observations).into()),
        streams: operation.then(|| record::encode_streams(&lists.streams).into()),
    };
    if codec::encode(&bundled).len() > MAX_ENTRY {
        let number = entry.number;
        return Err(ClientError::Refused(format!(
            "entry {number} is too large for a bundle; ship it with 'opship sync'"
        )));
    }
    Ok(bundled)
}

/// Contents and tree nodes, each once.
struct Gathered<'a> {
    copy: &'a WorkingCopy,
    book: &'a ModuleBook,
    contents: BTreeMap<Hash, (u64, Source)>,
    /// In the order of the paths, in which they are read.
    order: Vec<Hash>,
    nodes: Vec<Vec<u8>>,
    /// The hashes of the nodes: what is below one of them was gathered too.
    seen: BTreeSet<Hash>,
}

impl Gathered<'_> {
    fn add(&mut self, hash: &Hash, length: u64, source: Source) {
        if !self.contents.contains_key(hash) {
            self.contents.insert(*hash, (length, source));
            self.order.push(*hash);
        }
    }

    /// The contents of a version, but for those that an earlier one holds, under whatever name.
    fn of_version(&mut self, states: &[State], left_out: Option<LeftOut>) {
        let file = |node: &Option<Node>| match node {
            Some(Node::File { hash, length, .. }) => Some((*hash, *length)),
            _ => None,
        };
        let mut held = BTreeSet::new();
        if let Some(left_out) = left_out {
            let same = states.iter().filter(|(path, _)| !left_out.differing.contains(path));
            held.extend(same.filter_map(|(_, node)| file(node)).map(|(hash, _)| hash));
            held.extend(left_out.contents);
        }
        for (hash, length) in states.iter().filter_map(|(_, node)| file(node)) {
            if !held.contains(&hash) {
                self.add(&hash, length, Source::Copy);
            }
        }
    }

    /// All that the server may ask for because of an entry and that is here: what it wrote and read, modules, mounts.
    fn of_entry(&mut self, entry: &LogEntry, bundled: &BundledEntry) -> Result<(), ClientError> {
        let written = bundled.contents().map_err(ClientError::io("reading the log"))?;
        let kept = keep::kept_of(&self.copy.shared.db.read(), entry.number)?;
        let mut hashes: BTreeSet<Hash> = written.into_iter().map(|(hash, _)| hash).chain(kept).collect();
        if let Body::Operation(record) = Body::decode(entry.kind, &entry.body)? {
            for step in &record.plan.steps {
                if let Some(Stdin::Blob { hash }) = &step.stdin {
                    hashes.insert(*hash);
                }
                if !self.contents.contains_key(&step.module)
                    && let Some(bytes) = self.book.bytes(&step.module)?
                {
                    self.add(&step.module, bytes.len() as u64, Source::Bytes(bytes));
                }
                for mount in step.mounts.iter().flatten() {
                    self.of_mount(&mount.tree);
                }
            }
        }
        for hash in hashes {
            if !self.copy.is_with_server(&hash)?
                && let Some(content) = self.copy.blob_source(&hash)?
            {
                self.add(&hash, content.length(), Source::Copy);
            }
        }
        Ok(())
    }

    /// A mount that is not whole here is the server's: it came from there.
    fn of_mount(&mut self, tree: &Hash) {
        if self.seen.contains(tree) {
            return;
        }
        let store = self.book.mounts();
        let Ok(Closure { nodes, blobs }) = store.closure(tree) else { return };
        for (hash, length) in blobs {
            self.add(&hash, length, Source::File(store.blob_path(&hash)));
        }
        for node in nodes {
            if self.seen.insert(tree::hash_of(&node)) {
                self.nodes.push(node);
            }
        }
    }

    fn finish(self) -> (Vec<Planned>, Vec<Vec<u8>>) {
        let Gathered { mut contents, order, nodes, .. } = self;
        let ordered = order.into_iter().filter_map(|hash| {
            let (length, source) = contents.remove(&hash)?;
            Some((hash, length, source))
        });
        (ordered.collect(), nodes)
    }
}
