//! `opship join`.

use super::{setup, sync, wait};
use crate::{output, standard};
use clap::Args;
use opship_client::net::{join as accept, keep_token};
use opship_client::sync::{SyncReport, clone, init};
use opship_client::{ClientError, InviteLine, WorkingCopy};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The line that 'opship admin invite' printed ('-': read it from standard input, which keeps it out of the shell's history)
    line: String,
    /// The folder; files in it stay and are added to the workspace [default: the workspace's name]
    dir: Option<PathBuf>,
    /// What others see this client called [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What is at the folder that is to become a working copy.
enum Place {
    /// Nothing, or an empty folder.
    Empty,
    /// A folder with files.
    Files,
    /// A working copy of the same workspace: only its token is new.
    WorkingCopy,
}

pub(super) fn join(arguments: &Join, json: bool) -> Result<(), ClientError> {
    let line: InviteLine = match arguments.line.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(ClientError::io("reading the line"))?.parse()?,
        line => line.parse()?,
    };
    let source = &line.source;
    let folder = arguments.dir.clone().unwrap_or_else(|| source.workspace.clone().into());
    // Looked at first: an invite works once, and should not be spent in vain.
    let place = place(&folder, &line)?;
    if arguments.dry_run {
        let (server, workspace) = (&source.server, &source.workspace);
        output::line(&format!("'{}' would be a working copy of '{workspace}' on {server}", folder.display()));
        return Ok(());
    }
    let (joined, token) = wait(accept(&line))?;
    keep_token(&source.server, &source.workspace, &token)?;
    if !json {
        let (name, role, workspace) = (&joined.name, &joined.role, &source.workspace);
        output::line(&output::name(&format!("you are '{name}' with the role '{role}' in '{workspace}'")));
    }
    let name = arguments.name.as_deref();
    let report = match place {
        Place::Empty => Some(wait(clone(&folder, source, name, standard::MODULES, &sync::Bars::new(json)))?),
        Place::Files => {
            wait(init(&folder, source, name))?;
            None
        }
        Place::WorkingCopy => None,
    };
    if json {
        output::json(&json!({
            "folder": folder, "server": source.server.to_string(), "workspace": source.workspace,
            "name": joined.name, "role": joined.role, "version": report.map(|report: SyncReport| report.pulled.version),
        }));
        return Ok(());
    }
    match report {
        Some(report) => setup::print_cloned(&folder, &report),
        None => output::line(&format!("{} is a working copy; next: 'opship sync' there", folder.display())),
    }
    Ok(())
}

fn place(folder: &Path, line: &InviteLine) -> Result<Place, ClientError> {
    if folder.join(".opship").exists() {
        let copy = WorkingCopy::open(folder)?;
        let same =
            copy.config().server == line.source.server.to_string() && copy.config().workspace == line.source.workspace;
        return if same { Ok(Place::WorkingCopy) } else { Err(ClientError::AlreadyWorkingCopy(folder.to_owned())) };
    }
    match std::fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(Place::Empty),
        Ok(false) => Ok(Place::Files),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Place::Empty),
        Err(error) => Err(ClientError::io(format!("looking into '{}'", folder.display()))(error)),
    }
}
