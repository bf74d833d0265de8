//! Requests under way. Each is asked for by a task of its own. One that is not answered soon keeps back only what depends on
//! it: answers are acted on as they come, and other entries go beside it.

use super::race::Runner;
use super::ship::{on_the_wire, share};
use crate::ClientError;
use crate::choice::LEAST_PATIENCE;
use crate::log::{LogEntry, Traffic};
use crate::net::Api;
use opship_record::answer::{Answer, Status};
use std::collections::{BTreeSet, VecDeque};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// Requests at one time, each over a connection of its own.
const MAX_REQUESTS: usize = 4;
/// How long one poll waits for an entry that takes long, in seconds.
const POLL_SECONDS: u32 = 25;

/// An entry in a request.
pub(super) struct Sent {
    pub(super) entry: LogEntry,
    /// What it took so far.
    pub(super) traffic: Traffic,
    /// Bytes that it takes of the request, before that is compressed.
    pub(super) bytes: u64,
}

/// What the task tells that asks.
enum Heard {
    /// The server has read the request, whose body took so many bytes; what it calls the user, if it was told a name.
    Taken(u64, Option<String>),
    /// An answer, which may be an address.
    Answer(Answer),
}

/// Which answers of a request are there.
#[derive(Default)]
struct Answered {
    sequences: BTreeSet<u64>,
    /// Nothing comes any more.
    is_over: bool,
}

/// How tasks tell what they hear of a request.
#[derive(Clone)]
pub(super) struct Told {
    request: u64,
    heard: UnboundedSender<(u64, Heard)>,
    answered: watch::Sender<Answered>,
}

/// What a task has come to.
enum Done {
    /// A request was asked for to its end, over this connection.
    Asked(u64, Result<(), ClientError>, Box<Api>),
    /// Results were offered for one.
    Offered,
}

/// A request of which not all answers were acted on.
pub(super) struct Request {
    /// Those of its entries that have no answer, or one that was not acted on.
    pub(super) sent: Vec<Sent>,
    pub(super) begun: Instant,
    /// What came of it in the end.
    pub(super) end: Option<Result<(), ClientError>>,
    /// Has the server read it?
    pub(super) is_taken: bool,
    told: Told,
    entries: usize,
    answers: Vec<Answer>,
    runners: Vec<Runner>,
    /// The name that it told the server, and what that calls the user.
    name: Option<String>,
    author: Option<Option<String>>,
    /// Bytes of its body before they were compressed, and on the wire.
    length: u64,
    on_the_wire: u64,
    is_body_charged: bool,
    /// The traffic up to here is charged to somebody.
    charged: Traffic,
    /// When it is slow, unless something comes before.
    slow_at: Instant,
    is_slow: bool,
}

/// The requests under way.
pub(super) struct Requests {
    hear: UnboundedSender<(u64, Heard)>,
    heard: UnboundedReceiver<(u64, Heard)>,
    tasks: JoinSet<Done>,
    under_way: Vec<Request>,
    last: u64,
    /// A connection that is free again.
    pub(super) free: Option<Api>,
}

/// What goes in a request, and what is thought of it.
pub(super) struct Beginning {
    pub(super) body: Vec<u8>,
    pub(super) sent: Vec<Sent>,
    pub(super) runners: Vec<Runner>,
    /// The name that it tells the server.
    pub(super) name: Option<String>,
    /// When it is slow, unless something comes before.
    pub(super) slow_at: Instant,
}

impl Requests {
    pub(super) fn new() -> Requests {
        let (hear, heard) = mpsc::unbounded_channel();
        Requests { hear, heard, tasks: JoinSet::new(), under_way: Vec::new(), last: 0, free: None }
    }

