//! What a workspace does not take in, whoever brings it.

use crate::decide::difference;
use crate::lists::Halt;
use crate::ship::{Context, ended};
use opship_record::answer::{Answer, Aspect, Difference, Reason, Verdict};
use opship_record::effect::Change;
use opship_record::record::Lists;
use opship_storage::{Ending, Finish, Setting};
use std::sync::Arc;

/// Most paths that a refusal names.
const MAX_NAMED: usize = 1000;

/// Why changes are refused.
pub(crate) struct Refusal {
    /// For people.
    detail: String,
    /// The paths, so that the client holds back these alone.
    report: Vec<Difference>,
}

impl Refusal {
    /// The same, with what came before it.
    pub(crate) fn after(self, before: &str) -> Refusal {
        Refusal { detail: format!("{before}, and on that: {}", self.detail), ..self }
    }
}

/// Is there a file that some workspace may refuse? Of most entries this tells without asking the store.
pub(crate) fn may_be_refused(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.after.blob().is_some_and(|(length, _)| length > Setting::LEAST_LARGEST))
}

/// Why these changes are refused; `None`: they are not.
pub(crate) fn refusal(context: &Context, changes: &[Change]) -> Result<Option<Refusal>, Halt> {
    if !may_be_refused(changes) {
        return Ok(None);
    }
    let files = || changes.iter().filter_map(|change| Some((change.after.blob()?.0, &change.path)));
    let Some(largest) = context.state.store.settings(&context.scope)?.largest_file else { return Ok(None) };
    let refused = || files().filter(|(length, _)| *length > largest);
    let Some((length, path)) = refused().next() else { return Ok(None) };
    let others = match refused().count() - 1 {
        0 => String::new(),
        count => format!(", and {count} more are too large as well"),
    };
    let detail = format!(
        "'{path}' has {length} bytes, and this workspace takes files of up to {largest} (its setting \
         'largest-file'){others}; make it smaller, ignore it, or ask an administrator of the workspace"
    );
    let named = |(length, path): (u64, &opship_record::TreePath)| Difference {
        path: Some(path.clone()),
        recorded_length: Some(length),
        ..difference(Aspect::Content)
    };
    Ok(Some(Refusal { detail, report: refused().take(MAX_NAMED).map(named).collect() }))
}

/// Ends an entry as `rejected`: nothing of it is kept but its lists.
pub(crate) async fn reject(context: &Arc<Context>, lists: Lists, refusal: Refusal) -> Answer {
    let Refusal { detail, report } = refusal;
    let mut ending =
        Ending { reason: Some(Reason::Policy), detail: Some(detail), report, ..context.ending(Verdict::Rejected) };
    ending.sent_bytes = context.answer_bytes(&ending);
    let (envelope, body) = (context.envelope.clone(), context.body.clone());
    let finish = Finish { envelope, body, lists, small_blobs: Vec::new(), pinned: Vec::new(), ending };
    let finished = context.state.store.finish_async(&context.scope, finish).await;
    ended(context, finished)
}
