//! What shipping asks of the log and the index.

use crate::choice::Prediction;
use crate::db::index::Row;
use crate::db::{index, log, meta, remote, set_meta, waits};
use crate::fs::OPSHIP;
use crate::log::{Deferred, EntryState, LogEntry, Traffic};
use crate::{ClientError, WorkingCopy};
use opship_record::answer::Answer;
use opship_record::node::Node;
use opship_record::{Hash, Hasher, TreePath};
use opship_residual::{Signature, Signer};
use opship_world::read_fully_at;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl WorkingCopy {
    /// opship's own folder in the working copy.
    pub fn own_folder(&self) -> PathBuf {
        self.path().join(OPSHIP)
    }

    /// Is this the hash of an output or stream of an operation before the entry `number` that has not settled? The server
    /// makes it by replaying.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn is_produced(&self, hash: &Hash, number: u64) -> Result<bool, ClientError> {
        Ok(waits::is_produced(&self.shared.db.read(), hash, number)?)
    }

    /// Does the server hold some path's state with this content?
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn is_with_server(&self, hash: &Hash) -> Result<bool, ClientError> {
        let paths = index::path_of_hash(&self.shared.db.read(), hash)?;
        Ok(paths.iter().any(|(_, row)| row.synced))
    }

    /// The paths of the index that the server speaks for: all but those that an entry without a final verdict writes.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn settled_paths(&self) -> Result<Vec<TreePath>, ClientError> {
        let db = self.shared.db.read();
        let mut paths = Vec::new();
        for (path, row) in index::all_below(&db, &TreePath::root())? {
            if row.synced || !waits::is_written(&db, &path)? {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// The paths directly in a folder of the index, in byte order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn children(&self, folder: &TreePath) -> Result<Vec<TreePath>, ClientError> {
        let rows = index::children(&self.shared.db.read(), folder)?;
        Ok(rows.into_iter().map(|(path, _)| path).collect())
    }

    /// The paths of which the index holds a state that the server does not.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn unsynced_paths(&self) -> Result<Vec<TreePath>, ClientError> {
        let rows = index::all_below(&self.shared.db.read(), &TreePath::root())?;
        Ok(rows.into_iter().filter(|(_, row)| !row.synced).map(|(path, _)| path).collect())
    }

    /// Remembers how fast `bytes` were sent, by which large imports are cut into entries.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn note_rate(&self, bytes: u64, seconds: f64) -> Result<(), ClientError> {
        Ok(crate::cut::note_rate(&self.shared.db.read(), bytes, seconds)?)
    }

    /// From here on entries have at most so many bytes of contents, or one file; `None`: as many as the link suggests.
    pub(crate) fn bound_entries(&self, bytes: Option<u64>) -> Result<(), ClientError> {
        Ok(crate::cut::set_budget(&self.shared.db.read(), bytes)?)
    }

    /// The rate that was remembered last, in bytes a second.
    pub(crate) fn rate(&self) -> Result<Option<u64>, ClientError> {
        Ok(crate::cut::rate(&self.shared.db.read())?)
    }

    /// Remembers what was predicted for an entry.
    pub(crate) fn set_prediction(&self, number: u64, prediction: &Prediction) -> Result<(), ClientError> {
        Ok(log::set_prediction(&self.shared.db.read(), number, prediction)?)
    }

    /// As [`WorkingCopy::mark_answer`], of an entry that has ended so long after its first request.
    pub(crate) fn mark_end(
        &self,
        number: u64,
        answer: &Answer,
        traffic: Traffic,
        micros: u64,
    ) -> Result<(), ClientError> {
        self.shared.db.write(|db| {
            log::answer(db, number, answer, traffic)?;
            Ok(log::set_shipped_micros(db, number, micros)?)
        })
    }

    /// The paths that entries changed which ended since the last pull that was complete.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn paths_ahead(&self) -> Result<BTreeSet<TreePath>, ClientError> {
        let numbers = log::ahead(&self.shared.db.read())?;
        let mut paths = BTreeSet::new();
        for number in numbers {
            paths.extend(self.lists(number)?.changes.into_iter().map(|change| change.path));
        }
        Ok(paths)
    }

    /// Notes, in one transaction, that a pull is complete: no entry that ended is ahead of it, and `mark` is empty. Where
    /// that was so before, nothing is written.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn settle(&self, mark: &str) -> Result<(), ClientError> {
        self.shared.db.write(|db| {
            log::none_ahead(db)?;
            if meta::<String>(db, mark)?.is_some_and(|mark| !mark.is_empty()) {
                set_meta(db, mark, "")?;
            }
            Ok(())
        })
    }

    /// Does the index hold some path with this content?
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn has_content(&self, hash: &Hash) -> Result<bool, ClientError> {
        Ok(!self.paths_with(hash)?.is_empty())
    }

    /// Some paths of the index with this content.
    pub(crate) fn paths_with(&self, hash: &Hash) -> Result<Vec<TreePath>, ClientError> {
        let rows = index::path_of_hash(&self.shared.db.read(), hash)?;
        Ok(rows.into_iter().map(|(path, _)| path).collect())
    }

    /// The signature of what a path holds, if that is this content; `None` if it is another or cannot be read.
    pub(crate) fn signature_of(&self, path: &TreePath, hash: &Hash) -> Option<Signature> {
        let file = self.shared.root.open_file(path.as_str()).ok()?;
        let (mut signer, mut hasher) = (Signer::default(), Hasher::new());
        let (mut buffer, mut offset) = (vec![0; 256 << 10], 0);
        loop {
            let count = read_fully_at(&file, offset, &mut buffer).ok()?;
            if count == 0 {
                break;
            }
            signer.update(&buffer[..count]);
            hasher.update(&buffer[..count]);
            offset += count as u64;
        }
        (hasher.finish() == *hash).then(|| signer.finish())
    }

    /// The ended entries for which something is still kept, in order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn unreleased(&self) -> Result<Vec<LogEntry>, ClientError> {
        log::unreleased(&self.shared.db.read())
    }

    /// The server's history is another than the one that the working copy stood on: the index keeps only what entries
    /// without a final verdict wrote, and everything else is as in a folder that was never synced.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::Io`].
    pub(crate) fn forget_history(&self) -> Result<(), ClientError> {
        let _lock = self.lock()?;
        self.shared.db.write(|db| {
            for (path, _) in index::all_below(db, &TreePath::root())? {
                if !waits::is_written(db, &path)? {
                    index::remove(db, &path)?;
                }
            }
            for deferred in remote::deferred(db)? {
                remote::undefer(db, &deferred.path)?;
            }
            crate::ledger::set_base(db, 0, None)
        })
    }

    /// The outputs of an entry that ended `conflicted` are kept beside their paths: pulls may bring the server's states
    /// there. Entries that wait for it stay parked.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn settle_conflict(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| Ok(waits::forget_paths(db, number)?))
    }

    /// The outputs that an entry which ended `rebased` had recorded are pinned by it on the server: pulls may bring the
    /// new ones, and nobody waits for it any more.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn settle_rebased(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| Ok(waits::settle(db, number)?))
    }

    /// Takes the server's states of paths into the index and leaves the folder alone: what is there is a change of them,
    /// which the next scan finds.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn assume_remote(&self, states: &[(TreePath, Option<Node>)]) -> Result<(), ClientError> {
        self.shared.db.write(|db| {
            for (path, node) in states {
                match node {
                    Some(node) => index::put(
                        db,
                        path,
                        &Row { node: node.clone(), signature: None, racy: true, synced: true, entry: 0 },
                    )?,
                    None => index::remove(db, path)?,
                }
            }
            Ok(())
        })
    }

    /// Lets go of the index's states of paths: what stands there counts as made here.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub(crate) fn disown(&self, paths: &BTreeSet<TreePath>) -> Result<(), ClientError> {
        let _lock = self.lock()?;
        self.shared.db.write(|db| Ok(paths.iter().try_for_each(|path| index::remove(db, path))?))
    }

    /// Leaves paths as they are for now: the server's states of them are remembered, with the reason.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub(crate) fn defer(&self, paths: &[Deferred]) -> Result<(), ClientError> {
        self.shared.db.write(|db| {
            for path in paths {
                remote::defer(db, path)?;
            }
            Ok(())
        })
    }

    /// Makes an unended entry, which the server does not hold, a value without changes: its number stays taken, and
    /// nothing of it waits or is waited for any more. What is kept for it is kept for the entries that it waited for.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn empty_entry(&self, number: u64) -> Result<(), ClientError> {
        self.shared.db.write(|db| log::empty(db, number))
    }

    /// The unended entries that wait for an entry, directly or through others, in order.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn waiting_for(&self, number: u64) -> Result<Vec<LogEntry>, ClientError> {
        let mut found = std::collections::BTreeMap::new();
        let mut work = vec![number];
        while let Some(next) = work.pop() {
            let waiting = waits::waiting_for(&self.shared.db.read(), next)?;
            for number in waiting {
                let entry = self.entry(number)?;
                if entry.state == EntryState::Pending && found.insert(number, entry).is_none() {
                    work.push(number);
                }
            }
        }
        Ok(found.into_values().collect())
    }
}
