//! Entries of the log for people and as JSON.

use crate::output::{bytes, name, printable};
use opship_client::{ClientError, Cost, LogEntry, Prediction, WorkingCopy};
use opship_record::answer::{Answer, Difference, Reason, Verdict};
use opship_record::entry::BodyKind;
use serde_json::{Value, json};
use std::fmt;

/// Who makes the entries of a working copy.
pub(super) struct Maker {
    client: String,
    /// Known once the server has been told of the client.
    author: Option<String>,
}

/// Who makes the entries of this working copy.
pub(super) fn maker(copy: &WorkingCopy) -> Result<Maker, ClientError> {
    Ok(Maker { client: copy.client_name()?, author: copy.author_name()? })
}

impl Maker {
    /// Adds the names to an entry.
    pub(super) fn sign(&self, mut entry: Value) -> Value {
        entry["author_name"] = json!(self.author);
        entry["client_name"] = json!(self.client);
        entry
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.author {
            Some(author) => write!(f, "{} on {}", name(author), name(&self.client)),
            None => write!(f, "you on {}", name(&self.client)),
        }
    }
}

/// `operation` or `value`.
pub(super) fn kind(kind: BodyKind) -> &'static str {
    match kind {
        BodyKind::Operation => "operation",
        BodyKind::Value => "value",
    }
}

/// How an entry stands, in a word.
pub(super) fn standing(entry: &LogEntry) -> &'static str {
    match entry.verdict() {
        Some(verdict) => verdict.name(),
        None if entry.is_parked() => "parked",
        None => entry.state.name(),
    }
}

/// What an entry left to decide, and how.
pub(super) fn undecided(entry: &LogEntry) -> String {
    let (number, command) = (entry.number, &entry.command);
    if entry.verdict() == Some(Verdict::Rebased) {
        return format!(
            "entry {number} ({command}) was run again on what others had changed, and that result is here; 'opship undo \
             {number}' brings your own back, 'opship resolve' settles it"
        );
    }
    format!(
        "entry {number} ({command}) met another's change; 'opship conflicts' lists both states, 'opship resolve' settles it"
    )
}

/// The reason why an entry is not `matched`.
pub(super) fn reason(entry: &LogEntry) -> Option<Reason> {
    entry.answer.as_ref().and_then(|answer| answer.reason)
}

/// An entry as JSON.
pub(super) fn as_json(entry: &LogEntry) -> Value {
    let answer = entry.answer.as_ref();
    json!({
        "number": entry.number,
        "sequence": entry.sequence,
        "client": entry.client.to_string(),
        "kind": kind(entry.kind),
        "command": entry.command,
        "state": entry.state.name(),
        "verdict": entry.verdict().map(|verdict| verdict.name()),
        "reason": reason(entry).map(Reason::name),
        "detail": answer.and_then(|answer| answer.detail.clone()),
        "version": answer.and_then(|answer| answer.version),
        "parked": entry.is_parked(),
        "waits": entry.waits,
        "sent": entry.sent_bytes,
        "received": entry.received_bytes,
        "value_bytes": entry.value_bytes,
        "replay_micros": answer.and_then(|answer| answer.replay_micros),
        "report": answer.and_then(report).unwrap_or_default(),
        "created": entry.created,
        "ended": entry.ended,
        "run_micros": entry.run_micros,
        "prediction": entry.prediction.as_ref().map(prediction),
        "shipped_micros": entry.shipped_micros,
    })
}

fn prediction(prediction: &Prediction) -> Value {
    let cost = |cost: &Cost| json!({ "bytes": cost.bytes, "micros": cost.micros });
    json!({
        "way": if prediction.by_value { "value" } else { "operation" },
        "operation": cost(&prediction.operation),
        "value": cost(&prediction.value),
    })
}

/// What was predicted for an entry, and what came of it, in words.
pub(super) fn outcome(entry: &LogEntry) -> Option<String> {
    let prediction = entry.prediction.as_ref()?;
    let seconds = |micros: u64| format!("{:.2} s", micros as f64 / 1e6);
    let cost = |cost: &Cost| format!("{} in {}", bytes(cost.bytes), seconds(cost.micros));
    let chosen = if prediction.by_value { "its results" } else { "the operation" };
    let took = entry
        .shipped_micros
        .map(|micros| format!("; it took {} in {}", bytes(entry.sent_bytes + entry.received_bytes), seconds(micros)));
    let (operation, value) = (cost(&prediction.operation), cost(&prediction.value));
    let took = took.unwrap_or_default();
    Some(format!("predicted: {operation} by the operation, {value} by its results; {chosen} travelled{took}"))
}

fn report(answer: &Answer) -> Option<Vec<Value>> {
    Some(answer.report.as_ref()?.iter().map(difference_json).collect())
}

fn difference_json(difference: &Difference) -> Value {
    json!({
        "aspect": difference.aspect.name(),
        "path": difference.path.as_ref().map(|path| path.as_str()),
        "step": difference.step,
        "recorded": difference.recorded.map(|hash| hash.to_string()),
        "replayed": difference.replayed.map(|hash| hash.to_string()),
        "recorded_length": difference.recorded_length,
        "replayed_length": difference.replayed_length,
        "offset": difference.offset,
    })
}

/// One difference between record and replay, in words.
pub(super) fn difference(difference: &Difference) -> String {
    let at = match (&difference.path, difference.step) {
        (Some(path), _) => path.to_string(),
        (None, Some(step)) => format!("step {}", step + 1),
        (None, None) => String::new(),
    };
    let hash = |hash: &Option<opship_record::Hash>| hash.map_or("nothing".to_owned(), |hash| hash.short());
    let length = |length: Option<u64>| length.map(|length| format!(" ({length})")).unwrap_or_default();
    let offset = difference.offset.map(|offset| format!(", first at byte {offset}")).unwrap_or_default();
    printable(&format!(
        "{at}: {} differs: recorded {}{}, replayed {}{}{offset}",
        difference.aspect.name(),
        hash(&difference.recorded),
        length(difference.recorded_length),
        hash(&difference.replayed),
        length(difference.replayed_length),
    ))
}

/// Both directions in one cell.
pub(super) fn traffic(sent: u64, received: u64) -> String {
    format!("{} / {}", bytes(sent), bytes(received))
}
