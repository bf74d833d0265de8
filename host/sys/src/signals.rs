//! Standing beside a program that was started in one's own place (sigaction(2)).
//!
//! What a terminal sends goes to the whole process group, so the program has it already; what is sent to this process alone
//! is passed on. A signal that the caller had ignored stays ignored, here and in the program.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

/// The program; 0 before it was started and after it has ended.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that came before the program was started.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// What a terminal sends to all that run in it.
const FROM_TERMINAL: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];
/// What is meant for the program.
const PASSED_ON: [i32; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// From here on signals do not end this process: SIGINT and SIGQUIT are left to the program, SIGTERM, SIGHUP and the two
/// user signals are passed on to it. Call it before the program is started; it inherits the defaults, since what a process
/// handles itself is reset in a program that it starts.
///
/// # Errors
/// The operating system's.
pub fn stand_aside() -> io::Result<()> {
    FROM_TERMINAL.into_iter().try_for_each(|signal| handle(signal, leave))?;
    PASSED_ON.into_iter().try_for_each(|signal| handle(signal, pass_on))
}

/// The program has this process id and was not waited for yet. What came before it was there is passed on now.
pub fn stand_beside(program: u32) {
    PROGRAM.store(i32::try_from(program).unwrap_or(0), Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        pass_on(early);
    }
}

/// The program has ended: nothing is passed on any more, since its id may be another's soon.
pub fn stand_alone() {
    PROGRAM.store(0, Ordering::SeqCst);
}

/// Ends this process by a signal, as the program was ended, so that whoever waits sees the same. No core is dumped. It
/// returns only for a signal that does not end a process.
#[allow(unsafe_code)]
pub fn end_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: all arguments are plain values or live as long as the call; the calls change this process's own settings only.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Sets a handler for a signal that is not ignored.
#[allow(unsafe_code)]
fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid value of the type, with an empty mask; the handler has the type that is called
    // without SA_SIGINFO, and does only what is safe in a handler. Both pointers live as long as the calls.
    let result = unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(signal, std::ptr::null(), &raw mut before) == -1 || before.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn leave(_signal: i32) {}

#[allow(unsafe_code)]
extern "C" fn pass_on(signal: i32) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program <= 0 {
        EARLY.store(signal, Ordering::SeqCst);
        return;
    }
    // SAFETY: kill(2) may be called in a handler; errno, which it may set, is put back, so that who was interrupted does not
    // see it change.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::kill(program, signal);
        *errno = before;
    }
}
