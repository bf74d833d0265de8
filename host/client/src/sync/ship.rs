//! Shipping: ready entries in requests, answers as they come, what the server needs, until nothing moves.

use super::report::{EntryReport, SyncReport};
use super::{Sync, value_cost};
use crate::ClientError;
use crate::log::{LogEntry, Traffic};
use crate::net::HeldState;
use opship_record::Hash;
use opship_record::answer::{Answer, Need, Status, Verdict};
use opship_record::entry::{Body, BodyKind, Entry, Part};
use opship_record::limits::MAX_REQUEST;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Bytes of entries in one request: enough to fill a link, little to send again after a cut.
const REQUEST_BYTES: usize = MAX_REQUEST / 4;
/// Entries in one request.
const REQUEST_ENTRIES: usize = 512;
/// How often one entry may be answered `needs` or `failed` in one sync before it is left to the next.
const TRIES: u32 = 8;
/// How long one poll waits for an entry that takes long, in seconds.
const POLL_SECONDS: u32 = 25;

/// Where shipping stands.
#[derive(Default)]
struct Progress {
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
}

/// One request, with what each entry in it took to prepare, and the bytes that it takes of the request.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
    entries: Vec<(LogEntry, Traffic, u64)>,
}

impl Sync<'_> {
    /// Ships until no entry is ready any more.
    pub(super) async fn ship(&mut self, report: &mut SyncReport) -> Result<(), ClientError> {
        let mut progress = Progress { left: self.held()?, ..Progress::default() };
        loop {
            let batch = self.next_batch(&progress)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.ship_batch(batch, &mut progress, report).await?;
            self.mend(&mut progress, report)?;
        }
    }

    /// Files changed under entries that were to be shipped: value entries take the new states, then they are ready again.
    /// What cannot be mended is told and left, and the other entries go on.
    fn mend(&self, progress: &mut Progress, report: &mut SyncReport) -> Result<(), ClientError> {
        let lacking = std::mem::take(&mut progress.lacking);
        if lacking.is_empty() {
            return Ok(());
        }
        let asked = lacking.keys().copied().collect();
        let still = self.copy.mend_values(&asked)?;
        for (number, error) in lacking {
            let entry = self.copy.entry(number)?;
            // A value that the server may hold goes again as it is: the answer tells whether it may be changed.
            let lost = still.contains(&number) && !entry.sent;
            if !lost && try_again(progress, number) {
                continue;
            }
            progress.left.insert(number);
            let answer =
                Answer { detail: Some(self.lost(&entry, &error)?), ..Answer::new(entry.sequence, Status::Failed) };
            self.report(&entry, &answer, progress, report)?;
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

    /// Ready entries, small ones first, each behind those in the batch that it waits for.
    fn next_batch(&self, progress: &Progress) -> Result<Vec<LogEntry>, ClientError> {
        let pending = self.copy.pending()?;
        let unended: BTreeSet<u64> = pending.iter().map(|entry| entry.sequence).collect();
        let left_alone = |entry: &LogEntry| progress.left.contains(&entry.number) || entry.is_parked();
        let mut candidates: Vec<LogEntry> = pending.into_iter().filter(|entry| !left_alone(entry)).collect();
        candidates.sort_by_key(|entry| (size(entry), entry.number));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut chosen = BTreeSet::new();
        // An entry may come before one that it waits for in the order of size: look again until nothing is added.
        loop {
            let before = batch.len();
            for entry in std::mem::take(&mut candidates) {
                // One that waits for an entry which ended badly is sent: the server answers that it is parked.
                let ready = entry.waits.iter().all(|wait| chosen.contains(wait) || !unended.contains(wait));
                if ready && batch.len() < REQUEST_ENTRIES && bytes + entry.body.len() <= REQUEST_BYTES {
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

    async fn ship_batch(
        &mut self,
        batch: Vec<LogEntry>,
        progress: &mut Progress,
        report: &mut SyncReport,
    ) -> Result<(), ClientError> {
        let Request { bytes, entries } = self.request(batch, progress).await?;
        if entries.is_empty() {
            return Ok(());
        }
        self.copy.mark_sent(&entries.iter().map(|(entry, ..)| entry.number).collect::<Vec<_>>())?;
        let counter = self.api.counter();
        let (before, length) = (counter.count(), bytes.len() as u64);
        let (answers, sent) = self.collect_answers(&entries, bytes).await?;
        let mut overhead = counter.count().since(before);
        overhead.sent = overhead.sent.saturating_sub(sent);
        let overhead = share(overhead, entries.len() as u64);
        for ((entry, mut traffic, bytes), answer) in entries.into_iter().zip(answers) {
            traffic += overhead;
            traffic.sent += on_the_wire(bytes, sent, length);
            match answer {
                Some(answer) => self.take(&entry, answer, traffic, progress, report).await?,
                None => drop(try_again(progress, entry.number)),
            }
        }
        Ok(())
    }

    /// The request of a batch. An entry that lacks a content is left out, and so is what waits for it.
    async fn request(&mut self, batch: Vec<LogEntry>, progress: &mut Progress) -> Result<Request, ClientError> {
        let counter = self.api.counter();
        let (mut request, mut out) = (Request::default(), BTreeSet::new());
        for entry in batch {
            // Contents and lists may make a request much larger than its entries: the rest goes into the next one.
            if request.bytes.len() >= REQUEST_BYTES {
                break;
            }
            if entry.waits.iter().any(|wait| out.contains(wait)) {
                out.insert(entry.sequence);
                continue;
            }
            progress.started.entry(entry.number).or_insert_with(Instant::now);
            let (before, start) = (counter.count(), request.bytes.len());
            let parts = match self.parts_of(&entry, progress, start).await {
                Err(error) if concerns_entry(&error) => {
                    out.insert(entry.sequence);
                    progress.lacking.insert(entry.number, error);
                    continue;
                }
                parts => parts?,
            };
            self.encode(&entry, parts)?.encode_into(&mut request.bytes);
            let bytes = (request.bytes.len() - start) as u64;
            request.entries.push((entry, counter.count().since(before), bytes));
        }
        Ok(request)
    }

    /// The parts that go with an entry into a request of `length` bytes so far.
    async fn parts_of(
        &mut self,
        entry: &LogEntry,
        progress: &Progress,
        length: usize,
    ) -> Result<Vec<Part>, ClientError> {
        let again = progress.asked.contains(&Hash::of(&entry.body));
        let first = if again { Vec::new() } else { self.first_parts(entry, length).await? };
        if progress.lists.contains(&entry.number) || again && entry.kind == BodyKind::Value {
            return Ok(merge(first, self.list_parts(entry).await?));
        }
        Ok(first)
    }

    /// Sends a request; gives the answer to each of its entries, and the bytes that its body took on the wire.
    async fn collect_answers(
        &mut self,
        batch: &[(LogEntry, Traffic, u64)],
        request: Vec<u8>,
    ) -> Result<(Vec<Option<Answer>>, u64), ClientError> {
        let mut by_sequence = BTreeMap::new();
        let mut answers = self.api.ship(request).await?;
        while let Some(answer) = answers.next().await? {
            if answer.sequence == 0 {
                let detail = answer.detail.unwrap_or_else(|| "the request was refused".to_owned());
                return Err(ClientError::Protocol { detail });
            }
            self.progress.step("shipping entries", by_sequence.len() as u64 + 1, batch.len() as u64);
            by_sequence.insert(answer.sequence, answer);
        }
        let in_order = batch.iter().map(|(entry, ..)| by_sequence.remove(&entry.sequence)).collect();
        Ok((in_order, answers.sent()))
    }

    fn encode(&self, entry: &LogEntry, parts: Vec<Part>) -> Result<Entry, ClientError> {
        let body = Body::decode(entry.kind, &entry.body)?;
        Ok(Entry::new(entry.client, entry.sequence, &entry.waits, body, parts))
    }

    /// Acts on an answer.
    async fn take(
        &mut self,
        entry: &LogEntry,
        mut answer: Answer,
        traffic: Traffic,
        progress: &mut Progress,
        report: &mut SyncReport,
    ) -> Result<(), ClientError> {
        let counter = self.api.counter();
        let before = counter.count();
        while answer.status == Status::Accepted {
            self.progress.step("waiting for a long replay", 0, 0);
            let location = answer.location.clone().unwrap_or_default();
            match self.api.poll(&location, POLL_SECONDS).await? {
                Some(next) => answer = next,
                None => return Err(ClientError::Protocol { detail: "no answer at an entry's address".to_owned() }),
            }
        }
        match answer.status {
            Status::Ended | Status::Accepted => {}
            Status::Parked if self.waits_for_unended(&answer)? => {
                // It came before one that the server still wants something for; that one goes first.
                self.copy.mark_not_held(entry.number)?;
                try_again(progress, entry.number);
                return Ok(());
            }
            Status::Parked => drop(progress.left.insert(entry.number)),
            Status::Needs => {
                let needs = answer.needs.clone().unwrap_or_default();
                if needs.iter().any(|need| matches!(need, Need::Lists | Need::Values)) {
                    progress.lists.insert(entry.number);
                }
                if let Some(detail) = self.too_dear(entry, &needs)? {
                    progress.left.insert(entry.number);
                    let answer = Answer { detail: Some(detail), ..answer.clone() };
                    self.copy.mark_answer(entry.number, &answer, traffic)?;
                    return self.report(entry, &answer, progress, report);
                }
                match self.satisfy(entry, &needs).await {
                    Err(error) if concerns_entry(&error) => drop(progress.lacking.insert(entry.number, error)),
                    result => {
                        result?;
                        progress.asked.insert(Hash::of(&entry.body));
                    }
                }
                try_again(progress, entry.number);
            }
            Status::Failed => drop(try_again(progress, entry.number)),
            Status::Forked => {
                self.copy.set_forked()?;
                self.leave_forked_identity().await?;
                return Ok(());
            }
        }
        let mut traffic = traffic;
        traffic += counter.count().since(before);
        self.copy.mark_answer(entry.number, &answer, traffic)?;
        if answer.verdict.is_some_and(Verdict::is_final_for_client) && changes_something(entry)? {
            self.own_versions.extend(answer.version);
            self.ahead.extend(self.copy.lists(entry.number)?.changes.into_iter().map(|change| change.path));
        }
        if answer.status != Status::Needs {
            self.report(entry, &answer, progress, report)?;
        }
        Ok(())
    }

    /// Does a parked entry wait for one that has not ended here, and so is going to be sent again?
    fn waits_for_unended(&self, answer: &Answer) -> Result<bool, ClientError> {
        let waits = answer.waits.as_deref().unwrap_or_default();
        Ok(self.copy.pending()?.iter().any(|entry| waits.contains(&entry.sequence)))
    }

    fn report(
        &self,
        entry: &LogEntry,
        answer: &Answer,
        progress: &Progress,
        report: &mut SyncReport,
    ) -> Result<(), ClientError> {
        // As the log has it now, with the traffic of all requests.
        let stored = self.copy.entry(entry.number)?;
        let seconds = progress.started.get(&entry.number).map_or(0.0, |start| start.elapsed().as_secs_f64());
        report.entries.retain(|known| known.number != entry.number);
        report.entries.push(EntryReport {
            number: entry.number,
            kind: entry.kind,
            command: entry.command.clone(),
            verdict: answer.verdict,
            reason: answer.reason,
            detail: answer.detail.clone(),
            parked: answer.status == Status::Parked,
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
        let mut keys = Vec::new();
        for entry in &unanswered {
            keys.push((entry.client, entry.sequence, Body::decode(entry.kind, &entry.body)?.id()));
        }
        let states = if keys.is_empty() { Vec::new() } else { self.api.entry_states(&keys).await? };
        let moving: Vec<u64> =
            unanswered.iter().zip(states).filter(|(_, s)| *s != HeldState::Same).map(|(e, _)| e.number).collect();
        self.copy.move_to_new_client(&moving)?;
        Ok(())
    }
}

/// Does the entry change the tree, so that it makes a version?
fn changes_something(entry: &LogEntry) -> Result<bool, ClientError> {
    Ok(match Body::decode(entry.kind, &entry.body)? {
        Body::Operation(record) => record.content.is_some(),
        Body::Value(value) => value.count > 0,
    })
}

/// Is this the trouble of one entry, so that others can go on?
fn concerns_entry(error: &ClientError) -> bool {
    matches!(error, ClientError::Changed { .. } | ClientError::Read { .. })
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
fn share(traffic: Traffic, entries: u64) -> Traffic {
    Traffic { sent: traffic.sent.div_ceil(entries.max(1)), received: traffic.received.div_ceil(entries.max(1)) }
}

/// An entry's share of a request's body, `sent` bytes on the wire and `length` before it was compressed.
fn on_the_wire(bytes: u64, sent: u64, length: u64) -> u64 {
    let share = (u128::from(bytes) * u128::from(sent)).div_ceil(u128::from(length.max(1)));
    u64::try_from(share).unwrap_or(bytes)
}
