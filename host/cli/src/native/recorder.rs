//! Recording a program that has ended: here, or in a process of its own that nobody waits for.

use super::super::commands::{book, run::engine};
use crate::output;
use opship_client::native::{Ended, Recorded, Recorder, Recording};
use opship_client::watch::nudge;
use opship_client::{ClientError, WorkingCopy};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The hidden command that records.
pub(crate) const COMMAND: &str = "__record";
/// How long a shim waits for the recording of its program: what is recorded by then is there for the next command.
const BUDGET: Duration = Duration::from_millis(50);
/// The lowest priority (setpriority(2)).
const NICE: i32 = 19;

/// Records in this process, and says what became of it.
pub(super) fn record_here(copy: &WorkingCopy, ended: &Ended, status: ExitStatus, json: bool) {
    let recorded = record(copy, ended);
    if json {
        let mut value = json!({ "native": true, "exit": status.code(), "signal": status.signal() });
        match &recorded {
            Ok(Recorded::Nothing) => {}
            Ok(Recorded::Operation { entry }) => value["entry"] = json!(entry),
            Ok(Recorded::Value { entry, reason, detail }) => {
                (value["entry"], value["reason"], value["detail"]) =
                    (json!(entry), json!(reason.name()), json!(detail));
            }
            Err(error) => value["error"] = json!(error.to_string()),
        }
        return output::note_json(&value);
    }
    match recorded {
        Ok(Recorded::Value { reason, detail, .. }) => {
            output::note(&format!("what changed goes by value ({}): {detail}", reason.name()));
        }
        Ok(_) => {}
        Err(error) => output::note(&format!("what changed goes by value: {error}")),
    }
}

pub(crate) fn record(copy: &WorkingCopy, ended: &Ended) -> Result<Recorded, ClientError> {
    crate::raise_descriptor_limit();
    let book = book(copy)?;
    let recorded = Recorder { copy, book: &book, engine: &engine }.record(ended)?;
    nudge(copy);
    Ok(recorded)
}

/// Hands a program that has ended to a process that records it, and waits a little for that.
pub(super) fn hand_over(copy: &WorkingCopy, ended: &Ended, recording: &Recording) -> Result<(), ClientError> {
    let failed = || ClientError::io("starting the recording of a native run");
    // A pipe that this process was given must not stay open in one that nobody waits for.
    opship_sys::keep_from_programs(3).map_err(failed())?;
    let document = ended.hand_over()?;
    recording.hand_over()?;
    let mut file = tempfile_without_name(copy)?;
    file.write_all(&document).and_then(|()| file.rewind()).map_err(failed())?;
    let program = std::env::current_exe().map_err(failed())?;
    let mut command = Command::new(program);
    command.arg0("opship").arg(COMMAND).current_dir(copy.path());
    command.stdin(Stdio::from(file)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed())?;
    let begun = Instant::now();
    while begun.elapsed() < BUDGET && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn tempfile_without_name(copy: &WorkingCopy) -> Result<File, ClientError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(copy.own_folder().join("staging"), flags, Mode::from_raw_mode(0o600));
    opened.map(File::from).map_err(ClientError::io("making a file in '.opship/staging'"))
}

/// The process that nobody waits for.
pub(crate) fn main() -> ExitCode {
    // Out of the caller's session, so that its terminal's end is not the end of this.
    let _ = rustix::process::setsid();
    let _ = rustix::process::setpriority_process(None, NICE);
    match record_handed_over() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads it; the files are as the program left them, and the next scan finds them.
        Err(_) => ExitCode::from(output::FAILURE),
    }
}

fn record_handed_over() -> Result<(), ClientError> {
    let mut document = Vec::new();
    std::io::stdin().read_to_end(&mut document).map_err(ClientError::io("reading what was handed over"))?;
    let ended = Ended::take_over(&document)?;
    let directory = std::env::current_dir().map_err(ClientError::io("finding the current folder"))?;
    record(&WorkingCopy::open(&directory)?, &ended).map(drop)
}
