//! Which earlier entries an entry waits for (DESIGN.md §5, Entry).
//!
//! What an entry uses is kept by path: it may read or write what stands there (the *node*), the directory's *listing*,
//! or all that lies *below*. Two entries must keep their order where one writes what the other reads or writes.

use super::{below, int, uint};
use crate::ClientError;
use crate::log::LogEntry;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, BodyKind};
use opship_record::limits::MAX_WAITS;
use opship_record::node::Kind;
use opship_record::observation::Observation;
use opship_record::plan::Stdin;
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};

const READS_NODE: u8 = 1;
const READS_LISTING: u8 = 2;
const WRITES_NODE: u8 = 4;
const WRITES_LISTING: u8 = 8;
/// Moved or removed with all that lies below.
const WRITES_BELOW: u8 = 16;

/// What an entry uses, by path.
type Uses = BTreeMap<TreePath, u8>;

/// Stores what a new entry uses, what it produces, and which earlier unended entries it waits for.
pub(crate) fn insert(db: &Connection, number: u64, body: &Body, lists: &Lists) -> Result<(), ClientError> {
    let uses = uses(lists);
    let (mut hard, soft) = (waits(db, number, &uses)?, produced_by(db, number, &named(body, lists))?);
    if matches!(body, Body::Value(_)) {
        // One that is parked ends when somebody says so, and what people write must not wait for that.
        for waited in hard.clone() {
            let entry = super::log::get(db, waited)?;
            if entry.kind == BodyKind::Operation && entry.is_parked() {
                hard.remove(&waited);
            }
        }
    }
    let mut statement = db.prepare_cached("INSERT OR IGNORE INTO wait (entry, waits_for, hard) VALUES (?1, ?2, ?3)")?;
    for (waited, hard) in hard.iter().map(|n| (*n, true)).chain(soft.iter().map(|n| (*n, false))) {
        statement.execute(params![int(number), int(waited), hard])?;
    }
    let mut statement = db.prepare_cached("INSERT INTO entry_path (path, entry, uses) VALUES (?1, ?2, ?3)")?;
    for (path, flags) in &uses {
        statement.execute(params![path.as_str(), int(number), flags])?;
    }
    let mut statement = db.prepare_cached("INSERT OR IGNORE INTO produced (hash, entry) VALUES (?1, ?2)")?;
    for hash in produced(lists) {
        statement.execute(params![hash.as_bytes(), int(number)])?;
    }
    Ok(())
}

/// Forgets what [`insert`] stored.
pub(crate) fn remove(db: &Connection, number: u64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM wait WHERE entry = ?1",
        "DELETE FROM entry_path WHERE entry = ?1",
        "DELETE FROM produced WHERE entry = ?1",
    ] {
        db.prepare_cached(sql)?.execute([int(number)])?;
    }
    Ok(())
}

/// The server holds an entry's outputs: nobody waits for it any more.
pub(crate) fn settle(db: &Connection, number: u64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM wait WHERE waits_for = ?1",
        "DELETE FROM entry_path WHERE entry = ?1",
        "DELETE FROM produced WHERE entry = ?1",
    ] {
        db.prepare_cached(sql)?.execute([int(number)])?;
    }
    Ok(())
}

/// Who waits for this entry waits for what it waits for instead: it is taken out of the middle of a chain. The copies that are
/// kept for it may be all that is left of what earlier entries made: they are kept for those.
pub(crate) fn pass_on(db: &Connection, number: u64) -> rusqlite::Result<()> {
    keep_for_earlier(db, number)?;
    for sql in [
        "INSERT INTO wait (entry, waits_for, hard) \
         SELECT behind.entry, before.waits_for, min(behind.hard, before.hard) \
         FROM wait behind JOIN wait before ON before.entry = behind.waits_for WHERE behind.waits_for = ?1 \
         ON CONFLICT (entry, waits_for) DO UPDATE SET hard = max(hard, excluded.hard)",
        "DELETE FROM wait WHERE waits_for = ?1",
    ] {
        db.prepare_cached(sql)?.execute([int(number)])?;
    }
    remove(db, number)
}

