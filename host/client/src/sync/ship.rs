//! Shipping: ready entries in requests, answers as they come, what the server needs, until nothing moves.

use super::report::{EntryReport, SyncReport};
use super::{Sync, value_cost};
use crate::ClientError;
use crate::log::{LogEntry, Traffic};
use crate::net::HeldState;
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
    /// Entries that this sync leaves alone from here on.
    left: BTreeSet<u64>,
}

impl Sync<'_> {
    /// Ships until no entry is ready any more.
    pub(super) async fn ship(&mut self, report: &mut SyncReport) -> Result<(), ClientError> {
        let mut progress = Progress::default();
        loop {
            let batch = self.next_batch(&progress)?;
            if batch.is_empty() {
                return Ok(());
            }
            match self.ship_batch(&batch, &mut progress, report).await {
                // A file changed under a value entry: the scan rewrites it, then it is ready again.
                Err(ClientError::Changed { .. }) if batch.iter().all(|e| try_again(&mut progress, e.number)) => {
                    self.copy.append_changes()?;
                }
                result => result?,
            }
        }
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
        batch: &[LogEntry],
        progress: &mut Progress,
        report: &mut SyncReport,
    ) -> Result<(), ClientError> {
        let counter = self.api.counter();
        let mut request = Vec::new();
        let mut own = Vec::new();
        for entry in batch {
            progress.started.entry(entry.number).or_insert_with(Instant::now);
            let (before, start) = (counter.count(), request.len());
            let mut parts = self.first_parts(entry).await?;
            if progress.lists.contains(&entry.number) {
                parts = merge(parts, self.list_parts(entry).await?);
            }
            self.encode(entry, parts)?.encode_into(&mut request);
            let mut traffic = counter.count().since(before);
            traffic.sent += (request.len() - start) as u64;
            own.push(traffic);
        }
        self.copy.mark_sent(&batch.iter().map(|entry| entry.number).collect::<Vec<_>>())?;
        let (before, length) = (counter.count(), request.len() as u64);
        let answers = self.collect_answers(batch, request).await?;
        let mut overhead = counter.count().since(before);
        overhead.sent = overhead.sent.saturating_sub(length);
        let overhead = share(overhead, batch.len() as u64);
        for ((entry, mut traffic), answer) in batch.iter().zip(own).zip(answers) {
            traffic += overhead;
            match answer {
                Some(answer) => self.take(entry, answer, traffic, progress, report).await?,
                None => drop(try_again(progress, entry.number)),
            }
        }
        Ok(())
    }

    /// Sends a request and gives the answer to each entry of the batch.
    async fn collect_answers(
        &mut self,
        batch: &[LogEntry],
        request: Vec<u8>,
    ) -> Result<Vec<Option<Answer>>, ClientError> {
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
        Ok(batch.iter().map(|entry| by_sequence.remove(&entry.sequence)).collect())
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
                try_again(progress, entry.number);
                return Ok(());
            }
            Status::Parked => drop(progress.left.insert(entry.number)),
            Status::Needs => {
                let needs = answer.needs.clone().unwrap_or_default();
                if needs.iter().any(|need| matches!(need, Need::Lists | Need::Values)) {
                    progress.lists.insert(entry.number);
                }
                self.satisfy(entry, &needs).await?;
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
        Body::Value(_) => true,
    })
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
