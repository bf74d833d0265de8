//! Asking for the answers to entries. Where a replay takes longer than an operation's results would, they go too, and
//! whichever is first ends the entry (DESIGN.md §5, Cost model).
//!
//! A request is asked for by a task of its own, so that another connection can bring results meanwhile. When the server has
//! them all, the entry goes again with its lists. That can happen at any time: the server decides an entry once, and a server
//! that knows nothing of this gives the answer of its replay.

use super::Sync;
use super::parcels;
use super::send::Running;
use super::ship::{Batch, Shipping};
use crate::ClientError;
use crate::choice::Ship;
use crate::log::{LogEntry, Traffic};
use crate::net::{Api, DocumentName};
use opship_engine::failpoint;
use opship_record::Hash;
use opship_record::answer::{Answer, Need, Status};
use opship_record::entry::Body;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, WeakUnboundedSender};
use tokio::time::{Instant, sleep_until};

/// How long one poll waits for an entry that takes long, in seconds.
const POLL_SECONDS: u32 = 25;

/// What came of a request.
#[derive(Default)]
pub(super) struct Asked {
    /// The answers by sequence number; none is an address.
    pub(super) answers: BTreeMap<u64, Answer>,
    /// Bytes that the request's body took on the wire.
    pub(super) sent: u64,
    /// What went beside the request for an entry, by sequence number.
    pub(super) beside: BTreeMap<u64, Traffic>,
}

/// What the task tells that asks.
enum Heard {
    /// The server has read the request, whose body took so many bytes; what it calls the user, if it was told a name.
    Taken(u64, Option<String>),
    /// An answer, which may be an address.
    Answer(Answer),
}

/// An operation whose results may go beside its replay.
struct Runner<'a> {
    entry: &'a LogEntry,
    patience: Duration,
    /// When they do, unless something comes before.
    due: Instant,
}

/// What came of a request so far.
struct Following<'a> {
    heard: UnboundedReceiver<Heard>,
    asked: Asked,
    /// Did the server read it? What it calls the user then.
    taken: Option<Option<String>>,
    runners: Vec<Runner<'a>>,
    entries: u64,
}

