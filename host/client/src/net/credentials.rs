//! Which token goes to which server.

use super::ServerUrl;
use crate::ClientError;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Environment variable that holds a token and comes before everything else.
const TOKEN_VARIABLE: &str = "OPSHIP_TOKEN";

/// Finds the token for a server: the variable `OPSHIP_TOKEN`, else, for a server of the same user on loopback, the admin token
/// that the server's registration in the user's state folder points to.
///
/// # Errors
/// [`ClientError::Unreachable`] says which ways there are if none is at hand.
pub fn token_for(server: &ServerUrl) -> Result<String, ClientError> {
    if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
        return Ok(token);
    }
    let local = server.is_loopback().then(|| registration(server)).flatten();
    local.ok_or_else(|| ClientError::Unreachable {
        server: server.to_string(),
        detail: format!(
            "no token is at hand, and no server of this user runs there; start it with 'opship serve', or set {TOKEN_VARIABLE}"
        ),
    })
}

fn registration(server: &ServerUrl) -> Option<String> {
    let address = server.host().parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let file = state_folder()?.join("opship/servers").join(format!("{address}_{}", server.port()));
    let registration: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let token = fs::read_to_string(registration.get("token_file")?.as_str()?).ok()?;
    Some(token.trim().to_owned())
}

fn state_folder() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))
}
