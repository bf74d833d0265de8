//! `opship restore`, `diff` and `log --versions`.

use super::decide::tell;
use super::inspect::inside;
use super::sync::Bars;
use super::{book, here, wait};
use crate::args::{Diff, Log, Restore};
use crate::output;
use opship_client::net::VersionInfo;
use opship_client::sync::{Destination, DiffOptions, Sync, TreeDifference, api_for};
use opship_client::{ClientError, WorkingCopy};
use opship_record::TreePath;
use opship_record::node::Node;
use serde_json::json;
use std::path::Path;

pub(super) fn restore(arguments: &Restore, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let paths = arguments.paths.iter().map(|path| inside(&copy, path)).collect::<Result<Vec<_>, _>>()?;
    let to = destination(&copy, arguments.to.as_deref())?;
    let (mut book, bars) = (book(&copy)?, Bars::new(json));
    let restoring =
        async { Sync::new(&copy, &mut book, &bars)?.restore(&paths, arguments.version, &to, arguments.dry_run).await };
    let report = wait(restoring)?;
    drop(bars);
    tell(&report, arguments.dry_run, json, &format!("restored from version {}", arguments.version));
    Ok(())
}

fn destination(copy: &WorkingCopy, to: Option<&Path>) -> Result<Destination, ClientError> {
    let Some(to) = to else { return Ok(Destination::InPlace) };
    let absolute = std::path::absolute(to).map_err(ClientError::io("finding the folder"))?;
    Ok(match inside(copy, to) {
        Ok(path) => Destination::Inside(path),
        Err(error) if absolute.starts_with(copy.path()) => return Err(error),
        Err(_) => Destination::Outside(absolute),
    })
}

pub(super) fn diff(arguments: &Diff, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    if arguments.to.is_some() && arguments.version.is_none() {
        return Err(ClientError::Refused("'--to' needs '--version', the version to compare it with".to_owned()));
    }
    let below = match &arguments.path {
        Some(path) => inside(&copy, path)?,
        None => TreePath::root(),
    };
    let options = DiffOptions { from: arguments.version, to: arguments.to, below, text: !arguments.brief };
    let (mut book, bars) = (book(&copy)?, Bars::new(json));
    let found = wait(async { Sync::new(&copy, &mut book, &bars)?.diff(&options).await })?;
    drop(bars);
    if json {
        output::json(&json!({ "differences": found.iter().map(difference_json).collect::<Vec<_>>() }));
        return Ok(());
    }
    if found.is_empty() {
        output::line("no differences");
        return Ok(());
    }
    let size = |node: &Option<Node>| match node {
        Some(Node::File { length, .. }) => output::bytes(*length),
        Some(node) => node.kind().name().to_owned(),
        None => "-".to_owned(),
    };
    let mut rows = vec![["change", "before", "after", "path"].map(str::to_owned).to_vec()];
    for difference in &found {
        let TreeDifference { path, old, new, .. } = difference;
        rows.push(vec![difference.word().to_owned(), size(old), size(new), path.to_string()]);
    }
    output::table(&rows, &[1, 2]);
    for text in found.iter().filter_map(|difference| difference.text.as_deref()) {
        output::line(&format!("\n{}", output::printable(text.trim_end_matches('\n'))));
    }
    Ok(())
}

fn difference_json(difference: &TreeDifference) -> serde_json::Value {
    let side = |node: &Option<Node>| match node {
        Some(Node::File { mode, mtime, length, hash }) => {
            json!({ "kind": "file", "mode": mode, "mtime": mtime, "length": length, "hash": hash.to_string() })
        }
        Some(Node::Directory { mode }) => json!({ "kind": "directory", "mode": mode }),
        Some(Node::Symlink { mtime, target }) => {
            json!({ "kind": "symbolic link", "mtime": mtime, "target": String::from_utf8_lossy(target) })
        }
        None => serde_json::Value::Null,
    };
    json!({
        "path": difference.path.as_str(),
        "change": difference.word(),
        "before": side(&difference.old),
        "after": side(&difference.new),
        "text": difference.text,
    })
}

pub(super) fn versions(arguments: &Log, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let found = wait(async { api_for(&copy)?.versions(None, arguments.limit).await })?;
    if json {
        output::json(&json!({ "versions": found }));
        return Ok(());
    }
    let own = own_commands(&copy)?;
    let mut rows = vec![["version", "when", "who", "entry"].map(str::to_owned).to_vec()];
    for version in &found {
        let key = version.author.clone().zip(version.sequence);
        let command = key.and_then(|key| own.get(&key).cloned());
        let forgotten = version.forgotten.then(|| "(forgotten)".to_owned());
        let told: Vec<_> = command.into_iter().chain(forgotten).collect();
        rows.push(vec![version.number.to_string(), when(version.time), who(version), told.join(" ")]);
    }
    output::table(&rows, &[0]);
    Ok(())
}

fn who(version: &VersionInfo) -> String {
    let short = |id: &String| id.chars().take(8).collect();
    let author = version.author_name.clone().or_else(|| version.author.as_ref().map(short)).unwrap_or_default();
    match &version.client_name {
        Some(client) => format!("{author} on {client}"),
        None => author,
    }
}

/// What this working copy's own entries were, by their keys.
fn own_commands(copy: &WorkingCopy) -> Result<std::collections::BTreeMap<(String, u64), String>, ClientError> {
    let entries = copy.entries(None, 10_000)?;
    let described = |entry: &opship_client::LogEntry| format!("{} (entry {})", entry.command, entry.number);
    Ok(entries.iter().map(|entry| ((entry.client.to_string(), entry.sequence), described(entry))).collect())
}

/// A time in UTC, for people.
fn when(millis: u64) -> String {
    let seconds = millis / 1000;
    let of_day = seconds % 86_400;
    format!("{} {:02}:{:02} UTC", opship_client::date(seconds), of_day / 3600, of_day / 60 % 60)
}
