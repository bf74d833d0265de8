//! Files that are written to while their contents are shipped. One of them must not keep back what shares its entry, and must
//! not be sent again and again.

use crate::ClientError;
use crate::capture::keep_copy;
use crate::db::index::{self, Row};
use crate::db::{keep, log, waits};
use crate::fs::{Found, copy_hashed, is_racy, now_nanos};
use crate::mend::rewrite;
use crate::staging::{KEPT, Staging};
use crate::values;
use crate::working_copy::Shared;
use opship_engine::failpoint;
use opship_record::effect::{Before, Change};
use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Keeps copies of files that change while they are sent, as they are now, for an entry that was never sent. Those that change
/// even while they are copied are set apart; gives the number of their entry, which is a new one unless they are alone.
pub(crate) fn steady(
    shared: &Shared,
    staging: &Staging,
    number: u64,
    restless: BTreeSet<TreePath>,
) -> Result<Option<u64>, ClientError> {
    let entry = log::get(&shared.db.read(), number)?;
    if restless.is_empty() || entry.sent || entry.is_parked() {
        return Ok(None);
    }
    let mut changes = log::lists(&shared.db.read(), number)?.changes;
    let (mut copies, mut apart) = (Vec::new(), Vec::new());
    for path in restless {
        let Ok(at) = changes.binary_search_by(|change| change.path.cmp(&path)) else { continue };
        if !is_only_ours(shared, &changes[at], number)? {
            continue;
        }
        match copy_of(shared, staging, &path)? {
            Some(copy) if changes[at].before != (Before::File { hash: copy.hash }) => {
                changes[at].after = values::after(&copy.row(number).node);
                copies.push((path, copy));
            }
            _ => apart.push(changes.remove(at)),
        }
    }
    shared
        .db
        .write(|db| {
            for (path, copy) in &copies {
                keep::keep(db, &copy.hash, number)?;
                index::put(db, path, &copy.row(number))?;
            }
            if changes.is_empty() && !apart.is_empty() {
                return Ok(Some(number));
            }
            if !(copies.is_empty() && apart.is_empty()) {
                rewrite(db, number, &changes)?;
            }
            set_apart(db, number, apart)
        })
        .inspect(|apart| {
            if apart.is_some() {
                failpoint::hit("set-apart");
            }
        })
}

/// Does nobody but this entry name the state that it gives a file? A later entry may speak for the path, or an operation have
/// used it.
fn is_only_ours(shared: &Shared, change: &Change, number: u64) -> Result<bool, ClientError> {
    let db = shared.db.read();
    let is_newest = waits::next_writer(&db, &change.path, number)?.is_none();
    let is_file = change.after.blob().is_some();
    Ok(is_file && is_newest && !waits::operation_between(&db, std::slice::from_ref(change), number, u64::MAX)?)
}

/// Makes a new entry of changes that another gave up.
fn set_apart(db: &Connection, from: u64, mut changes: Vec<Change>) -> Result<Option<u64>, ClientError> {
    if changes.is_empty() {
        return Ok(None);
    }
    for change in &mut changes {
        if matches!(change.before, Before::Absent { .. }) {
            change.before = values::absent_but_for(db, &change.path)?;
        }
    }
    let number = values::insert(db, &changes)?;
    changes.iter().try_for_each(|change| index::move_origin(db, &change.path, from, number))?;
    Ok(Some(number))
}

/// A kept copy of a file.
struct KeptCopy {
    hash: Hash,
    found: Found,
    taken: i64,
}

impl KeptCopy {
    fn row(&self, entry: u64) -> Row {
        let s = self.found.signature;
        let node = Node::File { mode: self.found.mode, mtime: s.mtime, length: s.size, hash: self.hash };
        Row { node, signature: Some(s), racy: is_racy(&s, self.taken), synced: false, entry }
    }
}

/// Keeps a copy of a file as it is now; `None` if it cannot be read, or changes meanwhile.
fn copy_of(shared: &Shared, staging: &Staging, path: &TreePath) -> Result<Option<KeptCopy>, ClientError> {
    let taken = now_nanos();
    let look = || shared.root.stat(path.as_str()).ok().flatten().filter(|found| found.kind == Some(Kind::File));
    let (Some(found), Ok(live)) = (look(), shared.root.open_file(path.as_str())) else { return Ok(None) };
    let failed = || ClientError::io(format!("keeping a copy of '{path}'"));
    let (mut file, at) = staging.new_file().map_err(failed())?;
    let (length, hash) = copy_hashed(&live, &mut file, u64::MAX).map_err(failed())?;
    if look() != Some(found) || length != found.signature.size {
        return Ok(None);
    }
    keep_copy(shared, &hash, &at)?;
    shared.root.sync_directory(KEPT).map_err(failed())?;
    Ok(Some(KeptCopy { hash, found, taken }))
}