impl Sync<'_> {
    /// Sends a request and waits for the answer to each of its entries, however long it takes.
    pub(super) async fn ask(
        &mut self,
        batch: &Batch,
        request: Vec<u8>,
        shipping: &mut Shipping<'_>,
    ) -> Result<Asked, ClientError> {
        let (name, runners) = (self.name_to_tell(batch)?, self.runners(batch, request.len() as u64)?);
        let (hear, heard) = mpsc::unbounded_channel();
        let (weak, told) = (hear.downgrade(), name.clone());
        let beside = self.api.for_bulk();
        let mut api = std::mem::replace(&mut self.api, beside);
        let mut asking = Running(tokio::spawn(async move {
            let asked = ask(&mut api, told, request, hear).await;
            (asked, api)
        }));
        let entries = batch.len() as u64;
        let mut following = Following { heard, asked: Asked::default(), taken: None, runners, entries };
        self.follow(&mut following, &weak, shipping).await;
        let (result, api) =
            (&mut asking.0).await.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        self.api = api;
        if let (Some(name), Some(author)) = (name, &following.taken) {
            self.note_told(&name, author.as_deref())?;
        }
        match result {
            Ok(()) => Ok(following.asked),
            // It was refused before it was read.
            Err(error @ ClientError::Problem { status: 400..500 | 507, .. }) if following.taken.is_none() => {
                for (entry, ..) in batch.iter().filter(|(entry, ..)| !entry.sent) {
                    self.copy.mark_not_held(entry.number)?;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The operations of a request whose results may go beside their replays. Where bytes count none does, nor while another
    /// upload stands still for this request.
    fn runners<'b>(&self, batch: &'b Batch, request: u64) -> Result<Vec<Runner<'b>>, ClientError> {
        if self.ship != Ship::Auto || self.limited_link().is_some() || self.holding {
            return Ok(Vec::new());
        }
        let (mut runners, now) = (Vec::new(), Instant::now());
        for (entry, ..) in batch {
            let has_results = match Body::decode(entry.kind, &entry.body)? {
                Body::Operation(record) => record.content.is_some(),
                Body::Value(_) => false,
            };
            if has_results {
                let patience = self.patience(entry, request)?;
                runners.push(Runner { entry, patience, due: now + patience });
            }
        }
        Ok(runners)
    }

    /// Takes the answers as they come, until the task has ended that asks for them.
    async fn follow(
        &mut self,
        following: &mut Following<'_>,
        hear: &WeakUnboundedSender<Heard>,
        shipping: &mut Shipping<'_>,
    ) {
        let mut offers = Vec::new();
        loop {
            let next = following.next();
            let due = next.map_or_else(Instant::now, |(due, _)| due);
            tokio::select! {
                biased;
                heard = following.heard.recv() => match heard {
                    Some(heard) => following.note(heard, self.progress),
                    None => return,
                },
                () = sleep_until(due), if next.is_some() => {
                    let Some((_, entry)) = next else { continue };
                    following.runners.retain(|runner| runner.entry.number != entry.number);
                    if let Some(request) = self.race(entry, following, shipping).await {
                        let fresh = self.api.for_bulk();
                        let api = std::mem::replace(&mut self.api, fresh);
                        offers.push(Running(tokio::spawn(offer(api, request, hear.clone()))));
                    }
                }
            }
        }
    }

    /// Brings the results of an operation to the server while it is replayed; gives the request that says so. `None`: the
    /// answer came before, or they cannot be brought, and then the replay is what is waited for.
    async fn race(
        &mut self,
        entry: &LogEntry,
        following: &mut Following<'_>,
        shipping: &mut Shipping<'_>,
    ) -> Option<Vec<u8>> {
        tracing::debug!(entry = entry.number, "a replay takes longer than the results would; they go too");
        let (counter, progress) = (self.api.counter(), self.progress);
        let before = counter.count();
        // What is ready waits for this request, and would not get by.
        self.holding = true;
        let brought = {
            let mut bringing = Box::pin(self.bring(entry, shipping));
            loop {
                tokio::select! {
                    biased;
                    heard = following.heard.recv() => match heard {
                        Some(heard) => following.note(heard, progress),
                        None => break None,
                    },
                    brought = &mut bringing => break Some(brought),
                }
                if following.asked.answers.contains_key(&entry.sequence) {
                    break None;
                }
            }
        };
        self.holding = false;
        let has_ended = following.asked.answers.get(&entry.sequence).is_some_and(|a| a.status == Status::Ended);
        if has_ended && let Err(error) = self.drop_begun(entry).await {
            tracing::debug!(%error, "what was uploaded in vain is left to the server");
        }
        following.asked.beside.insert(entry.sequence, counter.count().since(before));
        brought?.inspect_err(|error| tracing::debug!(%error, "the results cannot go beside their replay")).ok()
    }

    /// Uploads what the server lacks of an operation's results, and makes the request that offers them.
    async fn bring(&mut self, entry: &LogEntry, shipping: &mut Shipping<'_>) -> Result<Vec<u8>, ClientError> {
        for hash in self.results(entry)? {
            self.content(&hash)?;
        }
        self.satisfy(entry, &[Need::Values], shipping).await?;
        failpoint::hit("race-uploaded");
        let parts = self.list_parts(entry).await?;
        let mut request = Vec::new();
        self.encode(entry, parts)?.encode_into(&mut request);
        Ok(request)
    }

    /// Nobody will go on with uploads that were begun for an entry: the server has made what they bring.
    async fn drop_begun(&mut self, entry: &LogEntry) -> Result<(), ClientError> {
        for hash in self.results(entry)? {
            for (key, content) in [(hash, Some(hash)), (parcels::key(&hash), None)] {
                if let Some(document) = self.memory.begun(&key) {
                    self.memory.end(&key);
                    self.api.drop_upload(&DocumentName { content, document }).await?;
                }
            }
        }
        Ok(())
    }

    /// The contents that an entry writes.
    fn results(&self, entry: &LogEntry) -> Result<Vec<Hash>, ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        Ok(changes.iter().filter_map(|change| change.after.blob()).map(|(_, hash)| hash).collect())
    }
}

