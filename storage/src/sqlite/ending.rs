//! How an entry ends: one transaction writes blobs, nodes, version, entry and pins.

use super::nodes::{NodeCache, WriteNodes};
use super::{Result, blobs, entries, now, signed, sums, versions};
use crate::check::{Unmet, unmet};
use crate::entry::{Committed, Ending, Finish, StoredEntry};
use crate::error::unfit;
use crate::{Scope, StorageError, pack};
use opship_record::entry::{Body, BodyKind, Envelope};
use opship_record::observation::Observation;
use opship_record::record::Lists;
use opship_record::tree::{TreeError, apply};
use opship_record::version::Version;
use opship_record::{FORMAT_VERSION, Hash, TreePath, codec};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use std::collections::HashSet;

/// All that the writer needs, prepared by the caller's thread as far as possible.
pub(crate) struct Prepared {
    pub(crate) workspace: i64,
    pub(crate) principal: i64,
    envelope: Envelope,
    body: Vec<u8>,
    lists: Lists,
    packed: Vec<u8>,
    report: Option<Vec<u8>>,
    small: Vec<(Hash, Vec<u8>)>,
    pinned: Vec<Hash>,
    /// Modules that the entry ran.
    modules: Vec<Hash>,
    ending: Ending,
    /// `None`: the entry makes no version whatever its lists hold.
    head: Option<BasedOn>,
}

/// What a commit was made on.
pub(crate) struct BasedOn(pub(crate) Option<Hash>);

impl Prepared {
    /// Encodes, hashes and compresses. `head` is `None` for an entry that makes no version.
    pub(crate) fn new(scope: &Scope, finish: Finish, head: Option<BasedOn>) -> Result<Prepared> {
        let Finish { envelope, body, lists, small_blobs, pinned, ending } = finish;
        if body.id() != envelope.body || body.kind() != envelope.kind {
            return Err(unfit(&TreePath::root(), "the envelope names another body"));
        }
        Ok(Prepared {
            workspace: scope.workspace,
            principal: scope.principal,
            modules: match &body {
                Body::Operation(record) => record.plan.steps.iter().map(|step| step.module).collect(),
                Body::Value(_) => Vec::new(),
            },
            body: body.encode(),
            packed: pack::pack_lists(&lists)?,
            report: (!ending.report.is_empty()).then(|| codec::encode(&ending.report)),
            small: small_blobs.into_iter().map(|bytes| (Hash::of(&bytes), bytes)).collect(),
            envelope,
            lists,
            pinned,
            ending,
            head,
        })
    }
}

/// Ends an entry. Nothing is written unless all is.
pub(crate) fn end(connection: &Connection, cache: &NodeCache, entry: &Prepared) -> Result<Committed> {
    if let Some(known) = known(connection, entry)? {
        return Ok(known);
    }
    let head = versions::head(connection, entry.workspace)?;
    let mut nodes = WriteNodes::new(connection, cache);
    let version = match next_version(&mut nodes, entry, &head)? {
        Next::Version(version) => version,
        Next::Stale(stale) => return Ok(stale),
    };
    check_blobs(connection, entry)?;
    for module in &entry.modules {
        blobs::touch(connection, entry.workspace, module)?;
    }
    for (hash, bytes) in &entry.small {
        blobs::insert_small(connection, hash, bytes)?;
        blobs::show(connection, entry.workspace, hash)?;
    }
    nodes.store()?;
    if let Some(version) = &version {
        versions::insert(connection, entry.workspace, version)?;
    }
    let stored = insert_entry(connection, entry, version.as_ref(), &head)?;
    let mut pin = connection.prepare_cached("INSERT OR IGNORE INTO pin (entry, hash) VALUES (?1, ?2)")?;
    for hash in &entry.pinned {
        pin.execute(params![stored.id, hash.as_bytes()])?;
    }
    Ok(Committed::Done { entry: Box::new(stored), version })
}

/// What became of the entry's key before.
fn known(connection: &Connection, entry: &Prepared) -> Result<Option<Committed>> {
    let envelope = &entry.envelope;
    let found = entries::by_key(connection, entry.workspace, &envelope.client, envelope.sequence)?;
    Ok(found.map(
        |found| {
            if found.body == envelope.body { Committed::Duplicate(Box::new(found)) } else { Committed::Forked }
        },
    ))
}

enum Next {
    Version(Option<Version>),
    Stale(Committed),
}

