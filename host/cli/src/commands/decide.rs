//! `opship undo`, `conflicts` and `resolve`.

use super::sync::Bars;
use super::{book, here, wait};
use crate::args::{Keep as KeepArgument, Resolve, Undo};
use crate::output;
use globset::GlobBuilder;
use opship_client::sync::{Keep, PutReport, Sync, UndoOptions};
use opship_client::{ClientError, Conflict, ConflictCopy, WorkingCopy};
use opship_record::TreePath;
use serde_json::json;

pub(super) fn undo(arguments: &Undo, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let (mut book, bars) = (book(&copy)?, Bars::new(json));
    let options = UndoOptions { force: arguments.force, dry_run: arguments.dry_run };
    let report = wait(async { Sync::new(&copy, &mut book, &bars)?.undo(arguments.entry, options).await })?;
    drop(bars);
    tell(&report, arguments.dry_run, json, &format!("entry {} is undone", arguments.entry));
    Ok(())
}

/// Tells what was put, or would be.
pub(super) fn tell(report: &PutReport, dry_run: bool, json: bool, done: &str) {
    if json {
        output::json(&json!({
            "done": !dry_run,
            "entry": report.entry,
            "paths": report.paths.iter().map(TreePath::as_str).collect::<Vec<_>>(),
            "kept": report.kept.iter().map(TreePath::as_str).collect::<Vec<_>>(),
        }));
        return;
    }
    for path in &report.paths {
        output::line(&format!("  {}", output::name(path.as_str())));
    }
    for path in &report.kept {
        output::note(&format!("what was there is kept as '{path}'"));
    }
    let count = output::count(report.paths.len() as u64, "path");
    match report.entry {
        _ if dry_run => output::line(&format!("{count} would change")),
        Some(entry) => output::line(&format!("{done}: {count} changed, as entry {entry}; 'opship sync' ships it")),
        None if report.paths.is_empty() => output::line("nothing to do: all is so already"),
        None => output::line(&format!("{done}: {count}")),
    }
}

pub(super) fn conflicts(json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let conflicts = copy.conflicts()?;
    if json {
        let shown = conflicts.iter().map(|conflict| as_json(&copy, conflict)).collect::<Result<Vec<_>, _>>()?;
        output::json(&json!({ "conflicts": shown }));
        return Ok(());
    }
    if conflicts.is_empty() {
        output::line("nothing to decide");
        return Ok(());
    }
    let mut rows = vec![["path", "copy", "whose", "when", "entry"].map(str::to_owned).to_vec()];
    for conflict in &conflicts {
        for state in &conflict.copies {
            rows.push(vec![
                conflict.path.to_string(),
                state.at.as_ref().map_or("(on the server)".to_owned(), TreePath::to_string),
                state.who.clone().unwrap_or_else(|| "yours".to_owned()),
                state.day.clone().unwrap_or_default(),
                state.entry.map(|entry| entry.to_string()).unwrap_or_default(),
            ]);
        }
    }
    output::table(&rows, &[4]);
    output::note("decide with 'opship resolve PATH --keep mine|theirs|both'; mine is the copy, theirs is at the path");
    Ok(())
}

fn as_json(copy: &WorkingCopy, conflict: &Conflict) -> Result<serde_json::Value, ClientError> {
    let state = |state: &ConflictCopy| {
        let entry = state.entry.map(|number| copy.entry(number)).transpose()?;
        Ok::<_, ClientError>(json!({
            "copy": state.at.as_ref().map(TreePath::as_str),
            "whose": state.who,
            "when": state.day,
            "entry": state.entry,
            "command": entry.as_ref().map(|entry| entry.command.clone()),
            "verdict": entry.as_ref().and_then(|entry| entry.verdict()).map(|verdict| verdict.name()),
        }))
    };
    let copies = conflict.copies.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "path": conflict.path.as_str(), "copies": copies }))
}

pub(super) fn resolve(arguments: &Resolve, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let chosen = choose(&copy, arguments)?;
    let keep = match arguments.keep {
        KeepArgument::Mine => Keep::Mine,
        KeepArgument::Theirs => Keep::Theirs,
        KeepArgument::Both => Keep::Both,
    };
    let (mut book, bars) = (book(&copy)?, Bars::new(json));
    let report = wait(async { Sync::new(&copy, &mut book, &bars)?.resolve(&chosen, keep, arguments.dry_run).await })?;
    drop(bars);
    let decided = output::count(chosen.len() as u64, "conflict");
    tell(&report, arguments.dry_run, json, &format!("{decided} decided"));
    Ok(())
}

/// The conflicts that the arguments name; of one that is named by a copy only that copy.
fn choose(copy: &WorkingCopy, arguments: &Resolve) -> Result<Vec<Conflict>, ClientError> {
    let mut all = copy.conflicts()?;
    if arguments.all {
        return Ok(all);
    }
    let matchers = arguments.paths.iter().map(|pattern| matcher(copy, &all, pattern)).collect::<Result<Vec<_>, _>>()?;
    let names = |matches: &Matcher, path: &TreePath, state: &ConflictCopy| {
        matches(path) || state.at.as_ref().is_some_and(matches)
    };
    for (pattern, matches) in arguments.paths.iter().zip(&matchers) {
        if !all.iter().any(|c| c.copies.iter().any(|state| names(matches, &c.path, state))) {
            return Err(ClientError::Refused(format!("'{pattern}' is in no conflict; 'opship conflicts' lists them")));
        }
    }
    for conflict in &mut all {
        let path = &conflict.path;
        conflict.copies.retain(|state| matchers.iter().any(|matches| names(matches, path, state)));
    }
    all.retain(|conflict| !conflict.copies.is_empty());
    Ok(all)
}

type Matcher = Box<dyn Fn(&TreePath) -> bool>;

/// A path as the shell gives it, from the current folder, or a pattern, from the root.
fn matcher(copy: &WorkingCopy, all: &[Conflict], pattern: &str) -> Result<Matcher, ClientError> {
    if let Ok(path) = super::inspect::inside(copy, std::path::Path::new(pattern))
        && all.iter().any(|c| c.path == path || c.copies.iter().any(|s| s.at.as_ref() == Some(&path)))
    {
        return Ok(Box::new(move |found| *found == path));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| ClientError::Refused(format!("'{pattern}' is no pattern: {error}")))?;
    let glob = glob.compile_matcher();
    Ok(Box::new(move |found| glob.is_match(found.as_str())))
}