impl<'a> Following<'a> {
    /// The operation whose results go next, and when. One that waits for another of the request is not replayed yet.
    fn next(&self) -> Option<(Instant, &'a LogEntry)> {
        let answered = |sequence: &u64| self.asked.answers.contains_key(sequence);
        let is_replayed = |entry: &LogEntry| !answered(&entry.sequence) && entry.waits.iter().all(answered);
        let runners = self.runners.iter().filter(|runner| is_replayed(runner.entry));
        runners.map(|runner| (runner.due, runner.entry)).min_by_key(|(due, entry)| (*due, entry.number))
    }

    /// Takes note of what came. An address says that it takes long; any other answer, that the server gets on.
    fn note(&mut self, heard: Heard, progress: &dyn super::Progress) {
        match heard {
            Heard::Taken(sent, author) => (self.asked.sent, self.taken) = (sent, Some(author)),
            Heard::Answer(answer) if answer.status == Status::Accepted => {
                progress.step("waiting for a long replay", 0, 0);
                let found = self.runners.iter_mut().find(|runner| runner.entry.sequence == answer.sequence);
                found.into_iter().for_each(|runner| runner.due = Instant::now());
            }
            Heard::Answer(answer) => {
                let now = Instant::now();
                self.runners.iter_mut().for_each(|runner| runner.due = runner.due.max(now + runner.patience));
                self.asked.answers.entry(answer.sequence).or_insert(answer);
                progress.step("shipping entries", self.asked.answers.len() as u64, self.entries);
            }
        }
    }
}

/// Sends a request, tells each answer, and asks for those that take long until they are there.
async fn ask(
    api: &mut Api,
    name: Option<String>,
    request: Vec<u8>,
    hear: UnboundedSender<Heard>,
) -> Result<(), ClientError> {
    // Who does not listen any more has given up on the request.
    let tell = |heard| drop(hear.send(heard));
    let mut answers = match &name {
        Some(name) => api.ship_as(name, request).await?,
        None => api.ship(request).await?,
    };
    tell(Heard::Taken(answers.sent(), answers.author().map(str::to_owned)));
    let mut long = Vec::new();
    while let Some(answer) = answers.next().await? {
        if answer.sequence == 0 {
            let detail = answer.detail.unwrap_or_else(|| "the request was refused".to_owned());
            return Err(ClientError::Protocol { detail });
        }
        if answer.status == Status::Accepted {
            long.push(answer.location.clone().unwrap_or_default());
        }
        tell(Heard::Answer(answer));
    }
    for location in long {
        loop {
            let answer = api.poll(&location, POLL_SECONDS).await?;
            let nothing = || ClientError::Protocol { detail: "no answer at an entry's address".to_owned() };
            let answer = answer.ok_or_else(nothing)?;
            let is_there = answer.status != Status::Accepted;
            tell(Heard::Answer(answer));
            if is_there {
                break;
            }
        }
    }
    Ok(())
}

/// Sends an entry again whose results the server has by now. If that ends it, the answer counts; whatever else comes of it,
/// the answer to the first request tells.
async fn offer(mut api: Api, request: Vec<u8>, hear: WeakUnboundedSender<Heard>) {
    let asking = async { api.ship(request).await?.next().await };
    match asking.await {
        Ok(Some(answer)) if answer.status == Status::Ended => {
            if let Some(hear) = hear.upgrade() {
                drop(hear.send(Heard::Answer(answer)));
            }
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "results that were offered"),
    }
}
