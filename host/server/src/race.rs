//! The value of an operation that comes while its replay is under way: whichever is first ends the entry.
//!
//! The work on an entry is done by one task, which looks at what comes for it between the steps of the replay. So there is
//! one decision, and one commit. A value counts only where nothing is left to decide: all its contents are here, all that the
//! run saw and overwrote still stands, and the workspace takes it. In every other case the replay goes on, and its verdict is what it would have been.

use crate::lists::{Halt, Parts, Sent};
use crate::policy::refusal;
use crate::shares::Reserved;
use crate::ship::{Closing, Context, End, Origin, Standing, standing, try_end};
use crate::state::blocking;
use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_record::record::Record;
use opship_storage::Ending;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// What came with an entry that is being worked on.
pub(crate) struct Offer {
    parts: Parts,
    /// Bytes that it took in its request.
    received: u64,
    /// What the parts take of the server's memory, for as long as they are held.
    _memory: Arc<Reserved>,
}

/// The newest offer that was not looked at yet. One that comes later says the same or more.
#[derive(Default)]
pub(crate) struct Offers {
    newest: Mutex<Option<Offer>>,
    came: Notify,
}

impl Offer {
    pub(crate) fn new(parts: Parts, received: u64, memory: Arc<Reserved>) -> Offer {
        Offer { parts, received, _memory: memory }
    }
}

impl Offers {
    /// Leaves an offer for whoever works on the entry.
    pub(crate) fn put(&self, offer: Offer) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
        self.came.notify_one();
    }

    /// Waits for an offer.
    async fn next(&self) -> Offer {
        loop {
            let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(offer) = newest {
                return offer;
            }
            self.came.notified().await;
        }
    }
}

/// What `replay` gives, or the answer if a value ended the entry before: then the replay is told to stop.
pub(crate) async fn unless_value_comes<T>(
    context: &Arc<Context>,
    record: &Arc<Record>,
    replay: impl Future<Output = T>,
) -> Result<T, Answer> {
    let mut replay = pin!(replay);
    loop {
        tokio::select! {
            biased;
            replayed = &mut replay => return Ok(replayed),
            offer = context.offers.next() => {
                if let Some(answer) = accept(context, record, offer).await {
                    context.over.store(true, Ordering::Relaxed);
                    return Err(answer);
                }
            }
        }
    }
}

/// Ends the entry by its value. `None`: it cannot be, and nothing was changed.
async fn accept(context: &Arc<Context>, record: &Arc<Record>, offer: Offer) -> Option<Answer> {
    let (own, record) = (Arc::clone(context), Arc::clone(record));
    let weighed = blocking(move || weigh(&own, &record, &offer)).await;
    let closing = match weighed {
        Ok(Ok(closing)) => closing?,
        Ok(Err(halt)) => {
            tracing::debug!(?halt, "a value came that does not end its entry");
            return None;
        }
        Err(_) => return None,
    };
    opship_engine::failpoint::hit("server-value-came");
    match try_end(context, closing).await {
        End::Answered(answer) if answer.status == Status::Ended => Some(answer),
        End::Answered(_) | End::Stale(..) => None,
    }
}

/// The ending by value, if all that it takes is here and holds.
fn weigh(context: &Context, record: &Record, offer: &Offer) -> Result<Option<Closing>, Halt> {
    let Context { state, scope, .. } = context;
    let lists = offer.parts.lists(state, scope, record, None)?;
    let is_refused = refusal(context, &lists.changes)?.is_some();
    if is_refused || !matches!(standing(context, &lists)?, Standing::Holds) {
        return Ok(None);
    }
    let sent = Sent::new(state, scope, &offer.parts, lists, None)?;
    if !sent.lacking.is_empty() {
        offer.parts.keep(state, scope)?;
        return Ok(None);
    }
    let ending = context.ending(Verdict::Shipped);
    let ending = Ending {
        reason: Some(Reason::ReplaySlow),
        detail: Some("its value came before its replay ended".to_owned()),
        received_bytes: ending.received_bytes + offer.received,
        ..ending
    };
    Ok(Some(Closing { pinned: sent.pinned.clone(), origin: Origin::Sent(Arc::new(sent)), ending, based_on: None }))
}
