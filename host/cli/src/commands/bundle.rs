//! `opship bundle create` and `apply`, and `opship clone --bundle`.

use super::sync::Bars;
use super::{book, entries, here, wait};
use crate::bundle_args::{Apply, Bundle as Arguments, Create};
use crate::output;
use opship_client::bundle::{Applied, Bundle, Carried, CarriedEntry, CreateOptions, Created, create};
use opship_client::{ClientError, WorkingCopy, find_root};
use opship_record::answer::Reason;
use serde_json::json;
use std::path::Path;

pub(super) fn bundle(arguments: &Arguments, json: bool) -> Result<(), ClientError> {
    match arguments {
        Arguments::Create(arguments) => make(arguments, json),
        Arguments::Apply(arguments) => apply(arguments, json),
    }
}

fn make(arguments: &Create, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let options = CreateOptions { since: arguments.since, dry_run: arguments.dry_run };
    let bars = Bars::new(json);
    let created = wait(create(&copy, &book(&copy)?, &arguments.file, options, &bars))?;
    drop(bars);
    if json {
        output::json(&json!({
            "file": arguments.file,
            "version": created.version,
            "since": arguments.since,
            "paths": created.paths,
            "unknown": created.unknown,
            "contents": created.contents,
            "content_bytes": created.content_bytes,
            "entries": created.entries.iter().map(|(number, _)| number).collect::<Vec<_>>(),
            "lacking": created.lacking,
            "unrecorded": created.unrecorded,
            "bytes": created.bytes,
            "done": !arguments.dry_run,
        }));
    } else {
        print_created(arguments, &created);
    }
    Ok(())
}

fn print_created(arguments: &Create, created: &Created) {
    let verb = if arguments.dry_run { "would hold" } else { "holds" };
    let version = match created.version {
        Some(version) => format!("version {version} with {}", output::count(created.paths, "path")),
        None => "no version".to_owned(),
    };
    output::line(&format!(
        "{} {verb} {version}, {} ({}), {} waiting to be shipped",
        arguments.file.display(),
        output::count(created.contents, "content"),
        output::bytes(created.content_bytes),
        output::count(created.entries.len() as u64, "entry"),
    ));
    for (number, command) in &created.entries {
        output::line(&format!("  entry {number}: {command}"));
    }
    if created.version.is_none() {
        output::note("the last sync was cut off, so this folder stands between two versions: only the entries travel");
    }
    if created.unknown > 0 {
        output::note(&format!(
            "of {} the version's state is not known here, since something waits to be shipped there; whoever gets the bundle \
             gets them with the next sync",
            output::count(created.unknown, "path")
        ));
    }
    if created.unrecorded > 0 {
        let changes = output::count(created.unrecorded, "change");
        output::note(&format!("{changes} of files that no entry names yet would be recorded first, and travel too"));
    }
    for number in &created.lacking {
        output::note(&format!(
            "entry {number}: a content of it is not here any more; if the server asks for it, it waits for the next sync"
        ));
    }
    if !arguments.dry_run {
        let bytes = output::bytes(created.bytes);
        output::line(&format!("{bytes} written; it holds what the workspace holds, so keep it as you keep that"));
    }
}

fn apply(arguments: &Apply, json: bool) -> Result<(), ClientError> {
    let bundle = Bundle::open(&arguments.file)?;
    if let Some(server) = &arguments.server {
        return carry(&bundle, server, arguments.dry_run, json);
    }
    let folder = std::env::current_dir().map_err(ClientError::io("finding the current folder"))?;
    if find_root(&folder).is_err() {
        return clone_here(&bundle, &folder, arguments.name.as_deref(), arguments.dry_run, json);
    }
    let copy = WorkingCopy::open(&folder)?;
    let bars = Bars::new(json);
    let applied = bundle.apply(&copy, arguments.dry_run, &bars)?;
    drop(bars);
    print_applied(&bundle, copy.path(), &applied, arguments.dry_run, json);
    Ok(())
}

/// A clone out of a bundle.
pub(super) fn clone(file: &Path, folder: Option<&Path>, name: Option<&str>, json: bool) -> Result<(), ClientError> {
    let bundle = Bundle::open(file)?;
    let folder = folder.unwrap_or(Path::new(&bundle.head().workspace)).to_owned();
    clone_here(&bundle, &folder, name, false, json)
}

