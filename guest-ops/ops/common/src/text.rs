//! Bytes as names, errors as people expect them from these programs.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

#[cfg(unix)]
use std::os::unix::ffi::{OsStrExt, OsStringExt};
#[cfg(target_os = "wasi")]
use std::os::wasi::ffi::{OsStrExt, OsStringExt};

/// The name that `bytes` are; any bytes are a name.
#[must_use]
pub fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// The owned name that `bytes` are.
#[must_use]
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// An error in words, without the errno's number, which differs between WASI and the host.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Writes a line to standard error. Where that is closed there is nobody to tell; it is no reason to
/// fail, let alone to panic as `eprintln!` does.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes text to standard output.
///
/// # Errors
/// As writing to any file.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_number_of_an_errno_is_not_shown() {
        let error = std::fs::File::open("/nonexistent/file").unwrap_err();
        assert_eq!(reason(&error), "No such file or directory");
        assert_eq!(reason(&io::Error::other("odd")), "odd");
    }
}