    /// Sends a request.
    pub(super) fn begin(&mut self, mut api: Api, beginning: Beginning) {
        let Beginning { body, sent, runners, name, slow_at } = beginning;
        self.last += 1;
        let told = Told { request: self.last, heard: self.hear.clone(), answered: watch::Sender::default() };
        self.under_way.push(Request {
            entries: sent.len(),
            sent,
            runners,
            name: name.clone(),
            author: None,
            length: body.len() as u64,
            on_the_wire: body.len() as u64,
            is_body_charged: false,
            charged: api.counter().count(),
            begun: Instant::now(),
            slow_at,
            is_slow: false,
            is_taken: false,
            answers: Vec::new(),
            end: None,
            told: told.clone(),
        });
        self.tasks.spawn(async move {
            let result = ask(&mut api, name, body, &told).await;
            told.answered.send_modify(|answered| answered.is_over = true);
            Done::Asked(told.request, result, Box::new(api))
        });
    }

    /// Offers results for a request under way.
    pub(super) fn offer(&mut self, told: Told, api: Api, body: Vec<u8>) {
        self.tasks.spawn(async move {
            offer(api, body, &told).await;
            Done::Offered
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Is there one that may be answered soon?
    pub(super) fn is_brisk(&self) -> bool {
        self.under_way.iter().any(|request| !request.is_slow)
    }

    /// May another one begin?
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < MAX_REQUESTS
    }

    /// Has the server read all of them?
    pub(super) fn are_read(&self) -> bool {
        self.under_way.iter().all(|request| request.is_taken)
    }

    /// The log's numbers of the entries in them.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        self.under_way.iter().flat_map(|request| &request.sent).map(|sent| sent.entry.number).collect()
    }

    /// Is there an answer to act on, but for that to one entry?
    pub(super) fn have_answers(&mut self, except: u64) -> bool {
        self.drain();
        self.under_way.iter().any(|request| request.is_ready() && request.next_answered(Some(except)).is_some())
    }

    /// Waits until something is heard.
    pub(super) async fn hear(&mut self) {
        tokio::select! {
            biased;
            Some((id, heard)) = self.heard.recv() => self.note(id, heard),
            Some(joined) = self.tasks.join_next() => self.note_end(joined),
        }
    }

    fn drain(&mut self) {
        while let Ok((id, heard)) = self.heard.try_recv() {
            self.note(id, heard);
        }
    }

    fn note(&mut self, id: u64, heard: Heard) {
        if let Some(request) = self.under_way.iter_mut().find(|request| request.told.request == id) {
            request.note(heard);
        }
    }

    fn note_end(&mut self, joined: Result<Done, JoinError>) {
        // What a task told before its end may not have been read yet.
        self.drain();
        match joined {
            Ok(Done::Asked(id, result, api)) => {
                self.free = Some(*api);
                if let Some(request) = self.under_way.iter_mut().find(|request| request.told.request == id) {
                    request.end = Some(result);
                }
            }
            Ok(Done::Offered) => {}
            // It does not say which: their entries are asked for again by the next sync.
            Err(error) => {
                let failed = || Some(Err(ClientError::Protocol { detail: error.to_string() }));
                self.under_way.iter_mut().for_each(|request| request.end = failed());
            }
        }
    }

    /// When something is to be done although nothing is heard. `races`: may results go beside replays now?
    pub(super) fn due(&self, races: bool) -> Option<Instant> {
        let turning = self.under_way.iter().filter(|request| !request.is_slow).map(|request| request.slow_at);
        let racing = self.under_way.iter().filter(|_| races).filter_map(|request| request.next_runner());
        turning.chain(racing.map(|(due, _)| due)).min()
    }

    /// Those that were not answered soon are slow from now on.
    pub(super) fn mark_slow(&mut self) {
        let now = Instant::now();
        self.under_way.iter_mut().for_each(|request| request.is_slow |= request.slow_at <= now);
    }

    /// An operation whose results are to go beside its replay now.
    pub(super) fn take_runner(&mut self) -> Option<(Told, Runner)> {
        let now = Instant::now();
        self.under_way.iter_mut().find_map(|request| {
            let (_, at) = request.next_runner().filter(|(due, _)| *due <= now)?;
            Some((request.told.clone(), request.runners.swap_remove(at)))
        })
    }

    /// Takes an answer to act on, but for that to one entry, with what the entry took so far.
    pub(super) fn take_answer(&mut self, except: Option<u64>, now: Traffic) -> Option<(Sent, Answer)> {
        self.under_way.iter_mut().filter(|request| request.is_ready()).find_map(|r| r.take_answer(except, now))
    }

    /// Takes a request to which nothing comes any more. Beside an upload only one that did not fail.
    pub(super) fn take_ended(&mut self, beside: bool) -> Option<Request> {
        let has_ended = |request: &Request| match &request.end {
            Some(Ok(())) => request.next_answered(None).is_none(),
            Some(Err(_)) => !beside,
            None => false,
        };
        let at = self.under_way.iter().position(has_ended)?;
        Some(self.under_way.remove(at))
    }

    /// What the server calls the user, where it was told a name.
    pub(super) fn take_author(&mut self) -> Option<(String, Option<String>)> {
        self.under_way.iter_mut().find_map(|request| Some((request.name.clone()?, request.author.take()?)))
    }

    /// The status of an answer that was not acted on yet.
    pub(super) fn status(&mut self, told: &Told, sequence: u64) -> Option<Status> {
        self.drain();
        let request = self.under_way.iter().find(|request| request.told.request == told.request)?;
        request.answers.iter().find(|answer| answer.sequence == sequence).map(|answer| answer.status)
    }

    /// Traffic that was for others, as of now; `for_entry` is charged with it, if one is.
    pub(super) fn charge(&mut self, traffic: Traffic, for_entry: Option<u64>) {
        for request in &mut self.under_way {
            request.charged += traffic;
            let sent = request.sent.iter_mut().filter(|sent| Some(sent.entry.number) == for_entry);
            sent.for_each(|sent| sent.traffic += traffic);
        }
    }

    /// How far the newest request is, for people.
    pub(super) fn step(&self) -> Option<(&'static str, u64, u64)> {
        let request = self.under_way.last()?;
        let answered = request.entries - request.sent.len() + request.answers.len();
        Some(match request.is_slow && request.answers.is_empty() {
            true => ("waiting for a long replay", 0, 0),
            false => ("shipping entries", answered as u64, request.entries as u64),
        })
    }
}

impl Request {
    fn note(&mut self, heard: Heard) {
        let now = Instant::now();
        match heard {
            Heard::Taken(bytes, author) => {
                (self.on_the_wire, self.is_taken, self.author) = (bytes, true, Some(author));
                self.slow_at = self.slow_at.min(now + LEAST_PATIENCE);
                self.runners.iter_mut().for_each(|runner| runner.due = runner.due.min(now + runner.patience));
            }
            // All others of the request have their answers by now, or take long too.
            Heard::Answer(answer) if answer.status == Status::Accepted => {
                self.slow_at = now;
                let long = self.runners.iter_mut().filter(|runner| runner.entry.sequence == answer.sequence);
                long.for_each(|runner| runner.due = now);
            }
            Heard::Answer(answer) => {
                // The server gets on.
                self.slow_at = self.slow_at.max(now + LEAST_PATIENCE);
                self.runners.retain(|runner| runner.entry.sequence != answer.sequence);
                self.runners.iter_mut().for_each(|runner| runner.due = runner.due.max(now + runner.patience));
                let is_waited_for = self.sent.iter().any(|sent| sent.entry.sequence == answer.sequence);
                if is_waited_for && !self.is_answered(answer.sequence) {
                    self.answers.push(answer);
                }
            }
        }
    }

