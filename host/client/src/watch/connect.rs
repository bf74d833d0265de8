//! A command's end of the socket.

use super::protocol::{MAX_LINE, Reply, Request, line, socket_path};
use super::state::WatchState;
use crate::budget::LinkChoice;
use crate::sync::{Progress, SyncReport};
use crate::{ClientError, WorkingCopy};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// How long a watch may take to say how it stands: it never waits for its own work with that.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watch that syncs may give no sign of life; it gives one each second.
const LIFELESS: Duration = Duration::from_secs(10);

/// How a watch that was asked to sync answered.
#[derive(Debug)]
pub enum Asked {
    /// There is none, or it ended before it was done: whoever asks does it himself.
    Nobody,
    /// It is done.
    Done(Box<SyncReport>),
}

/// Asks the watch of this working copy to sync now, over a link of the user's choice, and waits for that.
///
/// # Errors
/// [`ClientError::Watch`] if the sync failed, or the watch does not answer.
pub async fn ask_sync(copy: &WorkingCopy, choice: &LinkChoice, progress: &dyn Progress) -> Result<Asked, ClientError> {
    let request = Request::Sync(choice.clone());
    let Some(mut watch) = Connection::open(copy, &request).await else { return Ok(Asked::Nobody) };
    loop {
        let reply = tokio::time::timeout(LIFELESS, watch.reply()).await;
        match reply.map_err(|_| watch.lifeless())? {
            None => return Ok(Asked::Nobody),
            Some(Reply::Progress(what, done, total)) => progress.step(&what, done, total),
            Some(Reply::Done(report)) => return Ok(Asked::Done(report)),
            Some(Reply::Failed(detail)) => return Err(ClientError::Watch(detail)),
            Some(Reply::Alive | Reply::Status(_)) => {}
        }
    }
}

/// How the watch of this working copy stands; `None`: there is none.
pub async fn ask_status(copy: &WorkingCopy) -> Option<WatchState> {
    let mut watch = Connection::open(copy, &Request::Status).await?;
    match tokio::time::timeout(PATIENCE, watch.reply()).await {
        Ok(Some(Reply::Status(state))) => Some(state),
        _ => None,
    }
}

/// Tells the watch, if there is one, to look at the folder, the log and the pause. Without one nobody needs to know.
pub fn nudge(copy: &WorkingCopy) {
    let Ok((path, _folder)) = socket_path(copy) else { return };
    if let Ok(mut stream) = std::os::unix::net::UnixStream::connect(path) {
        let _ = std::io::Write::write_all(&mut stream, &line(&Request::Look));
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    async fn open(copy: &WorkingCopy, request: &Request) -> Option<Connection> {
        let (path, _folder) = socket_path(copy).ok()?;
        let mut stream = UnixStream::connect(path).await.ok()?;
        stream.write_all(&line(request)).await.ok()?;
        Some(Connection(BufReader::new(stream)))
    }

    /// What to say of a watch that does not answer.
    fn lifeless(&self) -> ClientError {
        let seconds = LIFELESS.as_secs();
        let process = self.0.get_ref().peer_cred().ok().and_then(|peer| peer.pid());
        ClientError::Watch(match process {
            Some(process) => format!(
                "the watch of this folder, process {process}, does not answer (for {seconds} s); if it was stopped, \
                 'kill -CONT {process}' lets it go on; 'kill -KILL {process}' ends it, and nothing is lost by that: then \
                 run this again"
            ),
            None => format!("the watch of this folder does not answer (for {seconds} s); end it, then run this again"),
        })
    }

    /// The next reply; `None` when there are no more.
    async fn reply(&mut self) -> Option<Reply> {
        let mut text = Vec::new();
        (&mut self.0).take(MAX_LINE).read_until(b'\n', &mut text).await.ok()?;
        serde_json::from_slice(&text).ok()
    }
}