/// The newest unended entry before `number` that moved or removed a path with all below, or something above it.
pub(crate) fn mover(db: &Connection, path: &TreePath, number: u64) -> rusqlite::Result<Option<u64>> {
    let mut statement = db.prepare_cached(
        "SELECT max(entry) FROM entry_path JOIN entry ON entry.number = entry_path.entry \
         WHERE path = ?1 AND entry < ?2 AND uses & ?3 AND entry.state < 2",
    )?;
    for at in std::iter::successors(Some(path.clone()), TreePath::parent) {
        let mover: Option<i64> =
            statement.query_row(params![at.as_str(), int(number), WRITES_BELOW], |row| row.get(0))?;
        if mover.is_some() {
            return Ok(mover.map(uint));
        }
    }
    Ok(None)
}

/// Copies that are kept for an entry are kept for those too that it waits for: they may have made what it read, and it will
/// end without them.
pub(crate) fn keep_for_earlier(db: &Connection, number: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR IGNORE INTO kept (hash, entry) SELECT kept.hash, wait.waits_for FROM kept \
         JOIN wait ON wait.entry = kept.entry JOIN entry ON entry.number = wait.waits_for \
         WHERE kept.entry = ?1 AND entry.state < 2",
    )?
    .execute([int(number)])?;
    Ok(())
}

/// An entry stands against nobody's paths any more; those that wait for it go on waiting.
pub(crate) fn forget_paths(db: &Connection, number: u64) -> rusqlite::Result<()> {
    for sql in ["DELETE FROM entry_path WHERE entry = ?1", "DELETE FROM produced WHERE entry = ?1"] {
        db.prepare_cached(sql)?.execute([int(number)])?;
    }
    Ok(())
}

/// An operation is parked: it will not be replayed as it is. Nobody waits any more for what it makes, nor for what it has read.
/// What it wrote stays its own.
pub(crate) fn park(db: &Connection, number: u64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM produced WHERE entry = ?1")?.execute([int(number)])?;
    let writes = WRITES_NODE | WRITES_LISTING | WRITES_BELOW;
    db.prepare_cached("UPDATE entry_path SET uses = uses & ?2 WHERE entry = ?1")?
        .execute(params![int(number), writes])?;
    db.prepare_cached("DELETE FROM entry_path WHERE entry = ?1 AND uses = 0")?.execute([int(number)])?;
    Ok(())
}

/// The unsettled entries that write this very path, the newest first.
pub(crate) fn writers(db: &Connection, path: &TreePath) -> rusqlite::Result<Vec<u64>> {
    db.prepare_cached("SELECT entry FROM entry_path WHERE path = ?1 AND uses & ?2 ORDER BY entry DESC")?
        .query_map(params![path.as_str(), WRITES_NODE], |row| Ok(uint(row.get(0)?)))?
        .collect()
}

/// Does an unsettled operation before `number` make this content? A later one may make it out of the entry's own bytes.
pub(crate) fn is_produced(db: &Connection, hash: &Hash, number: u64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM produced WHERE hash = ?1 AND entry < ?2)")?
        .query_row(params![hash.as_bytes(), int(number)], |row| row.get(0))
}

/// Sequence numbers of the entries that an entry still waits for, under its own client id, ascending. One that ended
/// badly stays among them, unless only its bytes were waited for: the server has those, or is sent them.
pub(crate) fn open_sequences(db: &Connection, entry: &LogEntry) -> rusqlite::Result<Vec<u64>> {
    let mut statement = db.prepare_cached(
        "SELECT e.sequence FROM wait w JOIN entry e ON e.number = w.waits_for WHERE w.entry = ?1 AND e.client = ?2 \
         AND e.sequence < ?3 AND (w.hard OR e.state < 2) ORDER BY e.sequence DESC LIMIT ?4",
    )?;
    let limit = int(MAX_WAITS as u64);
    let key = params![int(entry.number), entry.client.as_bytes(), int(entry.sequence), limit];
    let mut found: Vec<u64> = statement.query_map(key, |row| Ok(uint(row.get(0)?)))?.collect::<Result<_, _>>()?;
    found.reverse();
    Ok(found)
}

