//! What this program does when it is called by another name: it runs the program of that name, and, in a working copy,
//! records what it did. Whatever fails here, the program runs.

use super::program::{Place, find, is_shim_name};
use super::recorder::hand_over;
use super::{DEPTH, Prepared, end_as};
use crate::output;
use opship_client::WorkingCopy;
use opship_client::native::{NativeCommand, Workspace};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A program that may not be run, and one that is not there, as a shell reports them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The name that this program was called by, if it is a shim's.
pub(crate) fn name(arguments: &[OsString]) -> Option<String> {
    let name = Path::new(arguments.first()?).file_name()?;
    // Whatever this program's file is called, that name is its own.
    let is_own = || std::env::current_exe().is_ok_and(|own| own.file_name() == Some(name));
    name.to_str().filter(|text| is_shim_name(text) && !is_own()).map(str::to_owned)
}

/// Runs the program of this name in this one's place.
pub(crate) fn run(name: &str, arguments: &[OsString]) -> ExitCode {
    let (first, rest) = arguments.split_first().unwrap_or((const { &OsString::new() }, &[]));
    recorded(name, first, rest).unwrap_or_else(|| in_place(name, first, rest))
}

/// `None`: nothing was started, and nothing is to be recorded.
fn recorded(name: &str, first: &OsStr, arguments: &[OsString]) -> Option<ExitCode> {
    let directory = std::env::current_dir().ok()?;
    opship_client::find_root(&directory).ok()?;
    if std::env::var_os(DEPTH).is_some() {
        return None;
    }
    let mapping = super::mapping(name).ok()?;
    let program = find(mapping.program.as_deref().unwrap_or(Path::new(name)), &Place::of_user())?;
    let copy = WorkingCopy::open_beside(&directory).ok()?;
    let workspace = Workspace::read(copy.path()).map_err(|error| error.to_string());
    let command = NativeCommand { name: name.to_owned(), arguments: arguments.to_vec(), directory };
    let prepared = Prepared::new(&copy, &mapping, workspace, program, command).ok()?;
    let (ended, status, recording) = prepared.run(&copy, first).ok()?;
    // Without it the next scan finds what changed.
    let _ = hand_over(&copy, &ended, &recording);
    Some(end_as(status))
}

/// Becomes the program.
fn in_place(name: &str, first: &OsStr, arguments: &[OsString]) -> ExitCode {
    let place = Place::of_user();
    let configured = super::mapping(name).ok().and_then(|mapping| mapping.program);
    let program = configured.and_then(|program| find(&program, &place)).or_else(|| find(Path::new(name), &place));
    let Some(program) = program else {
        output::error(&format!(
            "{name}: not found in PATH beside the shim; 'opship shims disable {name}' removes the shim"
        ));
        return ExitCode::from(NOT_FOUND);
    };
    let error = Command::new(&program).arg0(first).args(arguments).exec();
    output::error(&format!("{name}: cannot run '{}': {error}", program.display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}
