//! `opship watch`, and how a watch stands.

use super::{here, sync, wait};
use crate::{duration, output, standard};
use clap::Args;
use opship_client::sync::SyncReport;
use opship_client::watch::{Mode, Settings, WatchEvent, WatchState, ask_status, watch as keep};
use opship_client::{ClientError, WorkingCopy};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long a watch has to end by itself. A sync may be ended at any moment, so nothing is lost by ending the process.
const GRACE: Duration = Duration::from_millis(1500);

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// How often the server says that it is there, in seconds; shorter where something on the way forgets idle connections
    #[arg(long, value_name = "SECONDS", default_value_t = 240, value_parser = clap::value_parser!(u64).range(1..=3600))]
    heartbeat: u64,
}

pub(super) fn watch(arguments: &Watch, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let beat = Duration::from_secs(arguments.heartbeat);
    let settings = Settings { standard: standard::MODULES, beat, engine: super::run::engine };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(ClientError::io("starting"))?.block_on(async {
        let stop = CancellationToken::new();
        end_by_signal(stop.clone())?;
        keep(&copy, &settings, &mut |event| tell(&copy, &event, json), &stop).await
    })
}

/// Ends the watch by SIGTERM or SIGINT; where it is busy with the disk, the process ends without it.
fn end_by_signal(stop: CancellationToken) -> Result<(), ClientError> {
    let failed = || ClientError::io("listening to signals");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
        tokio::time::sleep(GRACE).await;
        std::process::exit(0);
    });
    Ok(())
}

fn tell(copy: &WorkingCopy, event: &WatchEvent, json: bool) {
    if json {
        output::line(&as_json(copy, event).to_string());
        return;
    }
    match event {
        WatchEvent::Started { polling } => {
            output::line(&format!("watching {}; Ctrl-C ends it", copy.path().display()));
            polling.iter().for_each(|detail| polls(detail));
        }
        WatchEvent::Polling { detail } => polls(detail),
        WatchEvent::Synced(report) => synced(report),
        WatchEvent::Offline { detail, next_try } => {
            let next = duration::shown(*next_try);
            output::note(&format!("offline: {detail}; next try in {next}, changes are kept meanwhile"));
        }
        WatchEvent::Online => output::note("the server is there again"),
        WatchEvent::Failed { detail, next_try } => {
            output::note(&format!("{detail}; next try in {}", duration::shown(*next_try)));
        }
        WatchEvent::Paused { left } => {
            let end = left.map_or("until 'opship resume'".to_owned(), |left| format!("for {}", duration::shown(left)));
            output::note(&format!("paused {end}"));
        }
        WatchEvent::Resumed => output::note("the pause is over"),
        WatchEvent::Stopped => output::note("the watch has ended"),
    }
}

fn polls(detail: &str) {
    output::note(&format!("the folder is looked at every few seconds, since {detail}"));
}

fn synced(report: &SyncReport) {
    for entry in &report.entries {
        let verdict = entry.verdict.map_or("waits", |verdict| verdict.name());
        output::line(&format!("entry {}: {verdict}: {}", entry.number, output::name(&entry.command)));
        if let Some(detail) = entry.detail.as_ref().filter(|_| !entry.verdict.is_some_and(|v| v.is_final_for_client()))
        {
            output::note(&format!("entry {}: {detail}", entry.number));
        }
    }
    for path in &report.pulled.conflict_copies {
        output::note(&format!("your own bytes are kept as '{path}'"));
    }
    for note in &report.pulled.notes {
        output::note(note);
    }
    output::line(&format!(
        "version {}, {} pulled, {} sent, {} received",
        report.pulled.version,
        output::count(report.pulled.changed, "path"),
        output::bytes(report.sent),
        output::bytes(report.received)
    ));
}

fn as_json(copy: &WorkingCopy, event: &WatchEvent) -> Value {
    let seconds = |length: &Duration| length.as_secs();
    match event {
        WatchEvent::Started { polling } => {
            json!({ "event": "started", "folder": copy.path(), "process": std::process::id(), "polling": polling })
        }
        WatchEvent::Polling { detail } => json!({ "event": "polling", "detail": detail }),
        WatchEvent::Synced(report) => {
            let mut value = sync::as_json(report, copy.pending().map_or(0, |pending| pending.len()));
            value["event"] = json!("synced");
            value
        }
        WatchEvent::Offline { detail, next_try } => {
            json!({ "event": "offline", "detail": detail, "next_try_seconds": seconds(next_try) })
        }
        WatchEvent::Online => json!({ "event": "online" }),
        WatchEvent::Failed { detail, next_try } => {
            json!({ "event": "failed", "detail": detail, "next_try_seconds": seconds(next_try) })
        }
        WatchEvent::Paused { left } => json!({ "event": "paused", "seconds_left": left.as_ref().map(seconds) }),
        WatchEvent::Resumed => json!({ "event": "resumed" }),
        WatchEvent::Stopped => json!({ "event": "stopped" }),
    }
}

/// How the watch of a working copy stands, for `status`.
pub(super) struct Standing {
    state: Option<WatchState>,
    /// `Some(None)`: without an end.
    paused: Option<Option<Duration>>,
}

/// Asks the watch, if there is one.
pub(super) fn standing(copy: &WorkingCopy) -> Result<Standing, ClientError> {
    let state = wait(async { Ok(ask_status(copy).await) })?;
    Ok(Standing { state, paused: copy.paused()? })
}

impl Standing {
    pub(super) fn as_json(&self) -> Value {
        let mut value = json!({ "running": self.state.is_some(), "paused": self.paused.is_some() });
        if let Some(left) = self.paused {
            value["seconds_left"] = json!(left.map(|left| left.as_secs()));
        }
        if let Some(state) = &self.state {
            value["state"] = json!(state);
        }
        value
    }

    pub(super) fn print(&self) {
        if let Some(left) = self.paused {
            let end = left.map_or("until 'opship resume'".to_owned(), |l| format!("for {} more", duration::shown(l)));
            let none = if self.state.is_some() { "" } else { " (none runs)" };
            output::line(&format!("the watch is paused {end}{none}"));
            return;
        }
        let Some(state) = &self.state else { return };
        let seconds = |seconds: Option<u64>| duration::shown(Duration::from_secs(seconds.unwrap_or(0)));
        let next = seconds(state.next_try_seconds);
        let detail = output::name(state.detail.as_deref().unwrap_or_default());
        output::line(&match state.mode {
            Mode::Offline => {
                format!("watched; offline for {}, next try in {next}: {detail}", seconds(state.offline_seconds))
            }
            Mode::Failing => format!("watched; the last sync failed, next try in {next}: {detail}"),
            Mode::Syncing => "watched; a sync is at work".to_owned(),
            Mode::Watching | Mode::Paused => format!("watched by process {}", state.process),
        });
        if let Some(detail) = &state.polling {
            polls(detail);
        }
    }
}
