//! What commands and a watch say to each other over its socket: lines of JSON.

use super::state::WatchState;
use crate::budget::LinkChoice;
use crate::sync::SyncReport;
use crate::{ClientError, WorkingCopy};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Longest line.
pub(super) const MAX_LINE: u64 = 64 << 20;

/// What a command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// Sync now, over this link, and say how it went.
    Sync(LinkChoice),
    /// Look at the folder, the log and the pause.
    Look,
    /// Say how things stand.
    Status,
}

/// What the watch says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// A sync is at work: what, how much of it is done, of how much.
    Progress(String, u64, u64),
    /// It is at work, or waits to be: told each second.
    Alive,
    /// The sync is done.
    Done(Box<SyncReport>),
    /// The sync failed.
    Failed(String),
    /// How things stand.
    Status(WatchState),
}

/// The socket's name in `.opship`.
const SOCKET: &str = "watch.sock";

/// The socket of a working copy's watch. The path of a socket has at most 107 bytes, and that of a working copy may have
/// more: so it is named by way of a descriptor of the folder, which must stay open meanwhile.
pub(super) fn socket_path(copy: &WorkingCopy) -> Result<(PathBuf, File), ClientError> {
    let folder = File::open(copy.own_folder()).map_err(ClientError::io("opening '.opship'"))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET);
    Ok((path, folder))
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::json!(message).to_string().into_bytes();
    line.push(b'\n');
    line
}
