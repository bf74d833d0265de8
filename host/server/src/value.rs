//! How a value is decided.

use crate::lists::{Halt, Parts, Sent};
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
        Ok(Ok(closing)) => end(context, closing).await,
        Ok(Err(halt)) => halted(context, halt),
        Err(problem) => halted(context, Halt::Failed(problem.detail().to_owned())),
    }
}

fn weigh(context: &Context, value: &Value, parts: &Parts) -> Result<Closing, Halt> {
    let weighed = parts
        .changes(&context.state, &context.scope, value)
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
    Ok(Closing { pinned: sent.pinned.clone(), origin: Origin::Sent(Arc::new(sent)), ending, based_on: None })
}