/// Numbers of the entries that wait for this one.
pub(crate) fn waiting_for(db: &Connection, number: u64) -> rusqlite::Result<Vec<u64>> {
    let mut statement = db.prepare_cached("SELECT entry FROM wait WHERE waits_for = ?1 ORDER BY entry")?;
    statement.query_map([int(number)], |row| Ok(uint(row.get(0)?)))?.collect()
}

/// Does any entry wait for this one?
pub(crate) fn is_waited_for(db: &Connection, number: u64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM wait WHERE waits_for = ?1)")?
        .query_row([int(number)], |row| row.get(0))
}

/// The newest unsettled entry before `number` that these lists would wait for, leaving out `except`.
pub(crate) fn newest_wait(db: &Connection, lists: &Lists, except: u64) -> Result<Option<u64>, ClientError> {
    let mut found = waits(db, u64::MAX, &uses(lists))?;
    let body = Body::Value(opship_record::entry::Value::new(&lists.changes));
    found.extend(produced_by(db, u64::MAX, &named(&body, lists))?);
    Ok(found.into_iter().rfind(|number| *number != except))
}

/// The first unsettled entry after `number` that writes this very path.
pub(crate) fn next_writer(db: &Connection, path: &TreePath, number: u64) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT min(entry) FROM entry_path WHERE path = ?1 AND entry > ?2 AND uses & ?3 <> 0";
    let entry: Option<i64> =
        db.prepare_cached(sql)?.query_row(params![path.as_str(), int(number), WRITES_NODE], |row| row.get(0))?;
    Ok(entry.map(uint))
}

/// The oldest unsettled entry that a value of these changes would wait for, or whose bytes it names.
pub(crate) fn oldest_wait(db: &Connection, changes: &[Change]) -> Result<Option<u64>, ClientError> {
    let lists = Lists { changes: changes.to_vec(), ..Lists::default() };
    let body = Body::Value(opship_record::entry::Value::new(changes));
    let mut found = waits(db, u64::MAX, &uses(&lists))?;
    found.extend(produced_by(db, u64::MAX, &named(&body, &lists))?);
    Ok(found.into_iter().next())
}

/// Is there an unsettled entry of at most this number?
pub(crate) fn has_unsettled_up_to(db: &Connection, most: u64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM entry_path WHERE entry <= ?1)")?
        .query_row([int(most)], |row| row.get(0))
}

/// Does an entry wait for an unended one of at most this number?
pub(crate) fn has_wait_up_to(db: &Connection, number: u64, most: u64) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM wait JOIN entry ON entry.number = wait.waits_for \
         WHERE wait.entry = ?1 AND wait.waits_for <= ?2 AND entry.state < 2)",
    )?
    .query_row([int(number), int(most)], |row| row.get(0))
}

