//! Compiling in a child process: the parent's side.

use crate::child::{EXIT_NOT_LOCKED, EXIT_REFUSED, LIMITS_VARIABLE, TARGET_VARIABLE};
use crate::error::{DETAIL, printable};
use crate::{ModuleError, ModuleLimits, Target};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Most bytes of the child's error output that are kept.
const MAX_STDERR: u64 = 8 << 10;
/// After this time a compile is a slow one.
const SLOW_AFTER: Duration = Duration::from_secs(5);
/// Threads of a compiling process at most: each takes address space of its limit.
const THREADS: usize = 8;

/// Why the child was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// It turned out slow where no more slow ones may be.
    Crowded,
    /// It took longer than its limit.
    TimedOut,
}

/// What came out of the child.
struct Ended {
    status: ExitStatus,
    artifact: Vec<u8>,
    stderr: String,
    killed: Option<Killed>,
}

/// Compiles `module` in a process of its own. `turn_slow` is called when that takes long; if it answers `false`, the process
/// is ended and there is no result.
///
/// The artifact is trusted: it becomes native code of this process. What guards it is that the child can do nothing but
/// compute, and that a module can only do harm through a flaw in the compiler itself, which would be the same flaw here.
pub(crate) fn in_child(
    program: &Path,
    arguments: &[OsString],
    target: Target,
    limits: &ModuleLimits,
    module: &[u8],
    turn_slow: &(dyn Fn() -> bool + Sync),
) -> Option<Result<Vec<u8>, ModuleError>> {
    match run(program, arguments, target, limits, module, turn_slow) {
        Ok(Ended { killed: Some(Killed::Crowded), .. }) => None,
        Ok(ended) => Some(judge(ended, limits)),
        Err(error) => {
            let detail = format!("the compiling process '{}' failed: {error}", program.display());
            Some(Err(ModuleError::Host { detail }))
        }
    }
}

fn judge(ended: Ended, limits: &ModuleLimits) -> Result<Vec<u8>, ModuleError> {
    let Ended { status, artifact, stderr, killed } = ended;
    let limit = |what: String| Err(ModuleError::CompileLimit { what });
    if killed.is_some() {
        return limit(format!("than {} s of time", limits.compile_wall_seconds));
    }
    if artifact.len() as u64 > limits.artifact_bytes {
        return limit(format!("than {} bytes for its compiled form", limits.artifact_bytes));
    }
    if status.success() && !artifact.is_empty() {
        return Ok(artifact);
    }
    let cpu = [Signal::XCPU.as_raw(), Signal::KILL.as_raw()];
    if status.signal().is_some_and(|signal| cpu.contains(&signal)) {
        return limit(format!("than {} s of processor time", limits.compile_cpu_seconds));
    }
    if stderr.contains("memory allocation of") || stderr.contains("out of memory") {
        return limit(format!("than {} MiB of memory", limits.compile_memory_bytes >> 20));
    }
    match status.code() {
        Some(code) if code == i32::from(EXIT_REFUSED) => Err(ModuleError::CompileFailed { detail: stderr }),
        Some(code) if code == i32::from(EXIT_NOT_LOCKED) => Err(ModuleError::Host { detail: stderr }),
        _ => Err(ModuleError::CompileFailed { detail: format!("the compiler ended with {status}: {stderr}") }),
    }
}

fn run(
    program: &Path,
    arguments: &[OsString],
    target: Target,
    limits: &ModuleLimits,
    module: &[u8],
    turn_slow: &(dyn Fn() -> bool + Sync),
) -> io::Result<Ended> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env(LIMITS_VARIABLE, format!("{} {}", limits.compile_memory_bytes, limits.compile_cpu_seconds))
        .env("RAYON_NUM_THREADS", threads.to_string())
        .env(TARGET_VARIABLE, target.name())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let ended = exchange(&mut child, limits, module, turn_slow);
    if ended.is_err() {
        // No zombie stays behind, whatever failed.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

fn exchange(
    child: &mut Child,
    limits: &ModuleLimits,
    module: &[u8],
    turn_slow: &(dyn Fn() -> bool + Sync),
) -> io::Result<Ended> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(io::Error::other("a pipe is missing"));
    };
    let handle = Pid::from_child(child);
    let handle = pidfd_open(handle, PidfdFlags::empty())?;
    let wall = Duration::from_secs(limits.compile_wall_seconds);
    thread::scope(|scope| {
        let (done, waiting) = mpsc::channel();
        let guard = thread::Builder::new().spawn_scoped(scope, move || guard(&handle, &waiting, wall, turn_slow))?;
        // A child that ends early closes its pipes: then writing and reading end, and its status says why.
        let writer = thread::Builder::new().spawn_scoped(scope, move || drop(stdin.write_all(module)))?;
        let errors = thread::Builder::new().spawn_scoped(scope, move || read_errors(stderr))?;
        let mut artifact = Vec::new();
        let read = stdout.take(limits.artifact_bytes.saturating_add(1)).read_to_end(&mut artifact);
        let (_, stderr) = (writer.join(), errors.join());
        let status = child.wait();
        drop(done);
        let killed = guard.join().unwrap_or(None);
        read?;
        Ok(Ended { status: status?, artifact, stderr: stderr.unwrap_or_default(), killed })
    })
}

/// Kills the child when it has not ended within `wall`, or is slow where it may not be, and says why it did.
fn guard(
    child: &OwnedFd,
    ended: &Receiver<()>,
    wall: Duration,
    turn_slow: &(dyn Fn() -> bool + Sync),
) -> Option<Killed> {
    let is_over = |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
    let quick = SLOW_AFTER.min(wall);
    if is_over(quick) {
        return None;
    }
    let killed = if quick < wall && !turn_slow() {
        Killed::Crowded
    } else if is_over(wall - quick) {
        return None;
    } else {
        Killed::TimedOut
    };
    // It may have ended in this moment; then there is nothing to kill.
    let _ = pidfd_send_signal(child, Signal::KILL);
    Some(killed)
}

fn read_errors(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not shown; the exit status decides.
    let _ = (&mut stderr).take(MAX_STDERR).read_to_end(&mut bytes);
    let _ = io::copy(&mut stderr, &mut io::sink());
    printable(String::from_utf8_lossy(&bytes).trim(), DETAIL)
}
