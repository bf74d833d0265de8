//! `opship admin`, and `opship du`.

use super::{here, invite, wait};
use crate::admin_args::{Admin as Command, Du, Fsck, Gc, On, WorkspaceCommand};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use opship_client::net::{Admin, ServerUrl};
use opship_client::{ClientError, WorkingCopy};
use opship_storage::Store;
use opship_storage::upkeep::CheckOptions;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7420";

/// Something was found to be damaged.
const DAMAGED: u8 = 1;

pub(super) fn admin(command: &Command, json: bool) -> ExitCode {
    let result = match command {
        Command::Invite(arguments) => invite::invite(arguments, json),
        Command::Gc(arguments) => gc(arguments, json),
        Command::Fsck(arguments) => match fsck(arguments, json) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(DAMAGED),
            Err(error) => Err(error),
        },
        Command::Du(arguments) => server_usage(arguments, json),
        Command::Workspace(WorkspaceCommand::Show { name, on }) => show(name, on, json),
        Command::Workspace(WorkspaceCommand::Set { name, settings, dry_run, on }) => {
            set(name, settings, *dry_run, on, json)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error, json),
    }
}

fn server(on: &On) -> Result<Admin, ClientError> {
    let own = || here().ok().map(|copy: WorkingCopy| copy.config().server.clone());
    let server = on.server.clone().or_else(own).unwrap_or_else(|| DEFAULT_SERVER.to_owned());
    Admin::new(server.parse::<ServerUrl>()?)
}

