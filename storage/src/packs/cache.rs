//! Chunks that were read last, decompressed and checked: a reader that comes in small steps takes each apart once.

use hashlink::LruCache;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of cached chunks.
const CACHE_BYTES: usize = 32 << 20;

pub(crate) struct Cache(Mutex<Cached>);

struct Cached {
    chunks: LruCache<i64, Arc<[u8]>>,
    bytes: usize,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache(Mutex::new(Cached { chunks: LruCache::new_unbounded(), bytes: 0 }))
    }
}

impl Cache {
    pub(crate) fn get(&self, chunk: i64) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).chunks.get(&chunk).cloned()
    }

    pub(crate) fn insert(&self, chunk: i64, bytes: Arc<[u8]>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.bytes += bytes.len();
        let old = cached.chunks.insert(chunk, bytes);
        cached.bytes -= old.map_or(0, |old| old.len());
        while cached.bytes > CACHE_BYTES {
            let Some((_, gone)) = cached.chunks.remove_lru() else { return };
            cached.bytes -= gone.len();
        }
    }
}
