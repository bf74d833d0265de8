//! What is in use now, so that collecting leaves it alone.
//!
//! *Held*: blobs that are being read, chunks and blobs that an upload found here and will name, trees that a replay runs
//! on. They are held under a lock that collecting keeps over each of its transactions, so that nothing is found and gone.
//! *Touched*: chunks that were held or named since collecting began; the collector's transactions, which the same writer
//! runs, look at them. This lock is only ever taken for a moment and after the other one. (What names blobs and nodes is
//! noted with them: `sqlite::blobs::touch`, `sqlite::nodes::NodeCache`.)

use opship_record::Hash;
use std::collections::{HashMap, HashSet};
use std::hash::Hash as Key;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the store's handles hold, and what was touched while somebody collects.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    held: Mutex<Counts>,
    touched: Mutex<Option<HashSet<i64>>>,
}

/// How often each thing is held.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    blobs: HashMap<Hash, usize>,
    chunks: HashMap<i64, usize>,
    roots: HashMap<(i64, Hash), usize>,
}

impl InUse {
    /// Holds a blob before it is looked for.
    pub(crate) fn hold_blob(self: &Arc<InUse>, hash: Hash) -> Held {
        let mut held = Held::new(self);
        self.lock().blob(hash, &mut held);
        held
    }

    /// Holds a tree before it is looked for.
    pub(crate) fn hold_root(self: &Arc<InUse>, workspace: i64, root: Hash) -> Held {
        let mut held = Held::new(self);
        *self.lock().0.roots.entry((workspace, root)).or_default() += 1;
        held.roots.push((workspace, root));
        held
    }

    /// While this lives nothing that is held becomes free, and nothing new is held.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked(self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes which chunks are held or named from now on, until [`InUse::end_collecting`].
    pub(crate) fn begin_collecting(&self) {
        let held = self.lock();
        *self.touched() = Some(held.0.chunks.keys().copied().collect());
    }

    pub(crate) fn end_collecting(&self) {
        *self.touched() = None;
    }

    /// Notes a chunk, if somebody collects.
    pub(crate) fn touch(&self, chunk: i64) {
        if let Some(touched) = &mut *self.touched() {
            touched.insert(chunk);
        }
    }

    /// Was the chunk held or named since collecting began?
    pub(crate) fn is_touched(&self, chunk: i64) -> bool {
        self.touched().as_ref().is_some_and(|touched| touched.contains(&chunk))
    }

    fn touched(&self) -> MutexGuard<'_, Option<HashSet<i64>>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock on what is held.
pub(crate) struct Locked<'a>(MutexGuard<'a, Counts>);

impl Locked<'_> {
    pub(crate) fn blob(&mut self, hash: Hash, held: &mut Held) {
        *self.0.blobs.entry(hash).or_default() += 1;
        held.blobs.push(hash);
    }

    pub(crate) fn chunk(&mut self, in_use: &InUse, chunk: i64, held: &mut Held) {
        *self.0.chunks.entry(chunk).or_default() += 1;
        held.chunks.push(chunk);
        in_use.touch(chunk);
    }

    pub(crate) fn holds_blob(&self, hash: &Hash) -> bool {
        self.0.blobs.contains_key(hash)
    }

    pub(crate) fn holds_chunk(&self, chunk: i64) -> bool {
        self.0.chunks.contains_key(&chunk)
    }

    /// Trees of the workspace that somebody looks at.
    pub(crate) fn roots(&self, workspace: i64) -> Vec<Hash> {
        self.0.roots.keys().filter(|(of, _)| *of == workspace).map(|(_, root)| *root).collect()
    }
}

/// Things held as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    in_use: Arc<InUse>,
    blobs: Vec<Hash>,
    chunks: Vec<i64>,
    roots: Vec<(i64, Hash)>,
}

impl Held {
    pub(crate) fn new(in_use: &Arc<InUse>) -> Held {
        Held { in_use: in_use.clone(), blobs: Vec::new(), chunks: Vec::new(), roots: Vec::new() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut counts = self.in_use.lock().0;
        self.blobs.iter().for_each(|hash| release(&mut counts.blobs, hash));
        self.chunks.iter().for_each(|chunk| release(&mut counts.chunks, chunk));
        self.roots.iter().for_each(|root| release(&mut counts.roots, root));
    }
}

fn release<K: Key + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
