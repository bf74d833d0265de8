//! Threads that replays run on.
//!
//! A bounded number of places keeps the processors busy. A run that turns out long gives its place back, goes on at the
//! lowest priority and ends its thread afterwards (an unprivileged thread cannot raise itself again), so that long runs
//! never starve short ones. Long runs are bounded too: beyond that number a run is ended when it turns out long, and starts
//! again where long runs are done, once there is room.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

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
    /// A long run has ended.
    room: Notify,
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
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            long_limit: places * 4,
            room: Notify::new(),
        });
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

    /// Runs `work` as a long run from the start, once there is room for one: on a thread of its own at the lowest priority.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> Result<T, Dropped> {
        loop {
            // Made before looking, so that a run which ends in between is not missed.
            let room = self.0.room.notified();
            {
                let mut queue = self.0.lock();
                if queue.stopping {
                    return Err(Dropped);
                }
                if queue.long < self.0.long_limit {
                    queue.long += 1;
                    break;
                }
            }
            room.await;
        }
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |place| {
            let _ = sender.send(work(place));
        });
        let shared = Arc::clone(&self.0);
        let started = start_thread_with(&self.0, move || {
            lower_priority();
            let place = Place { shared: Arc::clone(&shared), given_back: Arc::new(AtomicBool::new(true)) };
            do_job(job, &place);
            shared.end_long();
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for a long run");
            self.0.end_long();
            return Err(Dropped);
        }
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
        self.0.room.notify_waiters();
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
    /// `false`: there are too many long runs, so this one holds a short one's place.
    pub(crate) fn turn_long(&self) -> bool {
        self.give_back();
        let long = self.is_long();
        if long {
            lower_priority();
        }
        long
    }

    /// Has the place been given back?
    pub(crate) fn is_long(&self) -> bool {
        self.given_back.load(Ordering::Relaxed)
    }
}

/// Lowers the calling thread, for good: an unprivileged one cannot raise itself again.
fn lower_priority() {
    let thread = rustix::thread::gettid();
    if let Err(error) = rustix::process::setpriority_process(Some(thread), LONG_NICE) {
        tracing::debug!(%error, "a long run keeps its priority");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs run outside the lock, so what it guards is whole even after a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_long(&self) {
        self.lock().long -= 1;
        self.room.notify_waiters();
    }
}

fn start_thread(shared: &Arc<Shared>) -> io::Result<()> {
    let own = Arc::clone(shared);
    start_thread_with(shared, move || work(&own))
}

fn start_thread_with(shared: &Arc<Shared>, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    shared.lock().threads += 1;
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("replay".to_owned())
        .stack_size(opship_engine::RUN_STACK_BYTES)
        .spawn(move || {
            work();
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
        do_job(job, &place);
        if place.is_long() {
            shared.end_long();
            return;
        }
    }
}

fn do_job(job: Job, place: &Place) {
    if catch_unwind(AssertUnwindSafe(|| job(place))).is_err() {
        tracing::error!("a replay job panicked; its entry was not committed");
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_job_beyond_the_limit_is_told_so_and_waits_for_room() {
        let workers = Arc::new(Workers::new(1).unwrap());
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (started, begun) = mpsc::channel::<()>();
        let mut long = Vec::new();
        for _ in 0..4 {
            let (workers, wait, started) = (Arc::clone(&workers), Arc::clone(&wait), started.clone());
            long.push(tokio::spawn(async move {
                workers
                    .run(move |place| {
                        assert!(place.turn_long());
                        started.send(()).unwrap();
                        wait.lock().unwrap().recv().unwrap();
                    })
                    .await
            }));
        }
        (0..4).for_each(|_| begun.recv().unwrap());
        assert_eq!(workers.run(Place::turn_long).await, Ok(false));
        let later = {
            let workers = Arc::clone(&workers);
            tokio::spawn(async move { workers.run_long(Place::is_long).await })
        };
        assert_eq!(workers.run(|_| "short").await, Ok("short"));
        (0..4).for_each(|_| release.send(()).unwrap());
        assert_eq!(later.await.unwrap(), Ok(true));
        for job in long {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert!(workers.stop(Duration::from_secs(10)));
        assert_eq!(workers.run_long(|_| ()).await, Err(Dropped));
    }

    #[tokio::test]
    async fn a_panic_loses_one_job_only() {
        let workers = Workers::new(1).unwrap();
        assert_eq!(workers.run(|_| -> u8 { panic!("on purpose") }).await, Err(Dropped));
        assert_eq!(workers.run(|_| 1).await, Ok(1));
    }
}