/// A line that tells how far the work is, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(json: bool) -> Bar {
        let bar = ProgressBar::new_spinner();
        if json {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Bar(bar)
    }

    fn tell(&self, step: &str, done: u64, total: u64) {
        let of = if total > 0 { format!(" of {total}") } else { String::new() };
        self.0.set_message(format!("{}: {done}{of}", output::name(step)));
        self.0.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn work(on: &On, path: &str, options: &Value, json: bool) -> Result<Value, ClientError> {
    let mut admin = server(on)?;
    let bar = Bar::new(json);
    wait(admin.work(path, options, &mut |step, done, total| bar.tell(step, done, total)))
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn gc(arguments: &Gc, json: bool) -> Result<(), ClientError> {
    let mut report = work(&arguments.on, "/v1/admin/gc", &json!({ "dry_run": arguments.dry_run }), json)?;
    if json {
        report["dry_run"] = json!(arguments.dry_run);
        output::json(&report);
        return Ok(());
    }
    let verb = if arguments.dry_run { "would be " } else { "" };
    output::line(&format!("{} {verb}forgotten", output::count(number(&report, "versions"), "version")));
    let parts = [("blobs", "content"), ("nodes", "tree node"), ("chunks", "chunk"), ("uploads", "unfinished upload")];
    let gone = parts.map(|(key, noun)| output::count(number(&report, key), noun)).join(", ");
    output::line(&format!("{gone} {verb}removed: {} freed", output::bytes(number(&report, "bytes"))));
    Ok(())
}

/// Gives whether all is well.
fn fsck(arguments: &Fsck, json: bool) -> Result<bool, ClientError> {
    let repair = arguments.repair && !arguments.dry_run;
    let report = match &arguments.data {
        Some(data) => offline(data, repair, json)?,
        None => work(&arguments.on, "/v1/admin/fsck", &json!({ "repair": repair }), json)?,
    };
    let findings = list(&report, "findings");
    let is_well = findings.iter().all(|finding| finding.get("repaired") == Some(&Value::Bool(true)));
    if json {
        output::json(&report);
        return Ok(is_well);
    }
    findings.iter().for_each(print_finding);
    let read = [
        ("versions", "version"),
        ("entries", "entry"),
        ("nodes", "tree node"),
        ("blobs", "content"),
        ("chunks", "chunk"),
    ];
    let read = read.map(|(key, noun)| output::count(number(&report, key), noun)).join(", ");
    let found =
        if findings.is_empty() { "all is well".to_owned() } else { output::count(findings.len() as u64, "finding") };
    output::line(&format!("{found}: {read} ({}) read", output::bytes(number(&report, "bytes"))));
    Ok(is_well)
}

fn print_finding(finding: &Value) {
    output::line(&format!("{}: {}", text(finding, "kind"), output::name(text(finding, "what"))));
    for affected in list(finding, "affected") {
        let versions: Vec<u64> = list(affected, "versions").iter().filter_map(Value::as_u64).collect();
        let versions = match versions.as_slice() {
            [first, last] if first == last => format!(" in version {first}"),
            [first, last] => format!(" in versions {first} to {last}"),
            _ => String::new(),
        };
        let (workspace, place) = (output::name(text(affected, "workspace")), output::name(text(affected, "place")));
        output::line(&format!("    workspace '{workspace}': {place}{versions}"));
    }
    if number(finding, "more") > 0 {
        output::line(&format!("    and {} more", output::count(number(finding, "more"), "place")));
    }
    output::line(&format!("    {}", text(finding, "advice")));
}

/// Checks a data folder that no server uses.
fn offline(data: &Path, repair: bool, json: bool) -> Result<Value, ClientError> {
    if !data.join("metadata.db").is_file() {
        return Err(ClientError::Refused(format!(
            "'{}' is no server's data folder; name the one of --data",
            data.display()
        )));
    }
    let bar = Bar::new(json);
    let mut tell = |progress: opship_storage::upkeep::Progress| bar.tell(progress.step, progress.done, progress.total);
    let report = Store::check_closed(data, &CheckOptions { repair }, &mut tell);
    let report = report.map_err(|error| ClientError::Refused(error.to_string()))?;
    serde_json::to_value(report).map_err(|error| ClientError::Protocol { detail: error.to_string() })
}

fn server_usage(arguments: &Du, json: bool) -> Result<(), ClientError> {
    let mut admin = server(&arguments.on)?;
    let usage = wait(admin.get("/v1/admin/du"))?;
    if json {
        output::json(&usage);
        return Ok(());
    }
    let heading = ["workspace", "files", "head", "history", "stored", "versions", "forgotten"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for workspace in list(&usage, "workspaces") {
        let bytes = |key| output::bytes(number(workspace, key));
        rows.push(vec![
            text(workspace, "name").to_owned(),
            number(workspace, "files").to_string(),
            bytes("head_bytes"),
            bytes("history_bytes"),
            bytes("stored_bytes"),
            number(workspace, "versions").to_string(),
            number(workspace, "forgotten").to_string(),
        ]);
    }
    output::table(&rows, &[1, 2, 3, 4, 5, 6]);
    let parts = [
        ("packs", "packs"),
        ("unneeded", "of these needed no longer"),
        ("database", "database"),
        ("files", "contents in files"),
        ("uploads", "uploads under way"),
    ];
    for (key, name) in parts.into_iter().filter(|(key, _)| number(&usage, key) > 0) {
        output::line(&format!("{name}: {}", output::bytes(number(&usage, key))));
    }
    Ok(())
}

fn show(name: &str, on: &On, json: bool) -> Result<(), ClientError> {
    let shown = wait(server(on)?.get(&address(name)?))?;
    print_settings(&shown, json);
    Ok(())
}

fn set(name: &str, settings: &[String], dry_run: bool, on: &On, json: bool) -> Result<(), ClientError> {
    let pairs = settings.iter().map(|setting| {
        let pair = setting.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| ClientError::Refused(format!("'{setting}' sets nothing: write KEY=VALUE")))
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let path = address(name)?;
    let mut admin = server(on)?;
    let shown = if dry_run {
        let mut shown = wait(admin.get(&path))?;
        for (key, value) in &pairs {
            let setting =
                opship_storage::Setting::parse(key, value).map_err(|e| ClientError::Refused(e.to_string()))?;
            shown["settings"][setting.name()] = json!(setting.to_string());
        }
        shown
    } else {
        wait(admin.change_settings(name, &pairs))?
    };
    print_settings(&shown, json);
    Ok(())
}

/// The address of a workspace; a name that no workspace has is refused here.
fn address(name: &str) -> Result<String, ClientError> {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if plain {
        Ok(format!("/v1/workspaces/{name}"))
    } else {
        Err(ClientError::Refused(format!("'{name}' names no workspace")))
    }
}

fn print_settings(shown: &Value, json: bool) {
    let settings = shown.get("settings").cloned().unwrap_or_default();
    if json {
        output::json(&json!({ "settings": settings }));
        return;
    }
    let rows: Vec<_> = settings
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| vec![name.clone(), value.as_str().unwrap_or_default().to_owned()])
        .collect();
    output::table(&rows, &[]);
}

/// `opship du`.
pub(super) fn usage(json: bool) -> Result<(), ClientError> {
    let usage = here()?.usage()?;
    let total: u64 = usage.values().sum();
    if json {
        let mut shown: Value = usage.iter().map(|(purpose, bytes)| (purpose.name().to_owned(), json!(bytes))).collect();
        shown["total"] = json!(total);
        output::json(&shown);
        return Ok(());
    }
    let mut rows: Vec<_> =
        usage.iter().map(|(purpose, bytes)| vec![purpose.name().to_owned(), output::bytes(*bytes)]).collect();
    rows.push(vec!["total".to_owned(), output::bytes(total)]);
    output::table(&rows, &[1]);
    Ok(())
}
