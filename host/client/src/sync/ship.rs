//! Shipping: ready entries in requests, answers as they come, what the server needs, until nothing moves.

use super::report::{EntryReport, SyncReport};
use super::send::LOOK_EVERY;
use super::under_way::{Beginning, Requests, Sent};
use super::{Sync, choose, value_cost};
use crate::ClientError;
use crate::choice::LEAST_PATIENCE;
use crate::log::{EntryState, LogEntry, Traffic};
use crate::mend::Mended;
use crate::net::HeldState;
use opship_record::answer::{Answer, Need, Status, Verdict};
use opship_record::entry::{Body, BodyKind, Entry, Part};
use opship_record::limits::MAX_REQUEST;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// Bytes of entries in one request at most: enough to fill a link.
const REQUEST_BYTES: usize = MAX_REQUEST / 4;
/// Bytes of entries in the first request. While requests are answered soon the next is twice as large, so that on a slow
/// link a cut costs little.
const FIRST_REQUEST_BYTES: usize = 128 << 10;
/// What is soon, and what is late.
const SOON: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(10);
/// Entries in one request.
const REQUEST_ENTRIES: usize = 512;
/// How often one entry may be answered `needs` or `failed` in one sync before it is left to the next.
const TRIES: u32 = 8;
/// Most bytes of an entry for which an upload is held up.
const URGENT_BYTES: u64 = 256 << 10;

/// Where shipping stands, and what it tells.
pub(super) struct Shipping<'a> {
    pub(super) requests: Requests,
    progress: Progress,
    report: &'a mut SyncReport,
}

/// Where shipping stands.
struct Progress {
    /// Bytes of entries in the next request.
    room: usize,
    started: BTreeMap<u64, Instant>,
    tries: BTreeMap<u64, u32>,
    /// Entries whose lists were asked for.
    lists: BTreeSet<u64>,
    /// Bodies that the server asked something for, by their plain hash: it keeps what came with them.
    asked: BTreeSet<Hash>,
    /// Entries that this sync leaves alone from here on.
    left: BTreeSet<u64>,
    /// Entries with something that is not here as the entry names it.
    lacking: BTreeMap<u64, ClientError>,
    /// The log's newest entry when it was last looked for what is ready.
    newest: Option<(u64, EntryState)>,
}

impl Progress {
    fn new() -> Progress {
        Progress {
            room: FIRST_REQUEST_BYTES,
            started: BTreeMap::new(),
            tries: BTreeMap::new(),
            lists: BTreeSet::new(),
            asked: BTreeSet::new(),
            left: BTreeSet::new(),
            lacking: BTreeMap::new(),
            newest: None,
        }
    }

    /// A request was answered after this time.
    fn took(&mut self, time: Duration) {
        if time < SOON {
            self.room = (self.room * 2).min(REQUEST_BYTES);
        } else if time > LATE {
            self.room = (self.room / 2).max(FIRST_REQUEST_BYTES);
        }
    }
}

/// One request.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
    entries: Vec<Sent>,
}

