//! What a program that is started inherits (close_range(2)).

use std::io;

/// From here on no program that this process starts inherits any descriptor from `first` on, also none that this process
/// was given itself. Linux 5.11 or newer.
///
/// # Errors
/// The operating system's, of an older one.
#[allow(unsafe_code)]
pub fn keep_from_programs(first: u32) -> io::Result<()> {
    // SAFETY: the call sets a flag of open descriptors of this process, which takes effect only when a program is started;
    // no descriptor is closed, so no owner of one is affected.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    #[test]
    fn a_program_does_not_find_what_it_would_have_inherited() {
        let file = tempfile::tempfile().unwrap();
        // A copy that would be inherited.
        #[allow(unsafe_code)]
        // SAFETY: duplicates an open descriptor; the copy is used as a number only and goes with the process.
        let copy = unsafe { libc::dup(file.as_raw_fd()) };
        let is_there = || Command::new("test").args(["-e", &format!("/proc/self/fd/{copy}")]).status().unwrap();
        assert!(is_there().success());
        keep_from_programs(3).unwrap();
        assert!(!is_there().success());
    }
}