    fn is_answered(&self, sequence: u64) -> bool {
        self.answers.iter().any(|answer| answer.sequence == sequence)
    }

    /// May its answers be acted on? Those of one that is answered soon are, all at once.
    fn is_ready(&self) -> bool {
        self.is_slow || self.end.is_some()
    }

    fn next_answered(&self, except: Option<u64>) -> Option<usize> {
        let is_next = |sent: &Sent| Some(sent.entry.number) != except && self.is_answered(sent.entry.sequence);
        self.sent.iter().position(is_next)
    }

    fn take_answer(&mut self, except: Option<u64>, now: Traffic) -> Option<(Sent, Answer)> {
        let at = self.next_answered(except)?;
        let body = if std::mem::replace(&mut self.is_body_charged, true) { 0 } else { self.on_the_wire };
        let overhead = now.without(self.charged).without(Traffic { sent: body, received: 0 });
        // Whatever its answers took is shared by the entries that have none taken yet; what is left goes to the next.
        let shared =
            share(overhead, if self.end.is_some() { self.sent.len() as u64 } else { self.answers.len() as u64 });
        self.charged = now.without(overhead.without(shared));
        let mut sent = self.sent.remove(at);
        sent.traffic += shared;
        sent.traffic.sent += on_the_wire(sent.bytes, self.on_the_wire, self.length);
        let at = self.answers.iter().position(|answer| answer.sequence == sent.entry.sequence)?;
        Some((sent, self.answers.remove(at)))
    }

