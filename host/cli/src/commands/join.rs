//! `opship join`.

use super::{setup, sync, wait};
use crate::{output, standard};
use clap::Args;
use opship_client::net::{has_joined, is_token_set, join as accept, keep_token, prepare_token};
use opship_client::sync::{Newcomer, Source, SyncReport, clone, init, is_free, prepare};
use opship_client::{ClientError, InviteLine, WorkingCopy};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What makes a folder a working copy.
const STATE: &str = ".opship/state.db";

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
    prepare_token(&source.server)?;
    let prepared = prepare(&folder)?;
    let (joined, token) = match wait(accept(&line)) {
        Ok(accepted) => accepted,
        Err(error) => {
            prepared.undo();
            if has_joined(&source.server, &source.workspace) {
                output::note(&format!("a token for this workspace is kept here already; {}", next(&folder, source)));
            }
            return Err(error);
        }
    };
    keep_token(&source.server, &source.workspace, &token)?;
    if !json {
        let (name, role, workspace) = (&joined.name, &joined.role, &source.workspace);
        output::line(&output::name(&format!("you are '{name}' with the role '{role}' in '{workspace}'")));
    }
    if is_token_set() {
        output::note("OPSHIP_TOKEN is set and comes before the token that joining gave; unset it to use that one");
    }
    let who = Newcomer { name: arguments.name.as_deref(), token: Some(&token) };
    let report = fill(&place, &folder, source, &who, json).inspect_err(|_| {
        output::note(&format!("the invite is used, and its token is kept; {}", next(&folder, source)))
    })?;
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

/// Makes the working copy.
fn fill(
    place: &Place,
    folder: &Path,
    source: &Source,
    who: &Newcomer<'_>,
    json: bool,
) -> Result<Option<SyncReport>, ClientError> {
    match place {
        Place::Empty => wait(clone(folder, source, who, standard::MODULES, &sync::Bars::new(json))).map(Some),
        Place::Files => wait(init(folder, source, who)).map(|_| None),
        Place::WorkingCopy => Ok(None),
    }
}

/// What goes on from a join that did not come to its end.
fn next(folder: &Path, source: &Source) -> String {
    let shown = folder.display();
    match folder.join(STATE).exists() {
        true => format!("go on with 'opship sync' in '{shown}'"),
        false => format!("go on with 'opship clone {}/{} {shown}'", source.server, source.workspace),
    }
}

fn place(folder: &Path, line: &InviteLine) -> Result<Place, ClientError> {
    if folder.join(STATE).exists() {
        let copy = WorkingCopy::open(folder)?;
        let same =
            copy.config().server == line.source.server.to_string() && copy.config().workspace == line.source.workspace;
        return if same { Ok(Place::WorkingCopy) } else { Err(ClientError::AlreadyWorkingCopy(folder.to_owned())) };
    }
    Ok(if is_free(folder)? { Place::Empty } else { Place::Files })
}
