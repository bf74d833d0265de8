//! `opship sync`.

use super::{book, entries, here, link, wait};
use crate::args::{Drop as DropArguments, Sync as Arguments};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use opship_client::sync::{EntryReport, Planned, Progress, Replayed, Sync, SyncReport, plan};
use opship_client::watch::{Asked, ask_sync, nudge};
use opship_client::{ClientError, LogEntry, WorkingCopy};
use opship_record::answer::{Reason, Verdict};
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Progress on a terminal, for what takes over a second.
pub(super) struct Bars(Option<ProgressBar>);

/// A bar shows itself when this long has passed.
const PATIENCE: Duration = Duration::from_secs(1);

impl Bars {
    pub(super) fn new(json: bool) -> Bars {
        if json || !std::io::stderr().is_terminal() {
            return Bars(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let (shown, start) = (bar.clone(), Instant::now());
        // On a thread of its own, so that it shows and ticks also while nothing is reported.
        std::thread::spawn(move || {
            while !shown.is_finished() {
                if start.elapsed() >= PATIENCE {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(Duration::from_millis(200));
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Bars(Some(bar))
    }

    /// Takes the bar away, before anything else is printed.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bars {
    fn step(&self, what: &str, done: u64, total: u64) {
        let Some(bar) = &self.0 else { return };
        let template = if total > 0 { "{msg} {wide_bar} {pos}/{len} {eta}" } else { "{msg} {spinner} {elapsed}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Exits with 1 if something could not be shipped and stays.
pub(super) fn sync(arguments: &Arguments, json: bool) -> ExitCode {
    match try_sync(arguments, json) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(error) => output::failed(&error, json),
    }
}

/// `true`: something could not be shipped.
fn try_sync(arguments: &Arguments, json: bool) -> Result<bool, ClientError> {
    let copy = here()?;
    if arguments.dry_run {
        return dry_run(&copy, arguments, json).map(|()| false);
    }
    let bars = Bars::new(json);
    // Where a watch runs, it does the work; if it ends before it is done, this process does it.
    let choice = arguments.link.choice();
    let report = match wait(ask_sync(&copy, &choice, &bars))? {
        Asked::Done(report) => *report,
        Asked::Nobody => {
            let mut book = book(&copy)?;
            wait(Sync::over(&copy, &mut book, &bars, &choice)?.with_engine(Box::new(super::run::engine)).run())?
        }
    };
    drop(bars);
    let pending = copy.pending()?;
    if json {
        output::json(&as_json(&report, pending.len()));
        return Ok(report.has_failed());
    }
    print(&report, &pending, arguments.verbose);
    link::print_waiting_after_sync(&copy, &choice)?;
    if copy.paused()?.is_some() {
        output::note("the watch of this folder is paused; this sync was done all the same");
    }
    Ok(report.has_failed())
}

pub(super) fn drop_entry(arguments: &DropArguments, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let mut book = book(&copy)?;
    let (numbers, copies) = if arguments.dry_run {
        copy.entry(arguments.entry)?;
        let waiting = copy.waiting_for(arguments.entry)?.into_iter().map(|entry| entry.number);
        (std::iter::once(arguments.entry).chain(waiting).collect(), Vec::new())
    } else {
        let (numbers, report) = wait(Sync::new(&copy, &mut book, &Bars::new(json))?.drop_entry(arguments.entry))?;
        nudge(&copy);
        (numbers, report.conflict_copies)
    };
    if json {
        output::json(&json!({ "dropped": numbers, "conflict_copies": copies, "done": !arguments.dry_run }));
        return Ok(());
    }
    let verb = if arguments.dry_run { "would be" } else { "is" };
    for number in numbers {
        output::line(&format!(
            "entry {number} {verb} dropped; its results are ordinary changes now, 'opship sync' ships them"
        ));
    }
    for path in copies {
        output::note(&format!("your own bytes are kept as '{path}'"));
    }
    Ok(())
}

fn dry_run(copy: &WorkingCopy, arguments: &Arguments, json: bool) -> Result<(), ClientError> {
    let scan = copy.scan()?;
    let planned = plan(copy, &book(copy)?, arguments.link.choice().ship)?;
    if json {
        let paths: Vec<&str> = scan.changes.iter().map(|change| change.path.as_str()).collect();
        output::json(&json!({ "entries": planned.iter().map(planned_json).collect::<Vec<_>>(), "changed": paths }));
        return Ok(());
    }
    if planned.is_empty() && scan.changes.is_empty() {
        output::line("nothing to ship");
        return Ok(());
    }
    let mut rows = vec![["#", "entry", "travels as", "bytes", "seconds", "because"].map(str::to_owned).to_vec()];
    for planned in &planned {
        rows.push(vec![
            planned.entry.number.to_string(),
            planned.entry.command.clone(),
            planned.way.name().to_owned(),
            output::bytes(planned.cost.bytes),
            format!("{:.2}", planned.cost.micros as f64 / 1e6),
            planned.why.clone(),
        ]);
    }
    for change in &scan.changes {
        let bytes = change.after.blob().map_or(0, |(length, _)| length);
        let (path, bytes) = (change.path.to_string(), output::bytes(bytes));
        rows.push(vec![
            "-".to_owned(),
            path,
            "value".to_owned(),
            bytes,
            String::new(),
            "it is no entry yet".to_owned(),
        ]);
    }
    output::table(&rows, &[0, 3, 4]);
    Ok(())
}

fn planned_json(planned: &Planned) -> serde_json::Value {
    let mut entry = entries::as_json(&planned.entry);
    entry["way"] = json!(planned.way.name());
    entry["predicted_bytes"] = json!(planned.cost.bytes);
    entry["predicted_micros"] = json!(planned.cost.micros);
    entry["because"] = json!(planned.why);
    entry
}

pub(super) fn as_json(report: &SyncReport, waiting: usize) -> serde_json::Value {
    let entry = |entry: &EntryReport| {
        json!({
            "number": entry.number,
            "kind": entries::kind(entry.kind),
            "command": entry.command,
            "verdict": entry.verdict.map(|verdict| verdict.name()),
            "reason": entry.reason.map(Reason::name),
            "detail": entry.detail,
            "parked": entry.parked,
            "failed": entry.failed,
            "sent": entry.sent,
            "received": entry.received,
            "value_bytes": entry.value_bytes,
            "replay_micros": entry.replay_micros,
            "seconds": entry.seconds,
        })
    };
    json!({
        "entries": report.entries.iter().map(entry).collect::<Vec<_>>(),
        "waiting": waiting,
        "pulled": {
            "version": report.pulled.version,
            "paths": report.pulled.changed,
            "deferred": report.pulled.deferred,
            "names": report.pulled.names,
            "replayed": report.pulled.replayed.iter().map(replayed).collect::<Vec<_>>(),
            "conflict_copies": report.pulled.conflict_copies,
            "notes": report.pulled.notes,
        },
        "sent": report.sent,
        "received": report.received,
        "seconds": report.seconds,
    })
}

fn replayed(replayed: &Replayed) -> serde_json::Value {
    json!({ "version": replayed.version, "saved": replayed.saved, "micros": replayed.micros })
}

/// With many entries, those that need no attention are only counted.
const SHOWN: usize = 20;
/// Paths that were left alone are named each up to this many.
const SHOWN_LEFT_ALONE: usize = 10;

fn print(report: &SyncReport, pending: &[LogEntry], verbose: bool) {
    let quiet = |entry: &&EntryReport| entry.verdict.is_some_and(|verdict| verdict.is_final_for_client());
    let all = verbose || report.entries.len() <= SHOWN;
    let heading = ["#", "verdict", "reason", "sent / received", "by value", "time", "entry"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for entry in report.entries.iter().filter(|entry| all || !quiet(entry)) {
        rows.push(row(entry));
    }
    if rows.len() > 1 {
        output::table(&rows, &[0, 3, 4, 5]);
    }
    if !all {
        output::line(&format!(
            "{} entries ended well; 'opship sync -v' shows each",
            report.entries.iter().filter(quiet).count()
        ));
    }
    for entry in report.entries.iter().filter(|entry| !quiet(entry)) {
        // The server's words say what to do; the reason's own are for where it has none.
        let next = || entry.reason.map(|reason| reason.next_step().to_owned());
        output::note(&format!("entry {}: {}", entry.number, entry.detail.clone().or_else(next).unwrap_or_default()));
        if entry.verdict == Some(Verdict::Rebased) {
            let number = entry.number;
            output::note(&format!(
                "entry {number}: the result on the new inputs is here now; 'opship undo {number}' brings your own back"
            ));
        }
    }
    print_parked(pending);
    print_replayed(&report.pulled.replayed, verbose);
    print_left_alone(&report.pulled.deferred, verbose);
    for (path, reason) in &report.pulled.names {
        output::note(&format!("'{path}' came, but other systems may not hold it: {reason}"));
    }
    for path in &report.pulled.conflict_copies {
        output::note(&format!("your own bytes are kept as '{path}'"));
    }
    for note in &report.pulled.notes {
        output::note(note);
    }
    let waits = match pending.len() as u64 {
        0 => "in sync".to_owned(),
        waiting => format!("{} waiting", output::count(waiting, "entry")),
    };
    output::line(&format!(
        "{waits}: version {}, {} pulled, {} sent, {} received, {:.2} s",
        report.pulled.version,
        output::count(report.pulled.changed, "path"),
        output::bytes(report.sent),
        output::bytes(report.received),
        report.seconds
    ));
}

/// Entries that wait for a conflict: dropping the first takes those with it that need it.
fn print_parked(pending: &[LogEntry]) {
    let parked: Vec<u64> = pending.iter().filter(|entry| entry.is_parked()).map(|entry| entry.number).collect();
    let Some(first) = parked.first() else { return };
    let all = parked.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let (entries, are, they) =
        if parked.len() == 1 { ("entry", "is", "it needs") } else { ("entries", "are", "they need") };
    output::note(&format!(
        "{entries} {all} {are} parked: what {they} ended in a conflict, or was refused. 'opship drop {first}' takes that one out of the log, with \
         those that need it; the files stay as they are here, and what was replaced in between is kept beside. Run the \
         commands again on what is there now, if you still want their results"
    ));
}

/// Of many paths one line: it must not bury the rest.
fn print_left_alone(deferred: &[(String, String)], verbose: bool) {
    match deferred {
        [(path, reason), ..] if deferred.len() > SHOWN_LEFT_ALONE && !verbose => output::note(&format!(
            "{} were left alone, '{path}' among them: {reason}; 'opship status' names all",
            output::count(deferred.len() as u64, "path")
        )),
        _ => {
            for (path, reason) in deferred {
                output::note(&format!("'{path}' was left alone: {reason}"));
            }
        }
    }
}

fn print_replayed(replayed: &[Replayed], verbose: bool) {
    for one in replayed.iter().filter(|_| verbose) {
        output::line(&format!(
            "version {}: replayed here in {:.0} ms, {} not downloaded",
            one.version,
            one.micros as f64 / 1000.0,
            output::bytes(one.saved)
        ));
    }
    if !replayed.is_empty() {
        let saved = replayed.iter().map(|one| one.saved).sum();
        let operations = output::count(replayed.len() as u64, "operation");
        output::line(&format!("{operations} of others replayed here: {} not downloaded", output::bytes(saved)));
    }
}

fn row(entry: &EntryReport) -> Vec<String> {
    let verdict = match entry.verdict {
        Some(verdict) => verdict.name(),
        None if entry.parked => "parked",
        None => "pending",
    };
    vec![
        entry.number.to_string(),
        verdict.to_owned(),
        entry.reason.map(Reason::name).unwrap_or_default().to_owned(),
        entries::traffic(entry.sent, entry.received),
        output::bytes(entry.value_bytes),
        format!("{:.0} ms", entry.seconds * 1000.0),
        entry.command.clone(),
    ]
}
