//! Entries being worked on: one at a time for each key, whoever asks.

use crate::race::Offers;
use opship_record::Hash;
use opship_record::answer::{Answer, Status};
use opship_record::entry::ClientId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Answers other than an ending that are kept for who asks later.
const KEPT_ANSWERS: usize = 512;

/// The idempotency key: workspace, client, sequence.
pub(crate) type Key = (i64, ClientId, u64);

/// What somebody waits on.
pub(crate) type Waiting = watch::Receiver<Option<Arc<Answer>>>;

/// The entries under way.
#[derive(Default)]
pub(crate) struct Inflight(Mutex<Table>);

#[derive(Default)]
struct Table {
    running: HashMap<Key, Running>,
    kept: HashMap<Key, Arc<Answer>>,
    kept_order: VecDeque<Key>,
}

struct Running {
    body: Hash,
    answer: Waiting,
    offers: Arc<Offers>,
}

/// What joining gave.
pub(crate) enum Joined {
    /// Nobody works on it: the caller does, and says the answer through the task.
    First(Task, Waiting),
    /// It is under way; values that come for it are offered there.
    Running(Waiting, Arc<Offers>),
    /// It is under way with another body.
    Forked,
}

/// The duty to answer an entry. Dropped without an answer, those who wait are told to send it again.
pub(crate) struct Task {
    inflight: Arc<Inflight>,
    key: Key,
    answer: watch::Sender<Option<Arc<Answer>>>,
    offers: Arc<Offers>,
}

impl Inflight {
    /// Joins the work on an entry, or begins it.
    pub(crate) fn join(self: &Arc<Inflight>, key: Key, body: Hash) -> Joined {
        let mut table = self.lock();
        if let Some(running) = table.running.get(&key) {
            return match running.body == body {
                true => Joined::Running(running.answer.clone(), Arc::clone(&running.offers)),
                false => Joined::Forked,
            };
        }
        let ((sender, receiver), offers) = (watch::channel(None), Arc::<Offers>::default());
        table.running.insert(key, Running { body, answer: receiver.clone(), offers: Arc::clone(&offers) });
        Joined::First(Task { inflight: Arc::clone(self), key, answer: sender, offers }, receiver)
    }

    /// The entry under way with this key.
    pub(crate) fn running(&self, key: &Key) -> Option<(Hash, Waiting)> {
        self.lock().running.get(key).map(|running| (running.body, running.answer.clone()))
    }

    /// The last answer given to this key, if it was none that ends it.
    pub(crate) fn last(&self, key: &Key) -> Option<Arc<Answer>> {
        self.lock().kept.get(key).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Values that come for the entry meanwhile.
    pub(crate) fn offers(&self) -> Arc<Offers> {
        Arc::clone(&self.offers)
    }

    /// Answers the entry.
    pub(crate) fn answer(self, answer: Answer) {
        self.say(Arc::new(answer));
    }

    fn say(&self, answer: Arc<Answer>) {
        let mut table = self.inflight.lock();
        table.running.remove(&self.key);
        if answer.status == Status::Ended {
            if table.kept.remove(&self.key).is_some() {
                table.kept_order.retain(|key| *key != self.key);
            }
        } else if table.kept.insert(self.key, Arc::clone(&answer)).is_none() {
            table.kept_order.push_back(self.key);
            if table.kept_order.len() > KEPT_ANSWERS
                && let Some(oldest) = table.kept_order.pop_front()
            {
                table.kept.remove(&oldest);
            }
        }
        drop(table);
        self.answer.send_replace(Some(answer));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.answer.borrow().is_some() {
            return;
        }
        let detail = "the server broke off its work on this entry; nothing was committed, send it again";
        self.say(Arc::new(Answer { detail: Some(detail.to_owned()), ..Answer::new(self.key.2, Status::Failed) }));
    }
}

/// Waits for the answer.
pub(crate) async fn answered(mut waiting: Waiting) -> Option<Arc<Answer>> {
    let answer = waiting.wait_for(Option::is_some).await.ok()?;
    answer.clone()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn key(sequence: u64) -> Key {
        (1, ClientId::from_bytes([1; 16]), sequence)
    }

    #[tokio::test]
    async fn all_who_ask_get_the_one_answer() {
        let inflight = Arc::new(Inflight::default());
        let Joined::First(task, first) = inflight.join(key(1), Hash::of(b"a")) else { panic!("first") };
        let Joined::Running(second, _) = inflight.join(key(1), Hash::of(b"a")) else { panic!("joined") };
        assert!(matches!(inflight.join(key(1), Hash::of(b"b")), Joined::Forked));
        task.answer(Answer::new(1, Status::Ended));
        for waiting in [first, second] {
            assert_eq!(answered(waiting).await.unwrap().status, Status::Ended);
        }
        assert!(matches!(inflight.join(key(1), Hash::of(b"b")), Joined::First(..)));
    }

    #[tokio::test]
    async fn a_dropped_task_answers_failed_and_is_remembered() {
        let inflight = Arc::new(Inflight::default());
        let Joined::First(task, waiting) = inflight.join(key(2), Hash::of(b"a")) else { panic!("first") };
        drop(task);
        assert_eq!(answered(waiting).await.unwrap().status, Status::Failed);
        assert_eq!(inflight.last(&key(2)).unwrap().status, Status::Failed);
        assert!(inflight.running(&key(2)).is_none());
    }
}
