//! `opship status`.

use super::{entries, here, link, watch};
use crate::output;
use opship_client::ClientError;
use opship_record::effect::{After, Before, Change};
use serde_json::json;

pub(super) fn status(json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let scan = copy.scan()?;
    let pending = copy.pending()?;
    let deferred = copy.deferred()?;
    let (version, _) = copy.base()?;
    let undecided = copy.undecided_entries()?;
    let watched = watch::standing(&copy)?;
    let link = link::shown(&copy);
    if json {
        let change = |change: &Change| json!({ "path": change.path.as_str(), "change": word(change) });
        output::json(&json!({
            "server": copy.config().server,
            "workspace": copy.config().workspace,
            "version": version,
            "watch": watched.as_json(),
            "link": link.as_json(&copy, &scan)?,
            "changes": scan.changes.iter().map(change).collect::<Vec<_>>(),
            "pending": pending.iter().map(entries::as_json).collect::<Vec<_>>(),
            "undecided": undecided.iter().map(entries::as_json).collect::<Vec<_>>(),
            "deferred": deferred.iter().map(|d| json!({ "path": d.path.as_str(), "reason": d.reason })).collect::<Vec<_>>(),
            "ignore_rules": scan.rule_troubles.iter().map(|t| json!({ "path": t.path.as_str(), "detail": t.detail })).collect::<Vec<_>>(),
            "unsupported": scan.unsupported.iter().map(|u| json!({ "path": u.path, "reason": u.reason })).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    output::line(&format!("workspace '{}' on {}, version {version}", copy.config().workspace, copy.config().server));
    watched.print();
    link.print()?;
    if !pending.is_empty() {
        output::line("waiting to be shipped:");
        let rows: Vec<_> = pending
            .iter()
            .map(|e| {
                vec![
                    format!("  {}", e.number),
                    entries::standing(e).to_owned(),
                    entries::kind(e.kind).to_owned(),
                    e.command.clone(),
                ]
            })
            .collect();
        output::table(&rows, &[0]);
        for entry in pending.iter().filter(|entry| entry.is_parked()) {
            let number = entry.number;
            output::note(&format!(
                "entry {number} is parked behind one that ended badly; 'opship drop {number}' keeps its results as ordinary files"
            ));
        }
    }
    if !scan.changes.is_empty() {
        output::line("changed by other means ('opship sync' ships these by value):");
        let rows: Vec<_> = scan.changes.iter().map(|c| vec![format!("  {}", word(c)), c.path.to_string()]).collect();
        output::table(&rows, &[]);
    }
    for entry in &undecided {
        output::note(&entries::undecided(entry));
    }
    link.print_waiting(&copy, &scan)?;
    for path in &deferred {
        output::note(&format!("'{}' is not as on the server: {}", path.path, path.reason));
    }
    for trouble in &scan.rule_troubles {
        output::note(&format!("'{}': {}", trouble.path, trouble.detail));
    }
    for path in &scan.unsupported {
        output::note(&format!("'{}' is not synced: {}", path.path, path.reason));
    }
    if pending.is_empty() && scan.changes.is_empty() {
        output::line("nothing to ship");
    }
    Ok(())
}

/// What happened to a path, in a word.
fn word(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (_, After::Removed) => "removed",
        (_, After::Metadata { .. }) => "metadata",
        (_, After::Moved { .. }) => "moved",
        (Before::Absent { .. }, _) => "added",
        _ => "changed",
    }
}
