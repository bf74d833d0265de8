//! Programs that log their own operations: they tell a local socket what they are about to do, and when it is done.
//!
//! docs/record-api.md is the manual. One operation at a time on a connection; several connections at once.

use super::capture::{Before, Place};
use super::job::{Ended, Head};
use super::pending::Recording;
use super::record::Recorded;
use super::words::typed;
use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use opship_residual::Hint;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UnixListener;

/// The socket's name in `.opship`.
const SOCKET: &str = "record.sock";
/// Held by who listens.
const LOCK: &str = "record.lock";
/// Longest line of a request.
const MAX_LINE: u64 = 1 << 20;
/// Most programs at once.
const MAX_CONNECTIONS: usize = 64;

/// What a program says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// It is about to do this.
    Begin(Operation),
    /// It has done what it said.
    End {
        /// The exit code that the module would give.
        exit: u8,
    },
}

/// What a program is about to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    /// The module that does the same.
    module: String,
    /// Its arguments, without the first.
    #[serde(default)]
    arguments: Vec<String>,
    /// Paths that the program may destroy, from the working copy's root.
    #[serde(default)]
    inputs: Vec<String>,
    /// The module's current directory.
    #[serde(default)]
    directory: String,
    /// The file that is the module's standard input.
    stdin: Option<String>,
    /// The file that the module's standard output goes to.
    stdout: Option<String>,
    /// What to ship where the module writes other bytes; absent: `auto`.
    hint: Option<String>,
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    /// What it may destroy is captured.
    Begun {},
    /// What became of it.
    Recorded {
        #[serde(rename = "as")]
        kind: &'static str,
        entry: Option<u64>,
        reason: Option<&'static str>,
        detail: Option<String>,
    },
    /// It was not understood, or cannot be done; the connection goes on.
    Failed { detail: String },
}

/// An operation that has begun.
struct Begun {
    before: Before,
    operation: Operation,
    recording: Recording,
}

/// Records a program that has ended.
pub type Record = Arc<dyn Fn(&WorkingCopy, &Ended) -> Result<Recorded, ClientError> + Send + Sync>;

/// Listens and records until the process ends. `ready` is called once programs may connect.
///
/// # Errors
/// [`ClientError::Refused`] if another process listens; [`ClientError::Io`].
pub async fn serve_records(copy: &WorkingCopy, record: Record, ready: impl FnOnce()) -> Result<(), ClientError> {
    let failed = || ClientError::io("listening on '.opship/record.sock'");
    let Some(_lock) = copy.shared.try_lock(LOCK)? else {
        return Err(ClientError::Refused("another 'opship record-api' serves this folder; use that one".to_owned()));
    };
    let (path, _folder) = socket_path(copy)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed()(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed())?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed())?;
    ready();
    let places = Arc::new(());
    loop {
        let (stream, _) = listener.accept().await.map_err(failed())?;
        // The folder is closed to others; root may come through, and is another.
        let own = rustix::process::geteuid().as_raw();
        if !stream.peer_cred().is_ok_and(|peer| peer.uid() == own) || Arc::strong_count(&places) > MAX_CONNECTIONS {
            continue;
        }
        let stream =
            stream.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream)).map_err(failed())?;
        let (copy, record, place) = (copy.clone(), record.clone(), places.clone());
        let thread = std::thread::Builder::new().name("records".to_owned()).spawn(move || {
            let _place = place;
            if let Err(error) = serve(&copy, stream, &record) {
                tracing::debug!(%error, "a program's connection broke");
            }
        });
        thread.map_err(failed())?;
    }
}

/// The socket's path, by way of a descriptor of the folder: a socket's path has at most 107 bytes.
fn socket_path(copy: &WorkingCopy) -> Result<(PathBuf, File), ClientError> {
    let folder = File::open(copy.own_folder()).map_err(ClientError::io("opening '.opship'"))?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET), folder))
}

/// Answers one program until it leaves. What it has begun then is found by the next scan.
fn serve(copy: &WorkingCopy, stream: UnixStream, record: &Record) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let mut begun = None;
    loop {
        let mut text = Vec::new();
        if (&mut reader).take(MAX_LINE).read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        let reply = answer(copy, record, &text, &mut begun);
        let reply = reply.unwrap_or_else(|error| Reply::Failed { detail: error.to_string() });
        writer.write_all(format!("{}\n", serde_json::json!(reply)).as_bytes())?;
        // The rest of a line that is too long would pass for another.
        if !text.ends_with(b"\n") {
            return Ok(());
        }
    }
}

fn answer(copy: &WorkingCopy, record: &Record, text: &[u8], begun: &mut Option<Begun>) -> Result<Reply, ClientError> {
    let refused = |detail: String| Err(ClientError::Refused(detail));
    match serde_json::from_slice(text) {
        Ok(Request::Begin(_)) if begun.is_some() => {
            refused("an operation has begun already; say 'end' first".to_owned())
        }
        Ok(Request::Begin(operation)) => {
            *begun = Some(begin(copy, operation)?);
            Ok(Reply::Begun {})
        }
        Ok(Request::End { exit }) => match begun.take() {
            Some(operation) => {
                let (ended, _recording) = operation.ended(exit);
                record(copy, &ended).map(reply)
            }
            None => refused("nothing has begun; say 'begin' first".to_owned()),
        },
        Err(error) => refused(format!("not understood: {error}; see docs/record-api.md")),
    }
}

fn begin(copy: &WorkingCopy, operation: Operation) -> Result<Begun, ClientError> {
    let path = |text: &String| TreePath::new(text.clone()).map_err(|error| ClientError::Refused(error.to_string()));
    let place = Place {
        directory: path(&operation.directory)?,
        stdin: operation.stdin.as_ref().map(path).transpose()?,
        stdout: operation.stdout.as_ref().map(path).transpose()?,
    };
    let inputs = operation.inputs.iter().map(path).collect::<Result<BTreeSet<_>, _>>()?;
    if let Some(hint) = &operation.hint {
        hint.parse::<Hint>().map_err(|error| ClientError::Refused(error.to_string()))?;
    }
    let recording = copy.begin_native()?;
    let before = Before::gather(copy, place, &inputs, &[])?;
    Ok(Begun { before, operation, recording })
}

impl Begun {
    fn ended(self, exit: u8) -> (Ended, Recording) {
        let Operation { module, arguments, hint, .. } = self.operation;
        let line = std::iter::once(&module).chain(&arguments).map(|word| Cow::from(word.as_str()));
        let head = Head {
            line: typed(line),
            name: module.clone(),
            module,
            hint: hint.unwrap_or_else(|| Hint::default().to_string()),
            arguments: arguments.into_iter().map(|argument| argument.into_bytes().into()).collect(),
            exit: Some(exit),
            refused: None,
            start: self.before.start,
        };
        (Ended { head, held: self.before.held }, self.recording)
    }
}

fn reply(recorded: Recorded) -> Reply {
    let (kind, entry, reason, detail) = match recorded {
        Recorded::Nothing => ("nothing", None, None, None),
        Recorded::Operation { entry } => ("operation", Some(entry), None, None),
        Recorded::Value { entry, reason, detail } => ("value", entry, Some(reason.name()), Some(detail)),
    };
    Reply::Recorded { kind, entry, reason, detail }
}
