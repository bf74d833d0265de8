//! What is in use now, so that collecting leaves it alone.
//!
//! Two kinds of use. *Held*: blobs that are being read, chunks and blobs that an upload found here and will name, trees
//! that a replay runs on. They are held under a lock that collecting keeps over each of its transactions, so that nothing
//! is found and gone. *Touched*: whatever was named in the database or held since collecting began to mark; the writer
//! notes it and the collector's own transactions, which the same writer runs, look at it. This lock is only ever taken for
//! a moment and after the other one.

use opship_record::Hash;
use std::collections::{HashMap, HashSet};
use std::hash::Hash as Key;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the store's handles hold, and what was touched while somebody collects.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    held: Mutex<Counts>,
    touched: Mutex<Option<Touched>>,
}

/// How often each thing is held.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    blobs: HashMap<Hash, usize>,
    chunks: HashMap<i64, usize>,
    roots: HashMap<Hash, usize>,
}

/// What was named or held since marking began.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) blobs: HashSet<Hash>,
    pub(crate) chunks: HashSet<i64>,
    pub(crate) nodes: HashSet<Hash>,
}

impl InUse {
    /// Holds a blob before it is looked for.
    pub(crate) fn hold_blob(self: &Arc<InUse>, hash: Hash) -> Held {
        let mut held = Held::new(self);
        self.lock().blob(self, hash, &mut held);
        held
    }

    /// Holds a tree before it is looked for.
    pub(crate) fn hold_root(self: &Arc<InUse>, root: Hash) -> Held {
        let mut held = Held::new(self);
        *self.lock().0.roots.entry(root).or_default() += 1;
        held.roots.push(root);
        held
    }

    /// While this lives nothing that is held becomes free, and nothing new is held.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked(self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what is named in the database from now on, until [`InUse::end_collecting`].
    pub(crate) fn begin_collecting(&self) {
        *self.touched() = Some(Touched::default());
    }

    pub(crate) fn end_collecting(&self) {
        *self.touched() = None;
    }

    /// Notes something, if somebody collects.
    pub(crate) fn touch<T>(&self, note: impl FnOnce(&mut Touched) -> T) {
        if let Some(touched) = &mut *self.touched() {
            note(touched);
        }
    }

    fn touched(&self) -> MutexGuard<'_, Option<Touched>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock on what is held.
pub(crate) struct Locked<'a>(MutexGuard<'a, Counts>);

impl Locked<'_> {
    pub(crate) fn blob(&mut self, in_use: &InUse, hash: Hash, held: &mut Held) {
        *self.0.blobs.entry(hash).or_default() += 1;
        held.blobs.push(hash);
        in_use.touch(|touched| touched.blobs.insert(hash));
    }

    pub(crate) fn chunk(&mut self, in_use: &InUse, chunk: i64, held: &mut Held) {
        *self.0.chunks.entry(chunk).or_default() += 1;
        held.chunks.push(chunk);
        in_use.touch(|touched| touched.chunks.insert(chunk));
    }

    pub(crate) fn holds_blob(&self, hash: &Hash) -> bool {
        self.0.blobs.contains_key(hash)
    }

    pub(crate) fn holds_chunk(&self, chunk: i64) -> bool {
        self.0.chunks.contains_key(&chunk)
    }

    pub(crate) fn roots(&self) -> Vec<Hash> {
        self.0.roots.keys().copied().collect()
    }
}

/// Things held as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    in_use: Arc<InUse>,
    blobs: Vec<Hash>,
    chunks: Vec<i64>,
    roots: Vec<Hash>,
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
