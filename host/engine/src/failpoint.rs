//! Named points at which a test can have the process killed. Without the feature `failpoints` they are nothing.

/// Kills this process (SIGKILL: no destructor, no flush) if the environment's `OPSHIP_FAILPOINT` is `name`.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    if std::env::var_os("OPSHIP_FAILPOINT").is_some_and(|wanted| wanted == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal may come a moment later; nothing may happen meanwhile.
        loop {
            std::thread::park();
        }
    }
}

/// Nothing: the build is without `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_: &str) {}
