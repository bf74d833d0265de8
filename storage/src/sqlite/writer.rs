//! The one writer, with group commit: what is queued while a transaction is being made durable goes into the next one
//! together, each request in a savepoint of its own. Nobody waits for company: an idle writer commits at once.

use super::Result;
use crate::{StorageError, failpoint};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most requests of one transaction.
const BATCH: usize = 256;
/// After this much work a transaction is committed, so that small requests do not wait for many large ones.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// Does its work on the connection, or hears that there is no transaction, and gives what must be told the outcome.
type Job = Box<dyn FnOnce(Result<&Connection>) -> Answer + Send>;
/// Told whether the transaction is durable, answers whoever waits.
type Answer = Box<dyn FnOnce(Result<()>)>;

pub(super) struct Writer {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, data: PathBuf) -> Result<Writer> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new()
            .name("metadata".to_owned())
            .spawn(move || run(&connection, &jobs, &data))
            .map_err(StorageError::io("starting the metadata writer"))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues `work`; `reply` is called in the writer with its result once that is durable.
    pub(super) fn submit<T: 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
        reply: impl FnOnce(Result<T>) + Send + 'static,
    ) -> Result<()> {
        let job: Job = Box::new(move |connection| {
            let result = connection.and_then(|connection| in_savepoint(connection, work));
            Box::new(move |outcome| reply(result.and_then(|value| outcome.map(|()| value))))
        });
        self.queue.as_ref().and_then(|queue| queue.send(job).ok()).ok_or(StorageError::Closed)
    }
}

impl Drop for Writer {
    /// What is queued is still done.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, jobs: &Receiver<Job>, data: &Path) {
    while let Ok(first) = jobs.recv() {
        let mut answers = Vec::new();
        let outcome = batch(connection, first, jobs, &mut answers).map_err(|error| error.classify(data));
        if let Err(error) = &outcome {
            tracing::error!(%error, requests = answers.len(), "a transaction failed and was undone");
        }
        failpoint::hit("storage-committed");
        for answer in answers {
            answer(outcome.clone());
        }
    }
}

fn batch(connection: &Connection, first: Job, jobs: &Receiver<Job>, answers: &mut Vec<Answer>) -> Result<()> {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let error = StorageError::from(error);
        answers.push(first(Err(error.clone())));
        return Err(error);
    }
    let start = Instant::now();
    let mut next = Some(first);
    while let Some(job) = next {
        answers.push(job(Ok(connection)));
        // A full disk makes SQLite undo the whole transaction by itself, and the requests before with it.
        if connection.is_autocommit() {
            return Err(StorageError::Database(std::sync::Arc::new(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                Some("the transaction was undone".to_owned()),
            ))));
        }
        let full = answers.len() >= BATCH || start.elapsed() >= BATCH_TIME;
        next = if full { None } else { jobs.try_recv().ok() };
    }
    failpoint::hit("storage-commit");
    connection.execute_batch("COMMIT").map_err(|error| {
        // Already undone in some cases, in which there is nothing to roll back.
        let _ = connection.execute_batch("ROLLBACK");
        error.into()
    })
}

fn in_savepoint<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    run_cached(connection, "SAVEPOINT request")?;
    let result = work(connection);
    if result.is_err() && !connection.is_autocommit() {
        run_cached(connection, "ROLLBACK TO request")?;
    }
    if !connection.is_autocommit() {
        run_cached(connection, "RELEASE request")?;
    }
    result
}

fn run_cached(connection: &Connection, sql: &str) -> Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
