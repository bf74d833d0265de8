//! Threads that replays run on.
//!
//! A bounded number of places keeps the processors busy. A run that turns out long gives its place back, goes on at the
//! lowest priority and ends its thread afterwards (an unprivileged thread cannot raise itself again), so that long runs
//! never starve short ones. Long runs are bounded too: beyond that number a run is ended when it turns out long, and starts
//! again where long runs are done, once there is room.
//!
//! Nobody has it all: jobs wait in a queue for each principal, which take turns, and one principal has at most half of the
//! places for long runs.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Long runs at one time, for each place of a short one.
pub(crate) const LONG_PLACES: usize = 4;
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
    /// Those that wait, by principal; the first one's is next, and then he is the last.
    jobs: VecDeque<(i64, VecDeque<Job>)>,
    /// Long runs, by principal.
    long: HashMap<i64, usize>,
    threads: usize,
    stopping: bool,
}

impl Queue {
    fn push(&mut self, principal: i64, job: Job) {
        match self.jobs.iter_mut().find(|(known, _)| *known == principal) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.jobs.push_back((principal, VecDeque::from([job]))),
        }
    }

    fn pop(&mut self) -> Option<(i64, Job)> {
        let (principal, mut jobs) = self.jobs.pop_front()?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.jobs.push_back((principal, jobs));
        }
        Some((principal, job))
    }

    /// Takes a place for a long run, if there is one for this principal.
    fn begin_long(&mut self, principal: i64, limit: usize) -> bool {
        let all: usize = self.long.values().sum();
        let own = self.long.get(&principal).copied().unwrap_or(0);
        let may = all < limit && own < limit.div_ceil(2);
        if may {
            self.long.insert(principal, own + 1);
        }
        may
    }

    fn end_long(&mut self, principal: i64) {
        if let Some(own) = self.long.get_mut(&principal) {
            *own -= 1;
            if *own == 0 {
                self.long.remove(&principal);
            }
        }
    }
}

/// A job's place among the short runs.
#[derive(Clone)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    principal: i64,
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
            long_limit: places * LONG_PLACES,
            room: Notify::new(),
        });
        let workers = Workers(shared);
        (0..places).try_for_each(|_| start_thread(&workers.0))?;
        Ok(workers)
    }

    /// Runs `work` for a principal on a thread of the pool, with a stack that suits [`opship_engine::Engine::run`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        principal: i64,
        work: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> Result<T, Dropped> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut queue = self.0.lock();
            if queue.stopping {
                return Err(Dropped);
            }
            let job: Job = Box::new(move |place| {
                // Nobody waits any more if the server gave up on the request: the work is then lost on purpose.
                let _ = sender.send(work(place));
            });
            queue.push(principal, job);
        }
        self.0.changed.notify_one();
        receiver.await.map_err(|_| Dropped)
    }

    /// Runs `work` as a long run from the start, once there is room for one: on a thread of its own at the lowest priority.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        principal: i64,
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
                if queue.begin_long(principal, self.0.long_limit) {
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
            let given_back = Arc::new(AtomicBool::new(true));
            let place = Place { shared: Arc::clone(&shared), principal, given_back };
            do_job(job, &place);
            shared.end_long(principal);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for a long run");
            self.0.end_long(principal);
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
            if queue.stopping || !queue.begin_long(self.principal, self.shared.long_limit) {
                return;
            }
        }
        if let Err(error) = start_thread(&self.shared) {
            tracing::warn!(%error, "no thread for the place of a long run; it keeps the place");
            self.shared.end_long(self.principal);
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

    fn end_long(&self, principal: i64) {
        self.lock().end_long(principal);
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
    while let Some((principal, job)) = next(shared) {
        let place = Place { shared: Arc::clone(shared), principal, given_back: Arc::new(AtomicBool::new(false)) };
        do_job(job, &place);
        if place.is_long() {
            shared.end_long(principal);
            return;
        }
    }
}

fn do_job(job: Job, place: &Place) {
    if catch_unwind(AssertUnwindSafe(|| job(place))).is_err() {
        tracing::error!("a replay job panicked; its entry was not committed");
    }
}

fn next(shared: &Shared) -> Option<(i64, Job)> {
    let mut queue = shared.lock();
    loop {
        if queue.stopping {
            return None;
        }
        if let Some(job) = queue.pop() {
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
                    .run(1, move |place| {
                        place.turn_long();
                        wait.recv().unwrap();
                        "long"
                    })
                    .await
            })
        };
        // It can only end if the long one does not hold the only place: both orders of starting lead here.
        assert_eq!(workers.run(1, |_| "short").await, Ok("short"));
        release.send(()).unwrap();
        assert_eq!(long.await.unwrap(), Ok("long"));
        assert!(workers.stop(Duration::from_secs(10)));
        assert_eq!(workers.run(1, |_| ()).await, Err(Dropped));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_job_beyond_the_limit_is_told_so_and_waits_for_room() {
        let workers = Arc::new(Workers::new(1).unwrap());
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (started, begun) = mpsc::channel::<()>();
        let mut long = Vec::new();
        for number in 0..4 {
            let (workers, wait, started) = (Arc::clone(&workers), Arc::clone(&wait), started.clone());
            long.push(tokio::spawn(async move {
                workers
                    .run(number / 2, move |place| {
                        assert!(place.turn_long());
                        started.send(()).unwrap();
                        wait.lock().unwrap().recv().unwrap();
                    })
                    .await
            }));
        }
        (0..4).for_each(|_| begun.recv().unwrap());
        assert_eq!(workers.run(2, Place::turn_long).await, Ok(false));
        let later = {
            let workers = Arc::clone(&workers);
            tokio::spawn(async move { workers.run_long(2, Place::is_long).await })
        };
        assert_eq!(workers.run(1, |_| "short").await, Ok("short"));
        (0..4).for_each(|_| release.send(()).unwrap());
        assert_eq!(later.await.unwrap(), Ok(true));
        for job in long {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert!(workers.stop(Duration::from_secs(10)));
        assert_eq!(workers.run_long(1, |_| ()).await, Err(Dropped));
    }

    #[tokio::test]
    async fn a_panic_loses_one_job_only() {
        let workers = Workers::new(1).unwrap();
        assert_eq!(workers.run(1, |_| -> u8 { panic!("on purpose") }).await, Err(Dropped));
        assert_eq!(workers.run(1, |_| 1).await, Ok(1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_has_all_the_places_for_long_runs() {
        let workers = Workers::new(1).unwrap();
        let mut queue = workers.0.lock();
        let limit = workers.0.long_limit;
        let taken = (0..10).filter(|_| queue.begin_long(1, limit)).count();
        assert_eq!((taken, limit), (2, 4));
        assert!(queue.begin_long(2, limit));
        queue.end_long(1);
        assert!(queue.begin_long(1, limit));
        assert!(queue.begin_long(3, limit) && !queue.begin_long(4, limit));
    }

    #[test]
    fn principals_take_turns() {
        let mut queue = Queue::default();
        for principal in [1, 1, 1, 2, 3, 2] {
            queue.push(principal, Box::new(|_| ()));
        }
        let order: Vec<i64> = std::iter::from_fn(|| queue.pop().map(|(principal, _)| principal)).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 1]);
    }
}
