//! `opship log`, `show` and `why`.

use super::{entries, here, wait};
use crate::args::{Log, Show, Why};
use crate::output;
use opship_client::native::NativeNote;
use opship_client::net::OriginInfo;
use opship_client::sync::api_for;
use opship_client::{ClientError, LogEntry, WorkingCopy};
use opship_record::TreePath;
use opship_record::answer::Reason;
use opship_record::effect::{After, Change};
use opship_record::entry::{Body, BodyKind};
use opship_record::observation::Observation;
use opship_record::record::Lists;
use serde_json::json;
use std::path::Path;

pub(super) fn log(arguments: &Log, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let found = copy.entries(None, arguments.limit)?;
    if json {
        let maker = entries::maker(&copy)?;
        let shown: Vec<_> = found.iter().map(|entry| maker.sign(entries::as_json(entry))).collect();
        output::json(&json!({ "entries": shown }));
        return Ok(());
    }
    let heading = ["#", "kind", "verdict", "reason", "sent / received", "entry"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|entry| {
        vec![
            entry.number.to_string(),
            entries::kind(entry.kind).to_owned(),
            entries::standing(entry).to_owned(),
            entries::reason(entry).map(Reason::name).unwrap_or_default().to_owned(),
            entries::traffic(entry.sent_bytes, entry.received_bytes),
            entry.command.clone(),
        ]
    }));
    output::table(&rows, &[0, 4]);
    Ok(())
}

pub(super) fn show(arguments: &Show, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let entry = copy.entry(arguments.entry)?;
    let lists = copy.lists(entry.number)?;
    if json {
        let mut value = entries::maker(&copy)?.sign(entries::as_json(&entry));
        value["record_bytes"] = json!(entry.body.len());
        value["observations"] = json!(lists.observations.iter().map(observation).collect::<Vec<_>>());
        value["changes"] = json!(
            lists.changes.iter().map(|c| json!({ "path": c.path.as_str(), "after": change(c) })).collect::<Vec<_>>()
        );
        value["exits"] = json!(lists.exits);
        value["native"] = json!(is_native(&entry)?);
        value["native_runs"] = json!(native_runs(&copy, entry.number)?);
        output::json(&value);
        return Ok(());
    }
    print_entry(&entry, &lists, &entries::maker(&copy)?)?;
    print_native_runs(&copy, entry.number)
}

/// Is it the operation of a program of the user's own?
fn is_native(entry: &LogEntry) -> Result<bool, ClientError> {
    Ok(matches!(Body::decode(entry.kind, &entry.body)?, Body::Operation(record) if record.is_native()))
}

/// The native runs whose results an entry has by value.
fn native_runs(copy: &WorkingCopy, number: u64) -> Result<Vec<serde_json::Value>, ClientError> {
    let notes = copy.native_notes(number)?.into_iter();
    let shown =
        |note: NativeNote| json!({ "command": note.command, "reason": note.reason.name(), "detail": note.detail });
    Ok(notes.map(shown).collect())
}

fn print_native_runs(copy: &WorkingCopy, number: u64) -> Result<(), ClientError> {
    for NativeNote { command, reason, detail } in copy.native_notes(number)? {
        output::line(&format!("  '{}' ran here and went by value: {reason}", output::name(&command)));
        output::line(&format!("    {}", output::name(&detail)));
    }
    Ok(())
}

fn print_entry(entry: &LogEntry, lists: &Lists, maker: &entries::Maker) -> Result<(), ClientError> {
    output::line(&format!("entry {}: {}", entry.number, output::name(&entry.command)));
    output::line(&format!("  by {maker}"));
    output::line(&format!(
        "  {}, {} bytes on the wire, {}",
        entries::kind(entry.kind),
        entry.body.len(),
        entries::standing(entry)
    ));
    if let Some(reason) = entries::reason(entry) {
        output::line(&format!("  reason: {reason}; next: {}", reason.next_step()));
    }
    if let Some(outcome) = entries::outcome(entry) {
        output::line(&format!("  {outcome}"));
    }
    if let Body::Operation(record) = Body::decode(entry.kind, &entry.body)? {
        if record.is_native() {
            output::line("  a program of this machine ran in the module's place");
        }
        for (step, exit) in record.plan.steps.iter().zip(&lists.exits) {
            output::line(&format!("  module {}, exit code {exit}", step.module.short()));
        }
    }
    let answer = entry.answer.as_ref();
    if let Some(detail) = answer.and_then(|answer| answer.detail.as_deref()) {
        output::line(&format!("  {}", output::name(detail)));
    }
    for difference in answer.and_then(|answer| answer.report.as_deref()).unwrap_or_default() {
        output::line(&format!("  {}", entries::difference(difference)));
    }
    for seen in &lists.observations {
        output::line(&format!("  saw   {}", output::name(&observation(seen))));
    }
    for done in &lists.changes {
        output::line(&format!("  did   {}: {}", output::name(&done.path.to_string()), change(done)));
    }
    Ok(())
}

