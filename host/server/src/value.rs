//! How a value is decided.

use crate::lists::{Halt, Parts, Sent};
use crate::policy::{Refusal, refusal, reject};
use crate::ship::{Closing, Context, Origin, end, halted};
use crate::state::blocking;
use opship_record::answer::{Answer, Reason, Verdict};
use opship_record::entry::Value;
use opship_record::record::Lists;
use opship_storage::Ending;
use std::sync::Arc;

/// Decides a value and says the answer.
pub(crate) async fn decide(context: &Arc<Context>, value: Value, parts: Parts) -> Answer {
    let own = Arc::clone(context);
    match blocking(move || weigh(&own, &value, &parts)).await {
        Ok(Ok(Weighed::Ship(closing))) => end(context, closing).await,
        Ok(Ok(Weighed::Refused(lists, refusal))) => reject(context, lists, refusal).await,
        Ok(Err(halt)) => halted(context, halt),
        Err(problem) => halted(context, Halt::Failed(problem.detail().to_owned())),
    }
}

enum Weighed {
    Ship(Closing),
    Refused(Lists, Refusal),
}

fn weigh(context: &Context, value: &Value, parts: &Parts) -> Result<Weighed, Halt> {
    let listed = parts.changes(&context.state, &context.scope, value);
    // Before any content is asked for.
    if let Ok(changes) = &listed
        && let Some(refusal) = refusal(context, changes)?
    {
        return Ok(Weighed::Refused(Lists { changes: changes.clone(), ..Lists::default() }, refusal));
    }
    let weighed = listed
        .and_then(|changes| {
            Sent::new(&context.state, &context.scope, parts, Lists { changes, ..Lists::default() }, None)
        })
        .and_then(|sent| if sent.lacking.is_empty() { Ok(sent) } else { Err(Halt::Needs(sent.needs())) });
    if matches!(weighed, Err(Halt::Needs(_))) {
        parts.keep(&context.state, &context.scope)?;
    }
    let sent = weighed?;
    let ending =
        Ending { reason: Some(value.reason.unwrap_or(Reason::NoOperation)), ..context.ending(Verdict::Shipped) };
    let pinned = sent.pinned.clone();
    Ok(Weighed::Ship(Closing { pinned, origin: Origin::Sent(Arc::new(sent)), ending, based_on: None }))
}