impl Sync<'_> {
    /// Ships until no entry is ready any more.
    pub(super) async fn ship(&mut self, report: &mut SyncReport) -> Result<(), ClientError> {
        let (left, asked) = (self.held()?, self.brought_by_bundle().await?);
        let progress = Progress { left, asked, ..Progress::new() };
        let mut shipping = Shipping { requests: Requests::new(), progress, report };
        self.settle_rebased(&mut shipping.report.pulled).await?;
        loop {
            let batch = self.ready(&mut shipping, &|_| true)?;
            match batch.is_empty() {
                true if shipping.requests.is_empty() => return Ok(()),
                true => self.attend(&mut shipping, None).await?,
                false => self.ship_batch(batch, &mut shipping).await?,
            }
            self.settle_soon(&mut shipping, None).await?;
        }
    }

    /// Waits for the answers that come soon, and puts in order what came of them.
    async fn settle_soon(&mut self, shipping: &mut Shipping<'_>, beside: Option<u64>) -> Result<(), ClientError> {
        while shipping.requests.is_brisk() {
            self.attend(shipping, beside).await?;
        }
        self.settle_rebased(&mut shipping.report.pulled).await?;
        self.mend(shipping)
    }

    /// Ships what is small and ready while the upload of `number`'s contents goes on. `false`: there was nothing.
    pub(super) async fn ship_urgent(&mut self, number: u64, shipping: &mut Shipping<'_>) -> Result<bool, ClientError> {
        let acted = self.act(shipping, Some(number)).await?;
        let urgent = |entry: &LogEntry| entry.number != number && size(entry) <= URGENT_BYTES;
        let batch = self.ready(shipping, &urgent)?;
        let is_done = batch.is_empty();
        if !is_done {
            self.ship_batch(batch, shipping).await?;
        }
        if acted || !is_done {
            self.settle_soon(shipping, Some(number)).await?;
        }
        Ok(!is_done)
    }

    /// Is there something for [`Sync::ship_urgent`]?
    pub(super) fn is_urgent(&self, number: u64, shipping: &Shipping<'_>) -> Result<bool, ClientError> {
        let urgent = |entry: &LogEntry| entry.number != number && size(entry) <= URGENT_BYTES;
        Ok(!self.next_batch(shipping, &urgent)?.is_empty())
    }

    /// Files changed under entries that were to be shipped: value entries take the new states, then they are ready again.
    /// What cannot be mended is told and left, and the other entries go on.
    fn mend(&self, shipping: &mut Shipping<'_>) -> Result<(), ClientError> {
        let lacking = std::mem::take(&mut shipping.progress.lacking);
        if lacking.is_empty() {
            return Ok(());
        }
        let asked = lacking.iter().map(|(number, error)| (*number, path_in(error))).collect();
        let Mended { lacking: still, apart } = self.copy.mend_values(&asked)?;
        for number in apart {
            shipping.progress.left.insert(number);
            let entry = self.copy.entry(number)?;
            let detail = Some(self.restless(&entry)?);
            self.report(&entry, &Answer { detail, ..Answer::new(entry.sequence, Status::Failed) }, shipping)?;
        }
        for (number, error) in lacking {
            let entry = self.copy.entry(number)?;
            // A value that the server may hold goes again as it is: the answer tells whether it may be changed.
            let lost = still.contains(&number) && !entry.sent;
            if !lost && try_again(&mut shipping.progress, number) {
                continue;
            }
            shipping.progress.left.insert(number);
            let answer =
                Answer { detail: Some(self.lost(&entry, &error)?), ..Answer::new(entry.sequence, Status::Failed) };
            self.report(&entry, &answer, shipping)?;
        }
        Ok(())
    }

    /// What is to be done about an entry whose contents are not here.
    fn lost(&self, entry: &LogEntry, error: &ClientError) -> Result<String, ClientError> {
        let mut paths = Vec::new();
        for change in self.copy.lists(entry.number)?.changes {
            if let Some((_, hash)) = change.after.blob()
                && self.copy.blob_source(&hash)?.is_none()
            {
                paths.push(format!("'{}'", change.path));
            }
        }
        let is_read = matches!(error, ClientError::Read { .. });
        let paths = paths.join(", ");
        Ok(match entry.kind {
            _ if is_read || paths.is_empty() => error.to_string(),
            BodyKind::Operation => format!(
                "the server wants the bytes that it wrote to {paths}, and they were overwritten here before they were \
                 shipped; put these bytes back, by running the command again, and sync"
            ),
            BodyKind::Value => format!(
                "{paths} changed before it was shipped and cannot be taken up as it is now; make it readable, or let \
                 the program that writes it finish, then sync again"
            ),
        })
    }

    /// What is to be done about files that were set apart.
    fn restless(&self, entry: &LogEntry) -> Result<String, ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let paths: Vec<String> = changes.iter().map(|change| format!("'{}'", change.path)).collect();
        Ok(format!(
            "{} cannot be read unchanged as long as shipping takes, so all else goes without; make it readable, or let the \
             program that writes it finish, then sync again",
            paths.join(", ")
        ))
    }

    /// What may go in a request now.
    fn ready(
        &self,
        shipping: &mut Shipping<'_>,
        is_wanted: &dyn Fn(&LogEntry) -> bool,
    ) -> Result<Vec<LogEntry>, ClientError> {
        shipping.progress.newest = self.copy.newest()?;
        if shipping.requests.has_room() { self.next_batch(shipping, is_wanted) } else { Ok(Vec::new()) }
    }

    /// Ready entries of those that are wanted, small ones first, each behind those in the batch that it waits for.
    fn next_batch(
        &self,
        shipping: &Shipping<'_>,
        is_wanted: &dyn Fn(&LogEntry) -> bool,
    ) -> Result<Vec<LogEntry>, ClientError> {
        let pending = self.copy.pending()?;
        let unparked = |entry: &&LogEntry| !entry.is_parked();
        let unended: BTreeSet<u64> = pending.iter().filter(unparked).map(|entry| entry.sequence).collect();
        let out: BTreeSet<u64> = &shipping.progress.left | &shipping.requests.numbers();
        let left_alone = |entry: &LogEntry| out.contains(&entry.number) || entry.is_parked();
        let is_candidate = |entry: &LogEntry| !left_alone(entry) && is_wanted(entry);
        let mut candidates: Vec<LogEntry> = pending.into_iter().filter(is_candidate).collect();
        candidates.sort_by_key(|entry| (size(entry), entry.number));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut chosen = BTreeSet::new();
        // An entry may come before one that it waits for in the order of size: look again until nothing is added.
        loop {
            let before = batch.len();
            for entry in std::mem::take(&mut candidates) {
                // One that waits for an entry which ended badly, or is parked itself, is sent: the server answers that it is
                // parked.
                let ready = entry.waits.iter().all(|wait| chosen.contains(wait) || !unended.contains(wait));
                let fits = batch.is_empty() || bytes + entry.body.len() <= shipping.progress.room;
                if ready && fits && batch.len() < REQUEST_ENTRIES {
                    bytes += entry.body.len() + 128;
                    chosen.insert(entry.sequence);
                    batch.push(entry);
                } else {
                    candidates.push(entry);
                }
            }
            if batch.len() == before {
                return Ok(batch);
            }
        }
    }

    /// Begins the request of a batch.
    async fn ship_batch(&mut self, batch: Vec<LogEntry>, shipping: &mut Shipping<'_>) -> Result<(), ClientError> {
        let Request { bytes: body, entries: sent } = self.request(batch, shipping).await?;
        if sent.is_empty() {
            return Ok(());
        }
        self.copy.mark_sent(&sent.iter().map(|sent| sent.entry.number).collect::<Vec<_>>())?;
        let (name, link) = (self.name_to_tell(&sent)?, choose::measured(self.copy)?);
        let arriving = link.longest(body.len() as u64);
        let runners = self.runners(&sent, link, arriving)?;
        let slow_at = tokio::time::Instant::now() + arriving + LEAST_PATIENCE;
        let beside = self.api.beside();
        let api = std::mem::replace(&mut self.api, beside);
        shipping.requests.begin(api, Beginning { body, sent, runners, name, slow_at });
        Ok(())
    }

    /// Waits until something has come of the requests under way, or there may be something new to ship, and acts on it.
    /// `beside`: an entry whose contents are being uploaded, which is left alone.
    async fn attend(&mut self, shipping: &mut Shipping<'_>, beside: Option<u64>) -> Result<(), ClientError> {
        loop {
            let (begun, is_brisk) = (tokio::time::Instant::now(), shipping.requests.is_brisk());
            let due = shipping.requests.due(beside.is_none());
            let look = (!is_brisk).then_some(begun + LOOK_EVERY);
            let until = due.into_iter().chain(look).min().unwrap_or(begun + LOOK_EVERY);
            let heard = tokio::select! {
                biased;
                () = shipping.requests.hear() => true,
                () = sleep_until(until) => false,
            };
            if !is_brisk {
                self.waited += begun.elapsed();
            }
            shipping.requests.mark_slow();
            if let Some((what, done, total)) = shipping.requests.step().filter(|_| heard) {
                self.progress.step(what, done, total);
            }
            self.act(shipping, beside).await?;
            let runner = if beside.is_none() { shipping.requests.take_runner() } else { None };
            let has_raced = runner.is_some();
            if let Some((told, runner)) = runner {
                self.race(told, runner, shipping).await;
            }
            if heard || has_raced || due == Some(until) || self.copy.newest()? != shipping.progress.newest {
                return Ok(());
            }
        }
    }

    /// Acts on the answers that are there: of a request that is answered soon on all at once. `false`: there were none.
    async fn act(&mut self, shipping: &mut Shipping<'_>, beside: Option<u64>) -> Result<bool, ClientError> {
        if let Some(api) = shipping.requests.free.take() {
            self.api = api;
        }
        if let Some((name, author)) = shipping.requests.take_author() {
            self.note_told(&name, author.as_deref())?;
        }
        let (counter, mut acted) = (self.api.counter(), false);
        while let Some((Sent { entry, traffic, .. }, answer)) = shipping.requests.take_answer(beside, counter.count()) {
            acted = true;
            let before = counter.count();
            self.take(&entry, answer, traffic, shipping).await?;
            shipping.requests.charge(counter.count().since(before), None);
        }
        while let Some(ended) = shipping.requests.take_ended(beside.is_some()) {
            match ended.end {
                Some(Err(error)) => {
                    let refused = matches!(error, ClientError::Problem { status: 400..500 | 507, .. });
                    // It was refused before it was read.
                    for sent in ended.sent.iter().filter(|sent| refused && !ended.is_taken && !sent.entry.sent) {
                        self.copy.mark_not_held(sent.entry.number)?;
                    }
                    return Err(error);
                }
                _ => shipping.progress.took(ended.begun.elapsed()),
            }
            for sent in ended.sent {
                try_again(&mut shipping.progress, sent.entry.number);
            }
        }
        Ok(acted)
    }

    /// The request of a batch. An entry that lacks a content is left out, and so is what waits for it.
    ///
    /// What has large contents goes alone, after them: nothing that is ready waits while they are uploaded.
    async fn request(&mut self, batch: Vec<LogEntry>, shipping: &mut Shipping<'_>) -> Result<Request, ClientError> {
        let counter = self.api.counter();
        let (mut request, mut out) = (Request::default(), BTreeSet::new());
        for entry in batch {
            // Contents and lists may make a request much larger than its entries: the rest goes into the next one.
            if request.bytes.len() >= shipping.progress.room {
                break;
            }
            if entry.waits.iter().any(|wait| out.contains(wait)) {
                out.insert(entry.sequence);
                continue;
            }
            let is_large = self.has_large(&entry)?;
            if is_large && !request.entries.is_empty() {
                break;
            }
            shipping.progress.started.entry(entry.number).or_insert_with(Instant::now);
            let (before, start) = (counter.count(), request.bytes.len());
            let parts = match self.parts_of(&entry, shipping, start).await {
                Err(error) if concerns_entry(&error) => {
                    out.insert(entry.sequence);
                    shipping.progress.lacking.insert(entry.number, error);
                    continue;
                }
                parts => parts?,
            };
            // Another command may have changed the entry while its contents were uploaded: it comes again as it is now.
            if is_large && self.copy.entry(entry.number)?.body != entry.body {
                break;
            }
            self.encode(&entry, parts)?.encode_into(&mut request.bytes);
            let (traffic, bytes) = (counter.count().since(before), (request.bytes.len() - start) as u64);
            request.entries.push(Sent { entry, traffic, bytes });
            if is_large {
                break;
            }
        }
        Ok(request)
    }

    /// The parts that go with an entry into a request of `length` bytes so far.
    async fn parts_of(
        &mut self,
        entry: &LogEntry,
        shipping: &mut Shipping<'_>,
        length: usize,
    ) -> Result<Vec<Part>, ClientError> {
        let again = shipping.progress.asked.contains(&Hash::of(&entry.body));
        let first = if again { Vec::new() } else { self.first_parts(entry, length, shipping).await? };
        if shipping.progress.lists.contains(&entry.number) || again && entry.kind == BodyKind::Value {
            return Ok(merge(first, self.list_parts(entry).await?));
        }
        Ok(first)
    }

    pub(super) fn encode(&self, entry: &LogEntry, parts: Vec<Part>) -> Result<Entry, ClientError> {
        let body = Body::decode(entry.kind, &entry.body)?;
        Ok(Entry::new(entry.client, entry.sequence, &entry.waits, body, parts))
    }

    /// Acts on an answer.
    async fn take(
        &mut self,
        entry: &LogEntry,
        answer: Answer,
        traffic: Traffic,
        shipping: &mut Shipping<'_>,
    ) -> Result<(), ClientError> {
        let counter = self.api.counter();
        let before = counter.count();
        match answer.status {
            Status::Ended | Status::Accepted => {}
            Status::Parked if self.waits_for_unended(&answer)? => {
                // It came before one that the server still wants something for; that one goes first.
                self.copy.mark_not_held(entry.number)?;
                try_again(&mut shipping.progress, entry.number);
                return Ok(());
            }
            // Only bytes were waited for, and the server has them by now: it goes again.
            Status::Parked if self.copy.entry(entry.number)?.waits.is_empty() => {
                try_again(&mut shipping.progress, entry.number);
            }
            Status::Parked => drop(shipping.progress.left.insert(entry.number)),
            Status::Needs => {
                let needs = answer.needs.clone().unwrap_or_default();
                if needs.iter().any(|need| matches!(need, Need::Lists | Need::Values)) {
                    shipping.progress.lists.insert(entry.number);
                }
                if let Some(detail) = self.too_dear(entry, &needs)? {
                    shipping.progress.left.insert(entry.number);
                    let answer = Answer { detail: Some(detail), ..answer.clone() };
                    self.copy.mark_answer(entry.number, &answer, traffic)?;
                    return self.report(entry, &answer, shipping);
                }
                match self.satisfy(entry, &needs, shipping).await {
                    Err(error) if concerns_entry(&error) => drop(shipping.progress.lacking.insert(entry.number, error)),
                    result => {
                        result?;
                        shipping.progress.asked.insert(Hash::of(&entry.body));
                    }
                }
                try_again(&mut shipping.progress, entry.number);
            }
            Status::Failed => drop(try_again(&mut shipping.progress, entry.number)),
            Status::Forked => {
                self.copy.set_forked()?;
                // What the server may still read under the old identity must not move to a new one: the next sync does this.
                if shipping.requests.are_read() {
                    return self.leave_forked_identity().await;
                }
                shipping.progress.left.insert(entry.number);
                let detail = Some("this folder is a copy and takes an identity of its own; sync again".to_owned());
                return self.report(entry, &Answer { detail, ..Answer::new(entry.sequence, Status::Failed) }, shipping);
            }
        }
        let mut traffic = traffic;
        traffic += counter.count().since(before);
        if answer.status == Status::Ended {
            let started = shipping.progress.started.get(&entry.number);
            let micros = started.map_or(0, |start| u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
            self.copy.mark_end(entry.number, &answer, traffic, micros)?;
            self.learn(entry, &answer)?;
        } else {
            self.copy.mark_answer(entry.number, &answer, traffic)?;
        }
        if answer.verdict.is_some_and(Verdict::is_final_for_client) && changes_something(entry)? {
            self.own_versions.extend(answer.version.map(|version| (version, answer.version_mark.map(Into::into))));
            let changes = self.copy.lists(entry.number)?.changes;
            self.changed.extend(&changes);
            self.ahead.extend(changes.into_iter().map(|change| change.path));
        }
        if answer.status != Status::Needs {
            self.report(entry, &answer, shipping)?;
        }
        Ok(())
    }

    /// Does a parked entry wait for one that has not ended here and is going to be sent again?
    fn waits_for_unended(&self, answer: &Answer) -> Result<bool, ClientError> {
        let waits = answer.waits.as_deref().unwrap_or_default();
        Ok(self.copy.pending()?.iter().any(|entry| waits.contains(&entry.sequence) && !entry.is_parked()))
    }

    fn report(&self, entry: &LogEntry, answer: &Answer, shipping: &mut Shipping<'_>) -> Result<(), ClientError> {
        // As the log has it now, with the traffic of all requests.
        let stored = self.copy.entry(entry.number)?;
        let started = &shipping.progress.started;
        let seconds = started.get(&entry.number).map_or(0.0, |start| start.elapsed().as_secs_f64());
        shipping.report.entries.retain(|known| known.number != entry.number);
        shipping.report.entries.push(EntryReport {
            number: entry.number,
            kind: entry.kind,
            command: entry.command.clone(),
            verdict: answer.verdict,
            reason: answer.reason,
            detail: answer.detail.clone(),
            parked: answer.status == Status::Parked,
            failed: answer.status == Status::Failed,
            sent: stored.sent_bytes,
            received: stored.received_bytes,
            value_bytes: value_cost::estimate(self.copy, entry)?,
            replay_micros: answer.replay_micros,
            seconds,
        });
        Ok(())
    }

    /// A copied working copy takes an identity of its own: of its unanswered entries, those that the server does not hold
    /// with the same body move to it.
    pub(super) async fn leave_forked_identity(&mut self) -> Result<(), ClientError> {
        if !self.copy.is_forked()? {
            return Ok(());
        }
        let unanswered = self.copy.pending()?;
        let states = self.held_states(&unanswered).await?;
        let moving: Vec<u64> =
            unanswered.iter().zip(states).filter(|(_, s)| *s != HeldState::Same).map(|(e, _)| e.number).collect();
        self.copy.move_to_new_client(&moving)?;
        Ok(())
    }
}

