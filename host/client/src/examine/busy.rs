//! Load beside a run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes that each thread walks through: more than a processor's caches.
const WALKED: usize = 32 << 20;
/// Distance of two places that are written to: a page.
const STRIDE: usize = 4096;

/// Threads that compute and write to memory until this is dropped, two for each processor.
pub(super) struct Busy {
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    pub(super) fn start() -> io::Result<Busy> {
        let count = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let mut busy = Busy { done: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            let done = Arc::clone(&busy.done);
            let thread = std::thread::Builder::new().name("busy".to_owned()).spawn(move || walk(&done))?;
            busy.threads.push(thread);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic, and there would be nothing to do about it.
            let _ = thread.join();
        }
    }
}

fn walk(done: &AtomicBool) {
    let mut memory = vec![0u8; WALKED];
    let mut at = 0;
    while !done.load(Ordering::Relaxed) {
        memory[at] = std::hint::black_box(memory[at].wrapping_add(1));
        at = (at + STRIDE + 1) % WALKED;
    }
}
