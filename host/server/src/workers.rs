//! Threads that replays run on.
//!
//! A bounded number of places keeps the processors busy. A run that turns out long gives its place back, goes on at the
//! lowest priority and ends its thread afterwards (an unprivileged thread cannot raise itself again), so that long runs
//! never starve short ones. Long runs are bounded too: beyond that number a run keeps the place that it has.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Niceness of long runs: the lowest priority.
const LONG_NICE: i32 = 19;

type Job = Box<dyn FnOnce(&Place) + Send>;

/// The pool.
pub(crate) struct Workers(Arc<Shared>);

/// The work was dropped: the server is stopping, or the job panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped;

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    long_limit: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    long: usize,
    threads: usize,
    stopping: bool,
}

/// A job's place among the short runs.
#[derive(Clone)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    given_back: Arc<AtomicBool>,
}

impl Workers {
    /// Starts `places` threads.
    ///
    /// # Errors
    /// The operating system's, if threads cannot be made.
    pub(crate) fn new(places: usize) -> io::Result<Workers> {
        let places = places.max(1);
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), long_limit: places * 4 });
        let workers = Workers(shared);
        (0..places).try_for_each(|_| start_thread(&workers.0))?;
        Ok(workers)
    }

    /// Runs `work` on a thread of the pool, with a stack that suits [`opship_engine::Engine::run`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> Result<T, Dropped> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut queue = self.0.lock();
            if queue.stopping {
                return Err(Dropped);
            }
            queue.jobs.push_back(Box::new(move |place| {
                // Nobody waits any more if the server gave up on the request: the work is then lost on purpose.
                let _ = sender.send(work(place));
            }));
        }
        self.0.changed.notify_one();
        receiver.await.map_err(|_| Dropped)
    }

    /// Drops what is queued and waits until running jobs end, at most `patience`. Did all end?
    pub(crate) fn stop(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut queue = self.0.lock();
        queue.stopping = true;
        let dropped = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(dropped);
        self.0.changed.notify_all();
        let mut queue = self.0.lock();
        while queue.threads > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.0.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Place {
    /// Lets the next job start although this one has not ended. Does nothing the second time, and while too many long
    /// runs are under way.
    pub(crate) fn give_back(&self) {
        if self.given_back.load(Ordering::Relaxed) {
            return;
        }
        {
            let mut queue = self.shared.lock();
            if queue.long >= self.shared.long_limit || queue.stopping {
                return;
            }
            queue.long += 1;
        }
        if let Err(error) = start_thread(&self.shared) {
            tracing::warn!(%error, "no thread for the place of a long run; it keeps the place");
            self.shared.lock().long -= 1;
            return;
        }
        self.given_back.store(true, Ordering::Relaxed);
    }

    /// As [`Place::give_back`], and the thread goes on at the lowest priority. To be called on the job's own thread.
    pub(crate) fn turn_long(&self) {
        self.give_back();
        if !self.given_back.load(Ordering::Relaxed) {
            return;
        }
        let thread = rustix::thread::gettid();
        if let Err(error) = rustix::process::setpriority_process(Some(thread), LONG_NICE) {
            tracing::debug!(%error, "a long run keeps its priority");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs run outside the lock, so what it guards is whole even after a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_thread(shared: &Arc<Shared>) -> io::Result<()> {
    shared.lock().threads += 1;
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("replay".to_owned())
        .stack_size(opship_engine::RUN_STACK_BYTES)
        .spawn(move || {
            work(&own);
            own.lock().threads -= 1;
            own.changed.notify_all();
        });
    if thread.is_err() {
        shared.lock().threads -= 1;
    }
    thread.map(drop)
}

fn work(shared: &Arc<Shared>) {
    while let Some(job) = next(shared) {
        let place = Place { shared: Arc::clone(shared), given_back: Arc::new(AtomicBool::new(false)) };
        if catch_unwind(AssertUnwindSafe(|| job(&place))).is_err() {
            tracing::error!("a replay job panicked; its entry was not committed");
        }
        if place.given_back.load(Ordering::Relaxed) {
            shared.lock().long -= 1;
            return;
        }
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut queue = shared.lock();
    loop {
        if queue.stopping {
            return None;
        }
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::sync::mpsc;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_job_gives_its_place_to_the_next() {
        let workers = Arc::new(Workers::new(1).unwrap());
        let (release, wait) = mpsc::channel::<()>();
        let long = {
            let workers = Arc::clone(&workers);
            tokio::spawn(async move {
                workers
                    .run(move |place| {
                        place.turn_long();
                        wait.recv().unwrap();
                        "long"
                    })
                    .await
            })
        };
        // It can only end if the long one does not hold the only place: both orders of starting lead here.
        assert_eq!(workers.run(|_| "short").await, Ok("short"));
        release.send(()).unwrap();
        assert_eq!(long.await.unwrap(), Ok("long"));
        assert!(workers.stop(Duration::from_secs(10)));
        assert_eq!(workers.run(|_| ()).await, Err(Dropped));
    }

    #[tokio::test]
    async fn a_panic_loses_one_job_only() {
        let workers = Workers::new(1).unwrap();
        assert_eq!(workers.run(|_| -> u8 { panic!("on purpose") }).await, Err(Dropped));
        assert_eq!(workers.run(|_| 1).await, Ok(1));
    }
}
