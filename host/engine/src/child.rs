//! Compiling in a child process: the child's side. It gives up every right but to compute before it reads a byte.

use crate::{Target, profile};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use seccompiler::SeccompCmpArgLen::{self, Dword, Qword};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// The variable that the parent passes the limits in: bytes of address space and seconds of processor time.
pub(crate) const LIMITS_VARIABLE: &str = "OPSHIP_COMPILE_LIMITS";
/// Niceness of a compiling process: before long replays, behind everything that somebody waits for.
const NICE: i32 = 10;
/// The variable that the parent passes the target's name in.
pub(crate) const TARGET_VARIABLE: &str = "OPSHIP_COMPILE_TARGET";
/// Exit code: the compiler refused the module.
pub(crate) const EXIT_REFUSED: u8 = 3;
/// Exit code: the process could not be locked down and so compiled nothing.
pub(crate) const EXIT_NOT_LOCKED: u8 = 4;

/// The whole of a compiling process ([`crate::Compiler::Child`]): gives up all rights, reads a module from standard input and
/// writes its compiled form to standard output. Call it first thing in `main`, before any thread is started.
pub fn compile_child_main() -> ExitCode {
    let locked = target().and_then(|target| {
        let (memory, cpu) = limits()?;
        lock_down(memory, cpu)?;
        Ok(target)
    });
    let target = match locked {
        Ok(target) => target,
        Err(error) => {
            eprintln!("the compiling process cannot be locked down ({error}); a Linux kernel with seccomp is needed");
            return ExitCode::from(EXIT_NOT_LOCKED);
        }
    };
    match compile(target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(detail) => {
            eprintln!("{detail}");
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

fn compile(target: Target) -> Result<(), String> {
    let mut module = Vec::new();
    io::stdin().lock().read_to_end(&mut module).map_err(|error| error.to_string())?;
    let engine = profile::config(target).and_then(|settings| wasmtime::Engine::new(&settings));
    let engine = engine.map_err(|error| format!("{error:#}"))?;
    let artifact = engine.precompile_module(&module).map_err(|error| format!("{error:#}"))?;
    io::stdout().lock().write_all(&artifact).map_err(|error| error.to_string())
}

fn target() -> io::Result<Target> {
    let name = variable(TARGET_VARIABLE)?;
    Target::ALL.into_iter().find(|target| target.name() == name).ok_or_else(|| not_set(TARGET_VARIABLE))
}

fn limits() -> io::Result<(u64, u64)> {
    let invalid = || not_set(LIMITS_VARIABLE);
    let text = variable(LIMITS_VARIABLE)?;
    let (memory, cpu) = text.split_once(' ').ok_or_else(invalid)?;
    Ok((memory.parse().map_err(|_| invalid())?, cpu.parse().map_err(|_| invalid())?))
}

fn variable(name: &str) -> io::Result<String> {
    std::env::var(name).map_err(|_| not_set(name))
}

fn not_set(variable: &str) -> io::Error {
    io::Error::other(format!("{variable} is not set; only opship starts this command"))
}

/// Leaves this process nothing but to compute, read and write the descriptors that it has, and end: no files, no network, no
/// other process, no executable memory, and at most `memory_bytes` of address space and `cpu_seconds` of processor time, at a
/// low priority. It also ends when its parent does. There is no way back.
///
/// # Errors
/// The operating system's. Then the process must not go on.
pub fn lock_down(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Before any thread is made, which then has it too. Nobody may raise himself, so a lower priority stays.
    let nice = rustix::process::getpriority_process(None)?.max(NICE);
    rustix::process::setpriority_process(None, nice)?;
    let limits = [
        (Resource::As, memory_bytes),
        (Resource::Cpu, cpu_seconds),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nofile, 3),
    ];
    for (resource, limit) in limits {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    let apply = |filter: Result<BpfProgram, BackendError>| {
        seccompiler::apply_filter_all_threads(&filter.map_err(io::Error::other)?).map_err(io::Error::other)
    };
    apply(no_clone3())?;
    apply(allow_list())
}

/// clone3 takes its flags by pointer, where a filter cannot look. The C library falls back to clone when told that clone3
/// does not exist.
fn no_clone3() -> Result<BpfProgram, BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, missing, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// What a compiling process may ask of the kernel. Everything else fails with EPERM.
fn allow_list() -> Result<BpfProgram, BackendError> {
    const PLAIN: [i64; 36] = [
        // The descriptors that it has.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_lseek,
        libc::SYS_ppoll,
        // Memory.
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_membarrier,
        // Threads. clone3 stays forbidden by the other filter.
        libc::SYS_clone3,
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_rseq,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_getcpu,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // Signals to itself.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        // Time and randomness.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
    ];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = PLAIN.into_iter().map(|call| (call, Vec::new())).collect();
    let not_executable = SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs()));
    rules.insert(libc::SYS_mmap, vec![only(2, Dword, not_executable.clone(), 0)?]);
    rules.insert(libc::SYS_mprotect, vec![only(2, Dword, not_executable, 0)?]);
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![only(0, Dword, SeccompCmpOp::MaskedEq(thread), thread)?]);
    // Aborting signals the own process; no other one can be reached.
    rules.insert(libc::SYS_tgkill, vec![only(0, Dword, SeccompCmpOp::Eq, u64::from(std::process::id()))?]);
    // Limits may be read, which the C library does for a thread's stack, but not set.
    rules.insert(libc::SYS_prlimit64, vec![only(2, Qword, SeccompCmpOp::Eq, 0)?]);
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, denied, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Allows a call whose argument `index` is so.
fn only(index: u8, length: SeccompCmpArgLen, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(index, length, operator, value)?])
}