fn clone_here(
    bundle: &Bundle,
    folder: &Path,
    name: Option<&str>,
    dry_run: bool,
    json: bool,
) -> Result<(), ClientError> {
    let bars = Bars::new(json);
    let applied = bundle.clone_into(folder, name, dry_run, &bars)?;
    drop(bars);
    print_applied(bundle, folder, &applied, dry_run, json);
    Ok(())
}

fn print_applied(bundle: &Bundle, folder: &Path, applied: &Applied, dry_run: bool, json: bool) {
    let (head, pulled) = (bundle.head(), &applied.pulled);
    if json {
        output::json(&json!({
            "folder": folder,
            "server": head.server,
            "workspace": head.workspace,
            "version": pulled.version,
            "paths": pulled.changed,
            "unknown": applied.unknown,
            "contents": applied.contents,
            "content_bytes": applied.content_bytes,
            "deferred": pulled.deferred,
            "names": pulled.names,
            "done": !dry_run,
        }));
        return;
    }
    let verb = if dry_run { "would stand" } else { "stands" };
    output::line(&format!(
        "{} {verb} on version {} of '{}': {}, {} out of the bundle",
        folder.display(),
        pulled.version,
        output::printable(&head.workspace),
        output::count(pulled.changed, "path"),
        output::bytes(applied.content_bytes),
    ));
    output::line(&format!("its server is {}; 'opship sync' there gets what is newer", output::printable(&head.server)));
    if applied.unknown > 0 {
        let paths = output::count(applied.unknown, "path");
        output::note(&format!("the bundle does not know the state of {paths}; the next sync brings it"));
    }
    for (path, reason) in &pulled.deferred {
        output::note(&format!("'{path}' was left alone: {reason}"));
    }
    for (path, reason) in &pulled.names {
        output::note(&format!("'{path}' came, but other systems may not hold it: {reason}"));
    }
}

fn carry(bundle: &Bundle, server: &str, dry_run: bool, json: bool) -> Result<(), ClientError> {
    let bars = Bars::new(json);
    let server = server.parse()?;
    let carried = wait(bundle.carry(&server, dry_run, &bars))?;
    drop(bars);
    if json {
        output::json(&json!({
            "server": server.to_string(),
            "workspace": bundle.head().workspace,
            "entries": carried.entries.iter().map(as_json).collect::<Vec<_>>(),
            "sent": carried.sent,
            "received": carried.received,
            "done": !dry_run,
        }));
    } else {
        print_carried(&carried, dry_run);
    }
    Ok(())
}

fn as_json(entry: &CarriedEntry) -> serde_json::Value {
    json!({
        "client": entry.client,
        "sequence": entry.sequence,
        "kind": entries::kind(entry.kind),
        "command": entry.command,
        "held": entry.held,
        "verdict": entry.verdict.map(|verdict| verdict.name()),
        "reason": entry.reason.map(Reason::name),
        "detail": entry.detail,
    })
}

fn print_carried(carried: &Carried, dry_run: bool) {
    if carried.entries.is_empty() {
        output::line("the bundle carries no entries: nothing waited to be shipped when it was made");
        return;
    }
    let heading = ["client", "#", "verdict", "reason", "before", "entry"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for entry in &carried.entries {
        rows.push(vec![
            entry.client.chars().take(8).collect(),
            entry.sequence.to_string(),
            entry.verdict.map_or("pending", |verdict| verdict.name()).to_owned(),
            entry.reason.map(Reason::name).unwrap_or_default().to_owned(),
            if entry.held { "held" } else { "" }.to_owned(),
            entry.command.clone(),
        ]);
    }
    output::table(&rows, &[1]);
    for entry in &carried.entries {
        if let Some(detail) = &entry.detail {
            output::note(&format!("entry {}: {detail}", entry.sequence));
        }
    }
    let ended = carried.entries.iter().filter(|entry| entry.verdict.is_some()).count() as u64;
    let open = carried.entries.len() as u64 - ended;
    if dry_run {
        let held = carried.entries.iter().filter(|entry| entry.held).count() as u64;
        output::line(&format!(
            "the server holds {} of them; the others would be shipped",
            output::count(held, "entry")
        ));
    } else {
        output::line(&format!(
            "{} ended, {open} not: {} sent, {} received; whoever made the bundle learns of it at the next sync",
            output::count(ended, "entry"),
            output::bytes(carried.sent),
            output::bytes(carried.received)
        ));
    }
}
