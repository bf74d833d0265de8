//! Where a replay takes longer than an operation's results would, they go too, and whichever is first ends the entry
//! (DESIGN.md §5, Cost model).
//!
//! When the server has them all, the entry goes again with its lists. That can happen at any time: the server decides an
//! entry once, and a server that knows nothing of this gives the answer of its replay.

use super::Sync;
use super::choose;
use super::parcels;
use super::parts::Content;
use super::ship::Shipping;
use super::under_way::{Sent, Told};
use crate::ClientError;
use crate::budget::Link;
use crate::choice::{Measured, Ship};
use crate::log::LogEntry;
use crate::net::DocumentName;
use opship_engine::failpoint;
use opship_record::answer::{Need, Status};
use opship_record::entry::Body;
use std::time::Duration;
use tokio::time::Instant;

/// An operation whose results may go beside its replay.
pub(super) struct Runner {
    pub(super) entry: LogEntry,
    pub(super) patience: Duration,
    /// When they do, unless something comes before.
    pub(super) due: Instant,
}

impl Sync<'_> {
    /// The operations of a request whose results may go beside their replays; the request may take `arriving` to arrive. Where
    /// bytes count none does, nor while another upload stands still for this request.
    pub(super) fn runners(
        &self,
        sent: &[Sent],
        link: Measured,
        arriving: Duration,
    ) -> Result<Vec<Runner>, ClientError> {
        let (mut runners, now) = (Vec::new(), Instant::now());
        if self.ship != Ship::Auto || self.link.as_ref().is_some_and(Link::counts_bytes) || self.is_holding() {
            return Ok(runners);
        }
        for Sent { entry, .. } in sent {
            let has_results = match Body::decode(entry.kind, &entry.body)? {
                Body::Operation(record) => record.content.is_some(),
                Body::Value(_) => false,
            };
            if has_results {
                let patience = choose::patience(entry, link);
                runners.push(Runner { entry: entry.clone(), patience, due: now + arriving + patience });
            }
        }
        Ok(runners)
    }

    /// Brings the results of an operation to the server while it is replayed, and offers them; unless the answer comes
    /// before, or they cannot be brought, and then the replay is what is waited for.
    pub(super) async fn race(&mut self, told: Told, runner: Runner, shipping: &mut Shipping<'_>) {
        let Runner { entry, .. } = runner;
        tracing::debug!(entry = entry.number, "a replay takes longer than the results would; they go too");
        let (counter, mut holding) = (self.api.counter(), self.holding.subscribe());
        let before = counter.count();
        let (asking, sequence) = (told.clone(), entry.sequence);
        let overtaken = async move {
            asking.answered(sequence).await;
            // What passes the upload is not broken off; and whoever holds it up is here, so that this does not close.
            let _ = holding.wait_for(|holding| !holding).await;
        };
        let brought = tokio::select! {
            biased;
            () = overtaken => None,
            brought = Box::pin(self.bring(&entry, shipping)) => Some(brought),
        };
        if brought.is_none() {
            // It may be in the midst of a request.
            self.api = self.api.beside();
        }
        if shipping.requests.status(&told, sequence) == Some(Status::Ended)
            && let Err(error) = self.drop_begun(&entry).await
        {
            tracing::debug!(%error, "what was uploaded in vain is left to the server");
        }
        shipping.requests.charge(counter.count().since(before), Some(entry.number));
        match brought {
            Some(Ok(Some(body))) => {
                let fresh = self.api.for_bulk();
                shipping.requests.offer(told, std::mem::replace(&mut self.api, fresh), body);
            }
            Some(Err(error)) => tracing::debug!(%error, "the results cannot go beside their replay"),
            Some(Ok(None)) | None => {}
        }
    }

    /// Uploads what the server lacks of an operation's results, and makes the request that offers them. `None`: the workspace
    /// does not take them.
    async fn bring(&mut self, entry: &LogEntry, shipping: &mut Shipping<'_>) -> Result<Option<Vec<u8>>, ClientError> {
        let results = self.results(entry)?;
        for (hash, _) in &results {
            self.content(hash)?;
        }
        if self.would_be_refused(&results).await? {
            return Ok(None);
        }
        self.satisfy(entry, &[Need::Values], shipping).await?;
        failpoint::hit("race-uploaded");
        let parts = self.list_parts(entry).await?;
        let mut request = Vec::new();
        self.encode(entry, parts)?.encode_into(&mut request);
        Ok(Some(request))
    }

    /// Nobody will go on with uploads that were begun for an entry: the server has made what they bring.
    async fn drop_begun(&mut self, entry: &LogEntry) -> Result<(), ClientError> {
        for (hash, _) in self.results(entry)? {
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
    fn results(&self, entry: &LogEntry) -> Result<Vec<Content>, ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        Ok(changes.iter().filter_map(|change| change.after.blob()).map(|(length, hash)| (hash, length)).collect())
    }
}