/// Must an unsettled operation between two entries keep its order with these changes?
pub(crate) fn operation_between(db: &Connection, changes: &[Change], from: u64, to: u64) -> Result<bool, ClientError> {
    let lists = Lists { changes: changes.to_vec(), ..Lists::default() };
    let mut kind = db.prepare_cached("SELECT kind FROM entry WHERE number = ?1")?;
    for number in waits(db, to, &uses(&lists))?.into_iter().filter(|number| *number > from) {
        if kind.query_row([int(number)], |row| row.get::<_, u8>(0))? == BodyKind::Operation as u8 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whoever waits for `later` waits for `number` too: a state that `later` made is now made by `number`.
pub(crate) fn wait_for_earlier_too(db: &Connection, number: u64, later: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO wait (entry, waits_for, hard) SELECT entry, ?1, hard FROM wait WHERE waits_for = ?2 \
         ON CONFLICT (entry, waits_for) DO UPDATE SET hard = max(hard, excluded.hard)",
    )?
    .execute([int(number), int(later)])?;
    Ok(())
}

/// Does an unsettled entry write this path, or something above it with all below?
pub(crate) fn is_written(db: &Connection, path: &TreePath) -> Result<bool, ClientError> {
    let uses = Uses::from([(path.clone(), READS_NODE)]);
    Ok(!waits(db, u64::MAX, &uses)?.is_empty())
}

/// The paths that unsettled entries write, or move or remove with all below.
pub(crate) fn written(db: &Connection) -> Result<BTreeSet<TreePath>, ClientError> {
    let mut statement = db.prepare_cached("SELECT DISTINCT path FROM entry_path WHERE uses & ?1")?;
    let mut paths = BTreeSet::new();
    for path in statement.query_map([WRITES_NODE | WRITES_BELOW], |row| row.get::<_, String>(0))? {
        paths.insert(TreePath::new(path?).map_err(|error| super::damaged(0, error))?);
    }
    Ok(paths)
}

/// What an entry's lists say that it uses.
fn uses(lists: &Lists) -> Uses {
    let mut uses = Uses::new();
    let mut add = |path: &TreePath, flags: u8| *uses.entry(path.clone()).or_default() |= flags;
    for observation in &lists.observations {
        add(observation.path(), READS_NODE);
        match observation {
            Observation::Listing { path, .. } => add(path, READS_LISTING),
            Observation::Absent { missing, .. } => {
                add(missing, READS_NODE);
                add(&missing.parent().unwrap_or_default(), READS_NODE);
            }
            _ => {}
        }
    }
    for change in &lists.changes {
        let parent = change.path.parent().unwrap_or_default();
        add(&parent, READS_NODE);
        add(&change.path, WRITES_NODE);
        if writes_listing(change) {
            add(&parent, WRITES_LISTING);
        }
        if takes_all_below(change) {
            add(&change.path, WRITES_BELOW);
        }
        if let After::Moved { from, .. } = &change.after {
            add(from, WRITES_NODE | WRITES_BELOW);
            add(&from.parent().unwrap_or_default(), WRITES_LISTING);
        }
    }
    uses
}

fn writes_listing(change: &Change) -> bool {
    let kind_before = match &change.before {
        Before::Absent { .. } => return true,
        Before::File { .. } => Kind::File,
        Before::Directory => Kind::Directory,
        Before::Symlink { .. } => Kind::Symlink,
        Before::Kind { .. } => return false,
    };
    match &change.after {
        After::Removed | After::Moved { .. } => true,
        After::File { .. } => kind_before != Kind::File,
        After::Directory { .. } => kind_before != Kind::Directory,
        After::Symlink { .. } => kind_before != Kind::Symlink,
        After::Metadata { .. } => false,
    }
}

fn takes_all_below(change: &Change) -> bool {
    match &change.after {
        After::Moved { .. } => true,
        After::Removed | After::File { .. } | After::Symlink { .. } => change.before == Before::Directory,
        After::Directory { .. } | After::Metadata { .. } => false,
    }
}

/// Unsettled entries before `number` that touch what `uses` touches, where one of both writes.
fn waits(db: &Connection, number: u64, uses: &Uses) -> Result<BTreeSet<u64>, ClientError> {
    let mut found = BTreeSet::new();
    if number != u64::MAX && !has_earlier(db, number)? {
        return Ok(found);
    }
    let mut at = db.prepare_cached("SELECT entry, uses FROM entry_path WHERE path = ?1 AND entry < ?2")?;
    let mut under = db.prepare_cached("SELECT entry FROM entry_path WHERE path >= ?1 AND path < ?2 AND entry < ?3")?;
    let limit = int(number);
    let mut ancestors: BTreeSet<TreePath> = BTreeSet::new();
    for (path, mine) in uses {
        let rows = at.query_map(params![path.as_str(), limit], |r| Ok((uint(r.get(0)?), r.get::<_, u8>(1)?)))?;
        let rows: Vec<(u64, u8)> = rows.collect::<Result<_, _>>()?;
        // The newest that writes the node waits itself for all before it that use the node.
        let writes = |(_, theirs): &&(u64, u8)| theirs & (WRITES_NODE | WRITES_BELOW) != 0;
        let newest = rows.iter().filter(writes).map(|(entry, _)| *entry).max().unwrap_or(0);
        let uses_node = |theirs: u8| theirs & (READS_NODE | WRITES_NODE | WRITES_BELOW) != 0;
        for (entry, theirs) in rows {
            if collides(*mine, theirs) && (entry >= newest || !uses_node(theirs)) {
                found.insert(entry);
            }
        }
        if mine & WRITES_BELOW != 0 {
            let (from, to) = below(path.as_str());
            for entry in under.query_map(params![from, to, limit], |r| Ok(uint(r.get(0)?)))? {
                found.insert(entry?);
            }
        }
        ancestors.extend(std::iter::successors(path.parent(), TreePath::parent));
    }
    for ancestor in ancestors {
        let rows = at.query_map(params![ancestor.as_str(), limit], |r| Ok((uint(r.get(0)?), r.get::<_, u8>(1)?)))?;
        for row in rows {
            let (entry, theirs) = row?;
            if theirs & WRITES_BELOW != 0 {
                found.insert(entry);
            }
        }
    }
    Ok(found)
}

fn has_earlier(db: &Connection, number: u64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM entry_path WHERE entry < ?1)")?
        .query_row([int(number)], |row| row.get(0))
}

