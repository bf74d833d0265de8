//! `opship admin invite`.

use super::{here, wait};
use crate::{duration, output};
use clap::{Args, ValueEnum};
use opship_client::budget::{LinkChoice, link_to};
use opship_client::net::{Api, InviteInfo, ServerUrl, admin_token_for};
use opship_client::sync::Source;
use opship_client::{ClientError, InviteLine};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// The name that the server will know the person by
    #[arg(required_unless_present_any = ["list", "revoke"])]
    name: Option<String>,
    /// What the person may do in the workspace
    #[arg(long, value_enum, required_unless_present_any = ["list", "revoke"])]
    role: Option<Role>,
    /// The workspace [default: that of the working copy]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// The server, as reached from here [default: that of the working copy, or http://127.0.0.1:7420]
    #[arg(long, value_name = "URL", env = "OPSHIP_SERVER")]
    server: Option<String>,
    /// The server's address as the person reaches it [default: as reached from here]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// For how long the line works
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration::parse)]
    expires: Duration,
    /// List the workspace's invites
    #[arg(long, conflicts_with_all = ["name", "role", "revoke"])]
    list: bool,
    /// Void an invite by its number, and the access of whoever used it
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["name", "role"])]
    revoke: Option<i64>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// See everything
    Read,
    /// Change files, run operations
    Write,
    /// Let others in too
    Admin,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

pub(super) fn invite(arguments: &Invite, json: bool) -> Result<(), ClientError> {
    let source = source(arguments)?;
    let token = admin_token_for(&source.server, Some(&source.workspace))?;
    let link = link_to(&source.server, &LinkChoice::default())?;
    let mut api = Api::new(source.server.clone(), token, &source.workspace).over(link);
    match (arguments.revoke, &arguments.name, arguments.role) {
        (Some(id), ..) => revoke(&mut api, id, arguments.dry_run, json),
        (None, Some(name), Some(role)) => create(&mut api, source, name, role, arguments, json),
        _ => list(&mut api, json),
    }
}

/// The server and workspace that are meant.
fn source(arguments: &Invite) -> Result<Source, ClientError> {
    let here = here().ok();
    let server = match (&arguments.server, &here) {
        (Some(server), _) => server.clone(),
        (None, Some(copy)) => copy.config().server.clone(),
        (None, None) => "http://127.0.0.1:7420".to_owned(),
    };
    let workspace = arguments.workspace.clone().or_else(|| Some(here?.config().workspace.clone()));
    let unnamed = || ClientError::Refused("which workspace? Name it with --workspace".to_owned());
    Source::new(server.parse()?, &workspace.ok_or_else(unnamed)?)
}

fn create(
    api: &mut Api,
    source: Source,
    name: &str,
    role: Role,
    arguments: &Invite,
    json: bool,
) -> Result<(), ClientError> {
    let address: ServerUrl = match &arguments.address {
        Some(address) => address.parse()?,
        None => source.server.clone(),
    };
    let (workspace, valid) = (&source.workspace, duration::shown(arguments.expires));
    if arguments.dry_run {
        output::line(&format!("'{name}' would be invited into '{workspace}' as '{}', for {valid}", role.name()));
        return Ok(());
    }
    let made = wait(api.create_invite(name, role.name(), arguments.expires.as_secs()))?;
    let line = InviteLine::new(Source::new(address.clone(), workspace)?, &made.secret).line();
    if json {
        output::json(&json!({ "id": made.id, "line": line, "expires": made.expires, "encrypted": made.encrypted }));
        return Ok(());
    }
    output::line(&line);
    output::note(&format!(
        "for '{name}', role '{}', works once within {valid}: opship join LINE; whoever has the line gets in, so hand it over in private",
        role.name()
    ));
    if address.is_loopback() {
        output::note(
            "the line names this machine's loopback address: elsewhere it works only through a tunnel to the same port; --address names another",
        );
    }
    if !made.encrypted || !address.is_loopback() {
        output::note(
            "connections to this address are not encrypted: whoever is on the way can read secret, token and contents, and change them; use a tunnel or a private network",
        );
    }
    Ok(())
}

fn list(api: &mut Api, json: bool) -> Result<(), ClientError> {
    let invites = wait(api.invites())?;
    if json {
        output::json(&json!({ "invites": invites }));
        return Ok(());
    }
    let mut rows = vec![["#", "name", "role", "state", "invited by"].map(str::to_owned).to_vec()];
    rows.extend(invites.iter().map(|invite| {
        vec![invite.id.to_string(), invite.name.clone(), invite.role.clone(), state(invite), invite.invited_by.clone()]
    }));
    output::table(&rows, &[0]);
    Ok(())
}

fn state(invite: &InviteInfo) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_millis(invite.expires).saturating_sub(now);
    match invite.state.as_str() {
        "open" => format!("open for {}", duration::shown(left)),
        state => state.to_owned(),
    }
}

fn revoke(api: &mut Api, id: i64, dry_run: bool, json: bool) -> Result<(), ClientError> {
    if dry_run {
        let known = wait(api.invites())?.into_iter().find(|invite| invite.id == id);
        let known = known.ok_or_else(|| ClientError::Refused(format!("there is no invite {id}; --list shows them")))?;
        output::line(&format!("invite {id}, for '{}', would be void", known.name));
        return Ok(());
    }
    let token = wait(api.revoke_invite(id))?;
    if json {
        output::json(&json!({ "id": id, "token_revoked": token }));
        return Ok(());
    }
    let and = if token { ", and so is the access of whoever used it" } else { "" };
    output::line(&format!("invite {id} is void{and}"));
    Ok(())
}