/// The version that the entry makes of the head.
fn next_version(nodes: &mut WriteNodes<'_>, entry: &Prepared, head: &Version) -> Result<Next> {
    let Some(BasedOn(based_on)) = &entry.head else { return Ok(Next::Version(None)) };
    let unmoved = *based_on == Some(head.root);
    if !unmoved && let Some(unmet) = unmet(nodes, &head.root, &entry.lists)? {
        return Ok(Next::Stale(match unmet {
            Unmet::Observation(observation) => stale(Some(observation), None),
            Unmet::Before(path) => stale(None, Some(path)),
        }));
    }
    if entry.lists.changes.is_empty() {
        return Ok(Next::Version(None));
    }
    let root = match apply(nodes, &head.root, &entry.lists.changes) {
        Ok(root) => root,
        // The list fitted the tree that it was made on: it is another's change that stands in the way.
        Err(TreeError::Unfit { path, .. }) if !unmoved && based_on.is_some() => {
            return Ok(Next::Stale(stale(None, Some(path))));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Next::Version(Some(Version {
        format: FORMAT_VERSION,
        number: head.number + 1,
        root,
        parent: Some(head.id()),
        author: Some(entry.envelope.client),
        sequence: Some(entry.envelope.sequence),
        entry: Some(entry.envelope.body),
        time: now().max(head.time),
    })))
}

fn stale(observation: Option<Observation>, before: Option<TreePath>) -> Committed {
    Committed::Stale { observation, before }
}

/// All blobs that a new version names or the entry pins are in the workspace, or come with it.
fn check_blobs(connection: &Connection, entry: &Prepared) -> Result<()> {
    let coming: HashSet<(Hash, u64)> = entry.small.iter().map(|(hash, bytes)| (*hash, bytes.len() as u64)).collect();
    let named = entry.head.iter().flat_map(|_| &entry.lists.changes).filter_map(|change| change.after.blob());
    let named: Vec<(Hash, u64)> =
        named.map(|(length, hash)| (hash, length)).filter(|blob| !coming.contains(blob)).collect();
    let mut missing = blobs::check_visible(connection, entry.workspace, &named)?;
    for hash in &entry.pinned {
        let comes = entry.small.iter().any(|(small, _)| small == hash);
        if !comes && blobs::length(connection, entry.workspace, hash)?.is_none() {
            missing.push(*hash);
        }
        blobs::touch(connection, entry.workspace, hash)?;
    }
    if missing.is_empty() { Ok(()) } else { Err(StorageError::Incomplete { blobs: missing, nodes: Vec::new() }) }
}

fn insert_entry(
    connection: &Connection,
    entry: &Prepared,
    version: Option<&Version>,
    head: &Version,
) -> Result<StoredEntry> {
    let (envelope, ending) = (&entry.envelope, &entry.ending);
    let (number, version_id) = (version.unwrap_or(head).number, version.unwrap_or(head).id());
    let time = now();
    let rebased = ending.record.as_ref().map(|record| record.encode());
    let pinned = sums::of_pins(&entry.pinned);
    let columns: [ValueRef<'_>; sums::COLUMNS.len()] = [
        ValueRef::Integer(entry.workspace),
        ValueRef::Blob(envelope.client.as_bytes()),
        ValueRef::Integer(signed(envelope.sequence)),
        ValueRef::Blob(envelope.body.as_bytes()),
        ValueRef::Integer(i64::from(envelope.kind == BodyKind::Value)),
        ValueRef::Blob(&entry.body),
        ValueRef::Blob(&entry.packed),
        ending.verdict.name().into(),
        ending.reason.map(|reason| reason.name()).into(),
        ValueRef::Integer(signed(number)),
        ValueRef::Integer(i64::from(version.is_some())),
        entry.report.as_deref().into(),
        ending.detail.as_deref().into(),
        ending.replay_micros.map_or(ValueRef::Null, |micros| ValueRef::Integer(signed(micros))),
        ValueRef::Integer(signed(ending.received_bytes)),
        ValueRef::Integer(signed(ending.sent_bytes)),
        ValueRef::Integer(entry.principal),
        ValueRef::Integer(signed(time)),
        rebased.as_deref().into(),
        ValueRef::Blob(&pinned),
    ];
    let sum = sums::of_columns(columns);
    let values = columns.into_iter().chain([ValueRef::Blob(&sum)]).map(ToSqlOutput::Borrowed);
    let sql =
        format!("INSERT INTO entry ({}, sum) VALUES (?{})", sums::COLUMNS.join(", "), ", ?".repeat(columns.len()));
    let id = connection.prepare_cached(&sql)?.insert(params_from_iter(values))?;
    Ok(StoredEntry {
        id,
        client: envelope.client,
        sequence: envelope.sequence,
        body: envelope.body,
        kind: envelope.kind,
        verdict: ending.verdict,
        reason: ending.reason,
        version: number,
        made_version: version.is_some(),
        report: ending.report.clone(),
        detail: ending.detail.clone(),
        replay_micros: ending.replay_micros,
        received_bytes: ending.received_bytes,
        sent_bytes: ending.sent_bytes,
        principal: entry.principal,
        time,
        record: ending.record.clone(),
        resolved: None,
        version_id: Some(version_id),
    })
}
