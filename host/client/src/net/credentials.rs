//! Which token goes to which server.

use super::ServerUrl;
use crate::ClientError;
use crate::layout::{make_private, replace_file};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Environment variable that holds a token and comes before everything else.
const TOKEN_VARIABLE: &str = "OPSHIP_TOKEN";

/// Finds the token for a workspace: the variable `OPSHIP_TOKEN` unless it is empty, else the one that joining the workspace gave, else, for a
/// server of the same user on loopback, the admin token that the server's registration in the user's state folder points
/// to, else one that joining another workspace of the same server gave. A token goes to the server that it is from and to
/// no other.
///
/// # Errors
/// [`ClientError::Unreachable`] says which ways there are if none is at hand.
pub fn token_for(server: &ServerUrl, workspace: &str) -> Result<String, ClientError> {
    let found = variable().or_else(|| joined(server, workspace)).or_else(|| local(server));
    found.or_else(|| joined_any(server)).ok_or_else(|| none(server))
}

/// As [`token_for`], for what administrators do, in a workspace or on the whole server: the server's own admin token comes
/// before one that joining gave.
///
/// # Errors
/// As [`token_for`].
pub fn admin_token_for(server: &ServerUrl, workspace: Option<&str>) -> Result<String, ClientError> {
    let found = variable().or_else(|| local(server)).or_else(|| joined(server, workspace?));
    found.or_else(|| joined_any(server)).ok_or_else(|| none(server))
}

/// Keeps a token that joining a workspace gave, in a file that only the user can read.
///
/// # Errors
/// [`ClientError::Io`]; [`ClientError::Refused`] without a home folder.
pub fn keep_token(server: &ServerUrl, workspace: &str, token: &str) -> Result<(), ClientError> {
    let folder = tokens_folder(server).ok_or_else(homeless)?;
    make_private(&folder)?;
    replace_file(&folder.join(workspace), format!("{token}\n").as_bytes())
}

fn variable() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// Makes sure that [`keep_token`] will have a place, before a token is asked for that comes only once.
///
/// # Errors
/// As [`keep_token`].
pub fn prepare_token(server: &ServerUrl) -> Result<(), ClientError> {
    let folder = tokens_folder(server).ok_or_else(homeless)?;
    make_private(&folder)?;
    let tried = tempfile::tempfile_in(&folder);
    tried.map(drop).map_err(ClientError::io(format!("writing into '{}'", folder.display())))
}

/// Is a token kept that joining this workspace gave?
pub fn has_joined(server: &ServerUrl, workspace: &str) -> bool {
    joined(server, workspace).is_some()
}

/// Does `OPSHIP_TOKEN` hold a token, so that it is used instead of those that are kept?
pub fn is_token_set() -> bool {
    variable().is_some()
}

fn homeless() -> ClientError {
    ClientError::Refused("there is no place for the token: set HOME or XDG_STATE_HOME".to_owned())
}

fn local(server: &ServerUrl) -> Option<String> {
    server.is_loopback().then(|| registration(server)).flatten()
}

/// `<state>/opship/tokens/<host>_<port>/<workspace>`: a file for each, so that two joins do not get into each other's way.
fn tokens_folder(server: &ServerUrl) -> Option<PathBuf> {
    Some(state_folder()?.join("opship/tokens").join(format!("{}_{}", server.host(), server.port())))
}

fn joined(server: &ServerUrl, workspace: &str) -> Option<String> {
    read_token(&tokens_folder(server)?.join(workspace))
}

fn joined_any(server: &ServerUrl) -> Option<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(tokens_folder(server)?).ok()?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    files.iter().find_map(|file| read_token(file))
}

fn read_token(file: &Path) -> Option<String> {
    let token = fs::read_to_string(file).ok()?.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

fn none(server: &ServerUrl) -> ClientError {
    let server = server.to_string();
    let detail = format!(
        "no token is at hand, and no server of this user runs there; ask its administrator for an invite and use it \
         with 'opship join', start it with 'opship serve' if it is yours, or set {TOKEN_VARIABLE}"
    );
    ClientError::Unreachable { server, detail }
}

fn registration(server: &ServerUrl) -> Option<String> {
    let address: IpAddr = server.host().parse().ok()?;
    // The registration of a server that was killed stays, and anybody may take its port then.
    if !own_process_listens(address, server.port()) {
        return None;
    }
    let file = state_folder()?.join("opship/servers").join(format!("{address}_{}", server.port()));
    let registration: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let token = fs::read_to_string(registration.get("token_file")?.as_str()?).ok()?;
    Some(token.trim().to_owned())
}

pub(crate) fn state_folder() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))
}

/// Does a process of this user listen there? Linux tells in `/proc/net/tcp` and `tcp6`: local address, state (0A listens)
/// and the user of each socket.
fn own_process_listens(address: IpAddr, port: u16) -> bool {
    let user = rustix::process::geteuid().as_raw().to_string();
    let file = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let Ok(sockets) = fs::read_to_string(file) else { return false };
    let wanted = [shown(address), shown(any(address))].map(|address| format!("{address}:{port:04X}"));
    sockets.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        matches!(fields.as_slice(), [_, local, _, "0A", _, _, _, owner, ..] if wanted.iter().any(|w| w == local) && *owner == user)
    })
}

fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// An address as the kernel prints it: words of 32 bits in the machine's byte order.
fn shown(address: IpAddr) -> String {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    words.map(|word| format!("{word:08X}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_of_this_user_is_known_and_an_unused_port_is_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let at = listener.local_addr().unwrap();
            assert!(own_process_listens(at.ip(), at.port()), "{at}");
            drop(listener);
            assert!(!own_process_listens(at.ip(), at.port()), "{at}");
        }
    }
}