impl Sync<'_> {
    /// How the server knows entries, in their order.
    pub(super) async fn held_states(&mut self, entries: &[LogEntry]) -> Result<Vec<HeldState>, ClientError> {
        let mut keys = Vec::new();
        for entry in entries {
            keys.push((entry.client, entry.sequence, Body::decode(entry.kind, &entry.body)?.id()));
        }
        if keys.is_empty() { Ok(Vec::new()) } else { self.api.entry_states(&keys).await }
    }
}

/// Does the entry change the tree, so that it makes a version?
pub(super) fn changes_something(entry: &LogEntry) -> Result<bool, ClientError> {
    Ok(match Body::decode(entry.kind, &entry.body)? {
        Body::Operation(record) => record.content.is_some(),
        Body::Value(value) => value.count > 0,
    })
}

/// Is this the trouble of one entry, so that others can go on?
fn concerns_entry(error: &ClientError) -> bool {
    matches!(error, ClientError::Changed { .. } | ClientError::Read { .. })
}

/// The path that an error of one entry names.
fn path_in(error: &ClientError) -> Option<TreePath> {
    match error {
        ClientError::Changed { path } | ClientError::Read { path, .. } => path.parse().ok(),
        _ => None,
    }
}

/// Counts a try; `false`, and left alone from now on, after too many.
fn try_again(progress: &mut Progress, number: u64) -> bool {
    let tries = progress.tries.entry(number).or_default();
    *tries += 1;
    if *tries >= TRIES {
        progress.left.insert(number);
    }
    *tries < TRIES
}

/// Lists that were asked for take the place of the parts of the same kind.
fn merge(first: Vec<Part>, asked: Vec<Part>) -> Vec<Part> {
    let kept = first.into_iter().filter(|part| asked.iter().all(|a| a.kind != part.kind)).collect::<Vec<_>>();
    asked.into_iter().chain(kept).collect()
}

/// Bytes that an entry is expected to send.
fn size(entry: &LogEntry) -> u64 {
    match entry.kind {
        BodyKind::Operation => entry.body.len() as u64,
        BodyKind::Value => entry.body.len() as u64 + entry.value_bytes,
    }
}

/// An entry's share of what a request takes besides the entries themselves.
pub(super) fn share(traffic: Traffic, entries: u64) -> Traffic {
    Traffic { sent: traffic.sent.div_ceil(entries.max(1)), received: traffic.received.div_ceil(entries.max(1)) }
}

/// An entry's share of a request's body, `sent` bytes on the wire and `length` before it was compressed.
pub(super) fn on_the_wire(bytes: u64, sent: u64, length: u64) -> u64 {
    let share = (u128::from(bytes) * u128::from(sent)).div_ceil(u128::from(length.max(1)));
    u64::try_from(share).unwrap_or(bytes)
}