fn collides(mine: u8, theirs: u8) -> bool {
    let node = READS_NODE | WRITES_NODE | WRITES_BELOW;
    let listing = READS_LISTING | WRITES_LISTING | WRITES_BELOW;
    (mine & (WRITES_NODE | WRITES_BELOW) != 0 && theirs & node != 0)
        || (theirs & (WRITES_NODE | WRITES_BELOW) != 0 && mine & node != 0)
        // Two writers of one listing commute: each writes its own name.
        || (mine & (WRITES_LISTING | WRITES_BELOW) != 0 && theirs & (listing & !WRITES_LISTING) != 0)
        || (theirs & (WRITES_LISTING | WRITES_BELOW) != 0 && mine & (listing & !WRITES_LISTING) != 0)
}

/// Hashes that an entry names and that may be the output of an earlier one.
fn named(body: &Body, lists: &Lists) -> BTreeSet<Hash> {
    match body {
        Body::Value(_) => lists.changes.iter().filter_map(|c| c.after.blob()).map(|(_, hash)| hash).collect(),
        Body::Operation(record) => record
            .plan
            .steps
            .iter()
            .flat_map(|step| match &step.stdin {
                Some(Stdin::Blob { hash }) => vec![step.module, *hash],
                _ => vec![step.module],
            })
            .collect(),
    }
}

/// Hashes of an operation's outputs and streams. A value produces nothing: its bytes travel with it.
fn produced(lists: &Lists) -> BTreeSet<Hash> {
    if lists.exits.is_empty() {
        return BTreeSet::new();
    }
    let outputs = lists.changes.iter().filter_map(|c| c.after.blob()).map(|(_, hash)| hash);
    let streams = lists.streams.iter().flat_map(|s| [s.stdout, s.stderr]);
    outputs.chain(streams).filter(|hash| *hash != Hash::of_empty()).collect()
}

fn produced_by(db: &Connection, number: u64, hashes: &BTreeSet<Hash>) -> rusqlite::Result<BTreeSet<u64>> {
    let mut statement = db.prepare_cached("SELECT min(entry) FROM produced WHERE hash = ?1 AND entry < ?2")?;
    let mut found = BTreeSet::new();
    for hash in hashes {
        let entry = statement.query_row(params![hash.as_bytes(), int(number)], |r| r.get::<_, Option<i64>>(0))?;
        found.extend(entry.map(uint));
    }
    Ok(found)
}
