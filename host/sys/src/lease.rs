//! Leases (fcntl(2), "Leases"), used only to ask who has a file open.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Does any process, this one included, have the file open for writing?
///
/// `file` must be open for reading only. A read lease is granted only while nobody has the file open for writing; it
/// is given back at once.
///
/// # Errors
/// The operating system's: `EACCES` if the file belongs to another user, `EINVAL` if the file system has no leases.
pub fn is_open_for_writing(file: &File) -> io::Result<bool> {
    // Somebody who opens the file in the instant of the lease makes the kernel signal us. SIGURG instead of the default
    // SIGIO, because SIGIO ends a process that does not handle it and SIGURG is ignored by default.
    control(file, F_SETSIG, libc::SIGURG)?;
    match control(file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            control(file, libc::F_SETLEASE, libc::F_UNLCK)?;
            Ok(false)
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Linux's `F_SETSIG` (fcntl(2)); the same on all architectures.
const F_SETSIG: libc::c_int = 10;

#[allow(unsafe_code)]
fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call, since `file` is borrowed. All three commands that this is
    // called with (F_SETSIG, F_SETLEASE with F_RDLCK or F_UNLCK) take an integer, so that no memory is passed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_writer_is_seen_as_long_as_it_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(is_open_for_writing(&reader).unwrap());
        drop(writer);
        assert!(!is_open_for_writing(&reader).unwrap());
        // The lease was given back: opening for writing does not wait.
        let appender = OpenOptions::new().append(true).open(&path).unwrap();
        assert!(is_open_for_writing(&reader).unwrap());
        drop(appender);
    }

    #[test]
    fn readers_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let (reader, _other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        assert!(!is_open_for_writing(&reader).unwrap());
    }
}