fn observation(observation: &Observation) -> String {
    match observation {
        Observation::Content { path, hash } => format!("content of {path} ({})", hash.short()),
        Observation::Metadata { path, .. } => format!("metadata of {path}"),
        Observation::Absent { path, .. } => format!("{path} is not there"),
        Observation::Listing { path, .. } => format!("names in {path}"),
        Observation::LinkTarget { path, .. } => format!("target of {path}"),
        Observation::Exists { path, kind } => format!("{path} is a {}", kind.name()),
    }
}

fn change(change: &Change) -> String {
    match &change.after {
        After::Removed => "removed".to_owned(),
        After::File { length, hash, .. } => format!("file of {length} bytes ({})", hash.short()),
        After::Directory { .. } => "directory".to_owned(),
        After::Symlink { target, .. } => format!("link to {}", output::name(&String::from_utf8_lossy(target))),
        After::Moved { from, .. } => format!("moved from {from}"),
        After::Metadata { .. } => "mode or time".to_owned(),
    }
}

pub(super) fn why(arguments: &Why, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let path = inside(&copy, &arguments.path)?;
    let origin = copy.origin(&path)?;
    let Some(origin) = origin else {
        return Err(ClientError::Refused(format!("'{path}' is in no recorded state yet; 'opship status' tells why")));
    };
    let entry = origin.entry.map(|number| copy.entry(number)).transpose()?;
    let maker = entries::maker(&copy)?;
    let others = match entry {
        Some(_) => None,
        // Without the server it is known only that it was another.
        None => wait(async { api_for(&copy)?.origin(&path).await }).ok().flatten(),
    };
    if json {
        output::json(&json!({
            "made_by": others,
            "path": path.as_str(),
            "hash": origin.hash.map(|hash| hash.to_string()),
            "synced": origin.synced,
            "entry": entry.as_ref().map(|entry| maker.sign(entries::as_json(entry))),
            "native_runs": native_runs(&copy, origin.entry.unwrap_or(0))?,
        }));
        return Ok(());
    }
    let shown = output::name(path.as_str());
    let Some(entry) = entry else {
        output::line(&format!("{shown} came from the server: {}", others.as_ref().map_or_else(another, made_by)));
        return Ok(());
    };
    output::line(&format!("{shown} was made by entry {}: {}", entry.number, output::name(&entry.command)));
    output::line(&format!("  by {maker}"));
    output::line(&format!("  {}", how_it_travelled(&entry)));
    if let Some(reason) = entries::reason(&entry) {
        output::line(&format!("  because: {reason}; next: {}", reason.next_step()));
    }
    print_native_runs(&copy, entry.number)
}

fn another() -> String {
    "another client made it".to_owned()
}

fn made_by(origin: &OriginInfo) -> String {
    let author = origin.author_name.as_deref().unwrap_or("somebody");
    let on = origin.client_name.as_deref().map(|client| format!(" on {client}")).unwrap_or_default();
    output::name(&format!("{author}{on} made it, in version {}", origin.number))
}

fn how_it_travelled(entry: &LogEntry) -> String {
    let traffic = entries::traffic(entry.sent_bytes, entry.received_bytes);
    match (entries::standing(entry), entry.kind) {
        ("matched", _) => format!("matched: the operation travelled ({traffic}), the server made the same bytes"),
        (standing, BodyKind::Value) => format!("{standing}: it travelled as a value ({traffic})"),
        (standing, BodyKind::Operation) => format!("{standing} ({traffic})"),
    }
}

/// A path of the command line as a path in the tree.
pub(super) fn inside(copy: &WorkingCopy, path: &Path) -> Result<TreePath, ClientError> {
    use std::os::unix::ffi::OsStrExt;
    let absolute = std::path::absolute(path).map_err(ClientError::io("finding the path"))?;
    let mut clean = std::path::PathBuf::new();
    for component in absolute.components() {
        match component {
            std::path::Component::ParentDir => drop(clean.pop()),
            component => clean.push(component),
        }
    }
    let refused =
        || ClientError::Refused(format!("'{}' is not in the working copy {}", path.display(), copy.path().display()));
    let below = clean.strip_prefix(copy.path()).map_err(|_| refused())?;
    TreePath::from_bytes(below.as_os_str().as_bytes()).map_err(|error| ClientError::Refused(error.to_string()))
}
