//! `opship init`, `clone` and `leave`.

use super::{bundle, here, sync, wait};
use crate::args::{Clone, Init, Leave};
use crate::{output, standard};
use opship_client::ClientError;
use opship_client::sync::{Newcomer, Source, SyncReport, clone as get, init as make};
use serde_json::json;
use std::path::Path;

pub(super) fn init(arguments: Init, json: bool) -> Result<(), ClientError> {
    let source = Source::new(arguments.server.parse()?, &arguments.workspace)?;
    let who = Newcomer { name: arguments.name.as_deref(), token: None };
    let (copy, made) = wait(make(&arguments.dir, &source, &who))?;
    if json {
        let folder = copy.path();
        output::json(
            &json!({ "folder": folder, "server": source.server.to_string(), "workspace": source.workspace, "made": made }),
        );
    } else {
        let what = if made { "a new workspace" } else { "an existing workspace" };
        output::line(&format!(
            "{} is a working copy of {what}, '{}' on {}",
            copy.path().display(),
            source.workspace,
            source.server
        ));
        output::line("next: 'opship run MODULE -- ARGS' records an operation, 'opship sync' ships it");
    }
    Ok(())
}

pub(super) fn clone(arguments: Clone, json: bool) -> Result<(), ClientError> {
    if let Some(file) = &arguments.bundle {
        let folder = bundled_folder(&arguments)?;
        return bundle::clone(file, folder, arguments.name.as_deref(), json);
    }
    let source: Source = arguments.source.unwrap_or_default().parse()?;
    let folder = arguments.dir.unwrap_or_else(|| source.workspace.clone().into());
    let who = Newcomer { name: arguments.name.as_deref(), token: None };
    let report = wait(get(&folder, &source, &who, standard::MODULES, &sync::Bars::new(json)))?;
    if json {
        output::json(&json!({
            "folder": folder,
            "version": report.pulled.version,
            "paths": report.pulled.changed,
            "sent": report.sent,
            "received": report.received,
            "seconds": report.seconds,
        }));
    } else {
        print_cloned(&folder, &report);
    }
    Ok(())
}

/// With a bundle there is no address, and what would be one is the folder.
fn bundled_folder(arguments: &Clone) -> Result<Option<&Path>, ClientError> {
    match (&arguments.source, &arguments.dir) {
        (Some(_), Some(_)) => Err(ClientError::Refused(
            "a bundle names its server and workspace itself; name the folder only: 'opship clone --bundle FILE DIR'"
                .to_owned(),
        )),
        (folder, _) => Ok(folder.as_deref().map(Path::new)),
    }
}

/// What came with a new working copy.
pub(super) fn print_cloned(folder: &Path, report: &SyncReport) {
    output::line(&format!(
        "{}: version {}, {}, {} received in {:.1} s",
        folder.display(),
        report.pulled.version,
        output::count(report.pulled.changed, "path"),
        output::bytes(report.received),
        report.seconds
    ));
}

pub(super) fn leave(arguments: &Leave, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let pending = copy.pending()?.len();
    if pending > 0 && !arguments.force {
        return Err(ClientError::Refused(format!(
            "{} not shipped yet; run 'opship sync' first, or 'opship leave --force' to lose them",
            output::count(pending as u64, "entry")
        )));
    }
    let folder = copy.path().to_owned();
    if !arguments.dry_run {
        copy.leave()?;
    }
    if json {
        output::json(&json!({ "folder": folder, "lost_entries": pending, "done": !arguments.dry_run }));
    } else {
        let verb = if arguments.dry_run { "would be" } else { "is" };
        output::line(&format!("{} {verb} an ordinary folder again; its files stay", folder.display()));
    }
    Ok(())
}