    /// The operation whose results go next, where it is, and when. One that waits for another of the request is not replayed
    /// yet.
    fn next_runner(&self) -> Option<(Instant, usize)> {
        let is_open = |wait: &u64| self.sent.iter().any(|s| s.entry.sequence == *wait) && !self.is_answered(*wait);
        let runners = self.runners.iter().enumerate().filter(|(_, runner)| !runner.entry.waits.iter().any(is_open));
        runners.map(|(at, runner)| (runner.due, at)).min()
    }
}

impl Told {
    fn tell(&self, heard: Heard) {
        if let Heard::Answer(answer) = &heard
            && answer.status != Status::Accepted
        {
            self.answered.send_modify(|answered| {
                answered.sequences.insert(answer.sequence);
            });
        }
        // Who does not listen any more has given up on the request.
        let _ = self.heard.send((self.request, heard));
    }

    /// Waits until an entry of the request has its answer, or none comes any more.
    pub(super) async fn answered(self, sequence: u64) {
        let is_there = |answered: &Answered| answered.is_over || answered.sequences.contains(&sequence);
        // The sender is here, so that it does not close.
        let _ = self.answered.subscribe().wait_for(is_there).await;
    }
}

/// Sends a request, tells each answer, and asks for those that take long until they are there.
async fn ask(api: &mut Api, name: Option<String>, body: Vec<u8>, told: &Told) -> Result<(), ClientError> {
    let mut answers = match &name {
        Some(name) => api.ship_as(name, body).await?,
        None => api.ship(body).await?,
    };
    told.tell(Heard::Taken(answers.sent(), answers.author().map(str::to_owned)));
    let mut long = VecDeque::new();
    while let Some(answer) = answers.next().await? {
        if answer.sequence == 0 {
            let detail = answer.detail.unwrap_or_else(|| "the request was refused".to_owned());
            return Err(ClientError::Protocol { detail });
        }
        if answer.status == Status::Accepted {
            long.push_back(answer.location.clone().unwrap_or_default());
        }
        told.tell(Heard::Answer(answer));
    }
    drop(answers);
    // In turn, so that none waits for all that another takes.
    while let Some(location) = long.pop_front() {
        let nothing = || ClientError::Protocol { detail: "no answer at an entry's address".to_owned() };
        let answer = api.poll(&location, POLL_SECONDS).await?.ok_or_else(nothing)?;
        match answer.status {
            Status::Accepted => long.push_back(location),
            _ => told.tell(Heard::Answer(answer)),
        }
    }
    Ok(())
}

/// Sends an entry again whose results the server has by now. If that ends it, the answer counts; whatever else comes of it,
/// the answer to the first request tells.
async fn offer(mut api: Api, body: Vec<u8>, told: &Told) {
    let asking = async { api.ship(body).await?.next().await };
    match asking.await {
        Ok(Some(answer)) if answer.status == Status::Ended => told.tell(Heard::Answer(answer)),
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "results that were offered"),
    }
}
