//! Running programs: shown, captured, logged, teed, or under a time limit.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A command without what cargo told this program about itself: left in, build scripts that watch
/// such variables would run again for every switch between `cargo xtask` and plain cargo.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let about_us = name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || ["CARGO_PRIMARY_PACKAGE", "CARGO_BIN_NAME", "OUT_DIR"].contains(&name);
        if about_us {
            command.env_remove(name);
        }
    }
    command
}

/// Where on PATH a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs a program on our own terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(start_error(command))?;
    check(command, status, String::new)
}

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(start_error(command))?;
    check(command, output.status, || indented(&String::from_utf8_lossy(&output.stderr)))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program with all it prints in a log, which is shown only when it fails or takes longer
/// than `limit`; past the limit it is ended.
pub(crate) fn run_logged(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let file = File::create(log).map_err(Error::io("write", log))?;
    let copy = file.try_clone().map_err(Error::io("write", log))?;
    let mut child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn().map_err(start_error(command))?;
    let end = Instant::now() + limit;
    let mut late = String::new();
    let status = loop {
        let ended = child.try_wait().map_err(start_error(command))?;
        if let Some(status) = ended {
            break status;
        }
        if Instant::now() >= end {
            late = format!("\n    it was ended after {} s", limit.as_secs_f64());
            child.kill().map_err(start_error(command))?;
            break child.wait().map_err(start_error(command))?;
        }
        thread::sleep(Duration::from_millis(20));
    };
    check(command, status, || {
        let text = fs::read(log).unwrap_or_default();
        indented(&String::from_utf8_lossy(&text)) + &late
    })
}

/// Runs a program, showing what it prints as it comes, and returns the same text, standard output
/// first. How the program ended is the caller's to check.
pub(crate) fn tee(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start_error(command))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let copied = thread::scope(|scope| {
        let errors = scope.spawn(|| copy_lines(stderr, io::stderr()));
        let mut text = copy_lines(stdout, io::stdout())?;
        let errors = errors.join().map_err(|_| io::Error::other("the reading thread ended early"))??;
        text.push_str(&errors);
        Ok(text)
    });
    let text = copied.map_err(start_error(command))?;
    let status = child.wait().map_err(start_error(command))?;
    Ok((status, text))
}

/// The error of a command that ran and failed.
pub(crate) fn check(command: &Command, status: ExitStatus, output: impl FnOnce() -> String) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: shown(command), status, output: output() })
}

/// A command as one could type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn copy_lines(from: Option<impl Read>, mut to: impl Write) -> io::Result<String> {
    let mut text = String::new();
    let Some(from) = from else { return Ok(text) };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        text.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(text)
}

fn start_error(command: &Command) -> impl FnOnce(io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    move |source| Error::Start { program, source }
}

fn indented(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let last = &lines[lines.len().saturating_sub(40)..];
    last.iter().map(|line| format!("\n    {line}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn tee_returns_both_streams_and_the_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let (status, text) = tee(&mut command).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(text, "out\nerr\n");
    }

    #[test]
    fn logged_program_is_ended_at_its_limit_and_its_output_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 600"]);
        let error = run_logged(&mut command, &folder.path().join("log"), Duration::from_millis(300)).unwrap_err();
        let message = error.to_string();
        assert!(message.ends_with("it was ended after 0.3 s"), "{message}");
    }

    #[test]
    fn failure_shows_the_command_and_what_it_said() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no such thing >&2; exit 1"]);
        let message = output(&mut command).unwrap_err().to_string();
        assert!(message.starts_with("`sh -c"), "{message}");
        assert!(message.ends_with("\n    no such thing"), "{message}");
    }
}
