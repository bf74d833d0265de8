//! Programs of the user's own that run in the place of modules: by `opship run --native`, and by shims.

mod program;
pub(crate) mod recorder;
pub(crate) mod shim;

use crate::output;
use opship_client::budget::UserConfig;
use opship_client::native::{Before, Chosen, Ended, Exit, NativeCommand, NativeProgram, Recording, Workspace};
use opship_client::{ClientError, WorkingCopy};
use program::Place;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

pub(crate) use program::{Place as ShimPlace, find, is_shim_name};

/// Set in the environment of a program that is recorded: what it starts is not recorded by itself.
const DEPTH: &str = "OPSHIP_SHIM_DEPTH";

/// A program that is about to run, and what is known before.
struct Prepared {
    program: PathBuf,
    command: NativeCommand,
    /// What stands for it, or why the workspace forbids to record it.
    chosen: Result<Chosen, String>,
    before: Before,
    recording: Recording,
}

impl Prepared {
    /// Captures what the program may destroy.
    fn new(
        copy: &WorkingCopy,
        mapping: &NativeProgram,
        workspace: Result<Workspace, String>,
        program: PathBuf,
        command: NativeCommand,
    ) -> Result<Prepared, ClientError> {
        let chosen = workspace.map(|workspace| mapping.with(&command.name, &workspace));
        let inputs = chosen.as_ref().map_or(mapping.inputs.as_slice(), |chosen| &chosen.inputs);
        let recording = copy.begin_native()?;
        let before = Before::capture(copy, &command, inputs)?;
        Ok(Prepared { program, command, chosen, before, recording })
    }

    /// Runs the program to its end.
    fn run(self, copy: &WorkingCopy, first: &OsStr) -> io::Result<(Ended, ExitStatus, Recording)> {
        let Prepared { program, command, chosen, before, recording } = self;
        let status = launch(&program, first, &command.arguments)?;
        let exit = match (status.signal(), status.code()) {
            (Some(signal), _) => Exit::Signal(signal),
            (None, code) => Exit::Code(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)),
        };
        Ok((before.ended(copy, &command, chosen, exit), status, recording))
    }
}

/// Starts a program with this process's descriptors, directory and environment, and waits for it. Signals are the program's.
fn launch(program: &Path, first: &OsStr, arguments: &[OsString]) -> io::Result<ExitStatus> {
    opship_sys::stand_aside()?;
    let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse::<u32>().ok()).unwrap_or(0);
    let mut command = Command::new(program);
    let child = command.arg0(first).args(arguments).env(DEPTH, depth.saturating_add(1).to_string()).spawn();
    let mut child = child?;
    opship_sys::stand_beside(child.id());
    // Not reaped before nothing is passed on to it any more.
    wait_for_end(child.id());
    opship_sys::stand_alone();
    child.wait()
}

/// Waits until a child has ended and leaves it to be reaped.
fn wait_for_end(child: u32) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(child) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
    let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
}

/// Ends as the program ended.
fn end_as(status: ExitStatus) -> ExitCode {
    match status.signal() {
        Some(signal) => {
            opship_sys::end_by(signal);
            ExitCode::from(u8::try_from(signal).unwrap_or(0).saturating_add(128))
        }
        None => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)),
    }
}

/// What stands for a name: as configured, else the program of that name.
fn mapping(name: &str) -> Result<NativeProgram, ClientError> {
    Ok(UserConfig::of_user()?.native.remove(name).unwrap_or_default())
}

/// `opship run --native`.
pub(crate) fn run(name: &OsStr, arguments: &[OsString], json: bool) -> ExitCode {
    match try_run(name, arguments, json) {
        Ok(code) => code,
        Err(error) => output::failed(&error, json),
    }
}

fn try_run(name: &OsStr, arguments: &[OsString], json: bool) -> Result<ExitCode, ClientError> {
    let directory = std::env::current_dir().map_err(ClientError::io("finding the current folder"))?;
    let copy = WorkingCopy::open(&directory)?;
    let name = name.to_str().filter(|name| is_shim_name(name)).ok_or_else(|| {
        ClientError::Refused(format!("'{}' is no program's name; --native wants one without '/'", name.display()))
    })?;
    let mapping = mapping(name)?;
    let workspace = Workspace::read(copy.path())?;
    let Some(program) = find(mapping.program.as_deref().unwrap_or(Path::new(name)), &Place::of_user()) else {
        output::error(&format!("there is no program '{name}'; install it, or say where it is in config.toml"));
        return Ok(ExitCode::from(output::UNKNOWN_MODULE));
    };
    let command = NativeCommand { name: name.to_owned(), arguments: arguments.to_vec(), directory };
    let prepared = Prepared::new(&copy, &mapping, Ok(workspace), program, command)?;
    let failed = ClientError::io(format!("starting '{name}'"));
    let (ended, status, recording) = prepared.run(&copy, OsStr::new(name)).map_err(failed)?;
    recorder::record_here(&copy, &ended, status, json);
    drop(recording);
    Ok(end_as(status))
}
